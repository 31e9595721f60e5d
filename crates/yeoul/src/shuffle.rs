//! `yeoul shuffle`: the servers that a stock Celeborn client uses.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tracing::level_filters::LevelFilter;
use yeoul_base::ByteSize;
use yeoul_net::LogLevels;
use yeoul_settings::{Entry, Notice, properties};
use yeoul_shuffle::settings::{self, apply};
use yeoul_shuffle::{Error, Kind, Result, master, worker};

use crate::daemon::{Threads, announce, run as run_daemon};
use crate::exit::Stop;
use crate::exposure::warn_of_exposure;
use crate::memory::beyond_machine;
use crate::port::port;

/// Memory of a master that is not told how much it may use.
const MASTER_MEMORY_DEFAULT: ByteSize = ByteSize::from_gib(1);

const EXAMPLES: &str = "\
Examples:
  yeoul shuffle master --dir /var/lib/yeoul/master
  yeoul shuffle worker --master 127.0.0.1:9097 --dir /data/1,/data/2 --memory 4GiB
  yeoul shuffle worker --conf celeborn-defaults.conf

On several machines give the master an address; a worker finds its own:
  yeoul shuffle master --host 10.0.0.1 --dir /var/lib/yeoul/master
  yeoul shuffle worker --master 10.0.0.1:9097 --dir /data/1,/data/2 --memory 4GiB

Spark then needs the stock client's jar and these settings; docs/shuffle.md has the whole command:
  spark.shuffle.manager=org.apache.spark.shuffle.celeborn.SparkShuffleManager
  spark.celeborn.master.endpoints=127.0.0.1:9097
  spark.serializer=org.apache.spark.serializer.KryoSerializer
  spark.shuffle.service.enabled=false

What each of Celeborn's settings does here: docs/reference/shuffle-settings.md

Exit code: 0 told to stop, 1 failed, 2 wrong usage.";

/// Serve shuffles to the stock Celeborn client in Spark and to Sail
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ShuffleArgs {
    #[command(subcommand)]
    role: Role,

    /// What to say on stderr: error, warn, info, debug, trace or off
    #[arg(long, global = true, value_name = "LEVEL", env = "YEOUL_LOG", default_value = "info")]
    log: LevelFilter,
}

#[derive(Subcommand, Debug)]
enum Role {
    Master(MasterArgs),
    Worker(WorkerArgs),
}

/// Keep track of applications, shuffles and workers, and decide which worker takes which partition
#[derive(Args, Debug)]
struct MasterArgs {
    /// The address to listen on: 0.0.0.0 for every one of this machine [default: 127.0.0.1]
    #[arg(long, value_name = "HOST", env = "YEOUL_SHUFFLE_HOST")]
    host: Option<String>,

    /// The port for clients and workers; 0 takes a free one [default: 9097]
    #[arg(long, value_name = "PORT", env = "YEOUL_SHUFFLE_PORT", value_parser = port, allow_negative_numbers = true)]
    port: Option<u16>,

    /// The port for /api/v1 and /metrics/prometheus; 0 takes a free one [default: 9098]
    #[arg(long, value_name = "PORT", env = "YEOUL_SHUFFLE_HTTP_PORT", value_parser = port, allow_negative_numbers = true)]
    http_port: Option<u16>,

    /// The address to listen on for HTTP, which lets whoever reaches it delete applications [default: that of --host]
    #[arg(long, value_name = "HOST", env = "YEOUL_SHUFFLE_HTTP_HOST")]
    http_host: Option<String>,

    /// Names by which browsers and others may ask for HTTP, beside this machine's own: those of a proxy or a service
    #[arg(long = "http-name", value_name = "NAME,…", value_delimiter = ',', env = "YEOUL_SHUFFLE_HTTP_NAME")]
    http_names: Vec<String>,

    /// Directory of the journal, from which a killed master restarts [default: none: its state is in memory only]
    #[arg(long, value_name = "DIR", env = "YEOUL_SHUFFLE_DIR")]
    dir: Option<PathBuf>,

    /// The most memory that the whole process may use, at least 48MiB; a state that leaves none takes no new shuffles [default:
    /// 1GiB]
    #[arg(long, value_name = "SIZE", env = "YEOUL_SHUFFLE_MEMORY")]
    memory: Option<ByteSize>,

    /// Decide nothing and pass everything on to this master: a further endpoint for clients
    #[arg(long, value_name = "HOST:PORT", env = "YEOUL_SHUFFLE_LEADER")]
    leader: Option<String>,

    #[command(flatten)]
    conf: Conf,
}

/// Store shuffle data in memory and on disk, and serve it to readers
#[derive(Args, Debug)]
struct WorkerArgs {
    /// The masters [default: 127.0.0.1:9097]
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', env = "YEOUL_SHUFFLE_MASTER")]
    master: Vec<String>,

    /// Directories for what does not fit into memory, one for each disk; required, here or in --conf
    #[arg(long, value_name = "DIR,…", value_delimiter = ',', env = "YEOUL_SHUFFLE_DIR")]
    dir: Vec<PathBuf>,

    /// The most memory that the whole process may use, at least 48MiB [default: 1GiB]
    #[arg(long, value_name = "SIZE", env = "YEOUL_SHUFFLE_MEMORY")]
    memory: Option<ByteSize>,

    /// The name by which masters, executors and other workers reach this worker [default: the address from which it
    /// reaches its master]
    #[arg(long, value_name = "HOST", env = "YEOUL_SHUFFLE_HOST")]
    host: Option<String>,

    /// The address to listen on [default: every address, or only the loopback address if --host is one]
    #[arg(long, value_name = "ADDRESS", env = "YEOUL_SHUFFLE_BIND")]
    bind: Option<IpAddr>,

    /// The port for drivers; fix the ports of a worker that is to be restarted with its data [default: 0, a free one]
    #[arg(long, value_name = "PORT", env = "YEOUL_SHUFFLE_RPC_PORT", value_parser = port, allow_negative_numbers = true)]
    rpc_port: Option<u16>,

    /// Ports for pushes; the stock client keeps 32 in flight to each port and then sleeps, so with few workers several ports
    /// are faster
    /// [default: 0,0,0,0,0,0,0,0, eight free ones]
    #[arg(long, value_name = "PORT,…", value_delimiter = ',', env = "YEOUL_SHUFFLE_PUSH_PORT", value_parser = port, allow_negative_numbers = true)]
    push_port: Vec<u16>,

    /// The port for reads [default: 0, a free one]
    #[arg(long, value_name = "PORT", env = "YEOUL_SHUFFLE_FETCH_PORT", value_parser = port, allow_negative_numbers = true)]
    fetch_port: Option<u16>,

    /// The port for copies from other workers [default: 0, a free one]
    #[arg(long, value_name = "PORT", env = "YEOUL_SHUFFLE_REPLICATE_PORT", value_parser = port, allow_negative_numbers = true)]
    replicate_port: Option<u16>,

    /// The port for /api/v1 and /metrics/prometheus [default: 0, a free one]
    #[arg(long, value_name = "PORT", env = "YEOUL_SHUFFLE_HTTP_PORT", value_parser = port, allow_negative_numbers = true)]
    http_port: Option<u16>,

    /// The address to listen on for HTTP, which lets whoever reaches it stop the worker [default: as for the other ports]
    #[arg(long, value_name = "HOST", env = "YEOUL_SHUFFLE_HTTP_HOST")]
    http_host: Option<String>,

    /// Names by which browsers and others may ask for HTTP, beside this machine's own: those of a proxy or a service
    #[arg(long = "http-name", value_name = "NAME,…", value_delimiter = ',', env = "YEOUL_SHUFFLE_HTTP_NAME")]
    http_names: Vec<String>,

    /// The rack, such as /dc1/rack2: copies go to another one if the client asks for it
    #[arg(long, value_name = "RACK", env = "YEOUL_SHUFFLE_RACK")]
    rack: Option<String>,

    /// What to leave free in each directory's file system [default: 5GiB, or a twentieth of a small one]
    #[arg(long, value_name = "SIZE", env = "YEOUL_SHUFFLE_DISK_RESERVE")]
    disk_reserve: Option<ByteSize>,

    #[command(flatten)]
    conf: Conf,
}

#[derive(Args, Debug)]
struct Conf {
    /// A celeborn-defaults.conf; flags win over it [default: that of the directory in CELEBORN_CONF_DIR, if it is set]
    #[arg(long, value_name = "FILE", env = "YEOUL_SHUFFLE_CONF")]
    conf: Option<PathBuf>,
}

/// Runs the verb until the server has ended or was told to.
pub fn run(args: ShuffleArgs) -> ExitCode {
    // A disk that hangs keeps up to sixteen of them, and those of the others are not to wait for it.
    let log = LogLevels::new(args.log);
    let threads = Threads { name: "shuffle", blocking_max: 128, stack_bytes: None };
    run_daemon(&log, threads, serve(args, log.clone()))
}

async fn serve(args: ShuffleArgs, log: LogLevels) -> Result<()> {
    match args.role {
        Role::Master(args) => serve_master(args, log).await,
        Role::Worker(args) => serve_worker(args, log).await,
    }
}

async fn serve_master(args: MasterArgs, log: LogLevels) -> Result<()> {
    let mut options = master::Options { log_levels: Some(log), ..master::Options::default() };
    args.conf.read(|entries| apply::to_master(entries, &variable, &mut options))?;
    let MasterArgs { host, port, http_port, http_host, http_names, dir, memory, leader, conf: _ } = args;
    options.host = host.unwrap_or(options.host);
    options.port = port.unwrap_or(options.port);
    if leader.is_some() && (dir.is_some() || http_port.is_some() || http_host.is_some()) {
        tracing::warn!(
            "--dir, --http-port and --http-host are the leader's: this master keeps nothing and shows nothing"
        );
    }
    options.http_port = http_port.or(options.http_port);
    options.http_host = http_host.or(options.http_host);
    options.http_names = http_names;
    options.dir = dir.or(options.dir);
    let memory = memory.unwrap_or(MASTER_MEMORY_DEFAULT);
    options.memory_bytes = Some(memory.as_u64());
    if let Some(notice) = beyond_machine(memory) {
        tracing::warn!("{notice}");
    }
    options.leader = leader.as_deref().map(settings::master_endpoint).transpose()?.or(options.leader);
    if options.dir.is_none() && options.leader.is_none() {
        tracing::warn!(
            "without --dir the state is in memory only: a restarted master learns it from workers and drivers"
        );
    }
    let mut stop = Stop::listen()?;
    let handle = master::Server::start(options).await?;
    announce(&handle.address().to_string());
    let own_address = "give --host an address of the cluster's own network";
    warn_of_exposure(Some(handle.address()), "read and delete the shuffles of all applications", own_address);
    let may = "stop workers and delete applications";
    warn_of_exposure(handle.http_address(), may, "give --http-host 127.0.0.1 or another address");
    if let Some(http) = handle.http_address() {
        show_pages(&http.to_string());
    }
    stop.asked().await;
    Ok(())
}

async fn serve_worker(args: WorkerArgs, log: LogLevels) -> Result<()> {
    let mut options = worker::Options { log_levels: Some(log), ..worker::Options::default() };
    args.conf.read(|entries| apply::to_worker(entries, &variable, &mut options))?;
    let masters: Vec<String> =
        args.master.iter().map(|text| settings::master_endpoint(text)).collect::<Result<_>>()?;
    options.masters = if masters.is_empty() { options.masters } else { masters };
    if !args.dir.is_empty() {
        (options.directories, options.capacities) = (args.dir, BTreeMap::new());
    }
    if args.memory.is_none()
        && let Some(name) = apply::unread_memory(|name| std::env::var_os(name).is_some())
    {
        let memory = ByteSize::from_bytes(options.memory_bytes);
        tracing::warn!(
            "{name} is set and not read: the whole process gets {memory}, unless --memory says otherwise"
        );
    }
    options.memory_bytes = args.memory.map_or(options.memory_bytes, ByteSize::as_u64);
    if let Some(notice) = beyond_machine(ByteSize::from_bytes(options.memory_bytes)) {
        tracing::warn!("{notice}");
    }
    options.host = args.host.or(options.host);
    options.bind = args.bind.or(options.bind);
    options.rpc_port = args.rpc_port.unwrap_or(options.rpc_port);
    options.push_ports = if args.push_port.is_empty() { options.push_ports } else { args.push_port };
    options.fetch_port = args.fetch_port.unwrap_or(options.fetch_port);
    options.replicate_port = args.replicate_port.unwrap_or(options.replicate_port);
    options.http_port = args.http_port.or(options.http_port);
    options.http_host = args.http_host.or(options.http_host);
    options.http_names = args.http_names;
    options.network_location = args.rack.unwrap_or(options.network_location);
    options.disk_reserve_bytes = args.disk_reserve.map(ByteSize::as_u64).or(options.disk_reserve_bytes);
    let (keeps_its_name, keeps_its_push_ports) = (options.keeps_its_name(), options.keeps_its_push_ports());
    let has_http_host = options.http_host.is_some();
    let mut stop = Stop::listen()?;
    let handle = worker::Server::start(options).await?;
    announce(&handle.id().to_string());
    let bound = handle.node().options.bind.map(|address| (address, handle.id().rpc_port).into());
    let own_address = "give --bind an address of the cluster's own network";
    warn_of_exposure(bound, "read, write and delete the shuffles of all applications", own_address);
    warn_of_exposure(
        handle.http_address(),
        "stop the worker",
        "give --http-host 127.0.0.1 or another address",
    );
    if !keeps_its_name {
        tracing::warn!(
            "with free ports a restarted worker is another one, and this one's data is lost to readers: \
             fix --rpc-port, --push-port, --fetch-port and --replicate-port"
        );
    } else if !keeps_its_push_ports {
        tracing::warn!(
            "with free further push ports a restarted worker has its data and other ports: drivers of shuffles that \
             go on leave out those that are gone: fix every --push-port"
        );
    }
    if let Some(http) = handle.http_address() {
        let is_elsewhere = has_http_host && !http.ip().is_unspecified();
        show_pages(&if is_elsewhere { http.to_string() } else { handle.id().address(http.port()) });
    }
    let asked = tokio::select! {
        ended = handle.ended() => return ended,
        asked = stop.asked() => asked,
    };
    tracing::info!("told to stop: a second signal, a second later or more, ends at once");
    handle.stop();
    tokio::select! {
        ended = handle.ended() => ended,
        _ = stop.asked_again(asked) => Err(Error::new(Kind::Unavailable, "ended by a second signal before the stop was complete")),
    }
}

fn show_pages(address: &str) {
    tracing::info!("http://{address}/api/v1/workers and http://{address}/metrics/prometheus");
}

/// A variable of the environment that a file refers to.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Conf {
    /// Reads the file, if there is one, and says once what is unknown or changes nothing.
    fn read(&self, apply: impl FnOnce(&[Entry]) -> Result<Vec<Notice>>) -> Result<()> {
        let Some(path) = self.conf.clone().or_else(from_environment) else { return Ok(()) };
        let name = path.display();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let kind = Error::from(std::io::Error::from(error.kind())).kind();
            Error::new(kind, format!("cannot read {name}")).with_source(error)
        })?;
        tracing::info!("read settings from {name}");
        let notices = apply(&properties::parse(&text)).map_err(|error| {
            let named = Error::new(error.kind(), format!("{name}: {error}"));
            match error.hint() {
                Some(hint) => named.with_hint(hint),
                None => named,
            }
        })?;
        for notice in notices {
            tracing::warn!("{name}: {notice}");
        }
        Ok(())
    }
}

/// The file in the directory that the environment names, as Celeborn's own scripts find it.
fn from_environment() -> Option<PathBuf> {
    let path = Path::new(&std::env::var_os("CELEBORN_CONF_DIR")?).join("celeborn-defaults.conf");
    match path.try_exists() {
        Ok(false) => {
            tracing::warn!("CELEBORN_CONF_DIR is set, and there is no {}", path.display());
            None
        }
        // What cannot be looked at cannot be read either, and that says why.
        Ok(true) | Err(_) => Some(path),
    }
}
