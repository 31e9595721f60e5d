//! `yeoul dfs`: the servers that a stock Hadoop client uses, and a client without a JVM.

mod client;
mod command_line;
mod conf;
mod servers;
mod verbs;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use tracing::level_filters::LevelFilter;

pub use command_line::prepared;

const EXAMPLES: &str = "\
Examples:
  yeoul dfs local --datanodes 3 --dir /tmp/dfs
  yeoul dfs --fs hdfs://127.0.0.1:8020 -put data.csv /
  yeoul dfs -ls hdfs://127.0.0.1:8020/
  hdfs dfs -fs hdfs://127.0.0.1:8020 -cat /data.csv

On several machines:
  yeoul dfs namenode --format --host 10.0.0.1 --dir /var/lib/yeoul/namenode
  yeoul dfs datanode --namenode 10.0.0.1:8020 --dir /data/1,/data/2 --rack /dc1/rack2

The Hadoop client needs fs.defaultFS=hdfs://10.0.0.1:8020 and nothing else; docs/dfs.md has the rest.
Verbs with a dash are those of Hadoop's shell, with its flags; they are known without the dash, too.

Exit code: 0 done or told to stop, 1 failed, 2 wrong usage.";

/// Keep files for the stock Hadoop client and everything that uses it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DfsArgs {
    #[command(subcommand)]
    verb: Verb,

    #[command(flatten)]
    conf: conf::Conf,

    /// What a server says on stderr: error, warn, info, debug, trace or off
    #[arg(long, global = true, value_name = "LEVEL", env = "YEOUL_LOG", default_value = "info")]
    log: LevelFilter,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Namenode(servers::NamenodeArgs),
    Datanode(servers::DatanodeArgs),
    Local(servers::LocalArgs),
    #[command(flatten)]
    Client(verbs::Verb),
}

/// Runs the verb until it is done, or, if it serves, until it was told to stop.
pub fn run(args: DfsArgs) -> ExitCode {
    match args.verb {
        Verb::Namenode(namenode) => servers::run(args.log, servers::serve_namenode(namenode, args.conf)),
        Verb::Datanode(datanode) => servers::run(args.log, servers::serve_datanode(datanode, args.conf)),
        Verb::Local(local) => servers::run(args.log, servers::serve_local(local, args.conf)),
        Verb::Client(verb) => client::run(verb, &args.conf),
    }
}
