//! The verbs that work on files and clusters, with Hadoop's names and flags.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};
use yeoul_dfs::shell::{CopyOptions, ListOptions, RemoveOptions, SizeOptions, SortBy};

#[derive(Subcommand, Debug)]
pub enum Verb {
    #[command(name = "-ls", alias = "ls", disable_help_flag = true)]
    List(ListArgs),
    #[command(name = "-put", alias = "put")]
    Put(PutArgs),
    #[command(name = "-get", alias = "get")]
    Get(GetArgs),
    #[command(name = "-cat", alias = "cat")]
    Print(PathsArgs),
    #[command(name = "-mkdir", alias = "mkdir")]
    MakeDirectory(MakeDirectoryArgs),
    #[command(name = "-rm", alias = "rm")]
    Remove(RemoveArgs),
    #[command(name = "-mv", alias = "mv")]
    Move(MoveArgs),
    #[command(name = "-du", alias = "du", disable_help_flag = true)]
    Sizes(SizesArgs),
    #[command(name = "-stat", alias = "stat", after_help = FORMATS)]
    Attributes(AttributesArgs),
    /// Set and show erasure coding policies
    #[command(subcommand)]
    Ec(EcVerb),
    Report(ReportArgs),
}

const FORMATS: &str = "\
A format has %a mode in octal, %A as -ls shows it, %b bytes, %F what it is, %g group, %n name, %o bytes of a block, %r copies,
%u owner, %x and %X time of the last read, %y and %Y of the last change (to the second in UTC, and in milliseconds).

Example:
  yeoul dfs -stat '%b bytes in %o a block, changed %y' /data.csv";

/// Answers for programs.
#[derive(Args, Debug)]
pub struct Json {
    /// An object of JSON on each line, for programs
    #[arg(long)]
    pub json: bool,
}

/// Show files, and directories with their entries
#[derive(Args, Debug)]
pub struct ListArgs {
    /// What to show [default: the home directory, /user/NAME]
    #[arg(value_name = "PATH", default_value = ".", hide_default_value = true)]
    pub paths: Vec<String>,
    /// Paths and nothing else
    #[arg(short = 'C')]
    paths_only: bool,
    /// A directory itself, not its entries
    #[arg(short = 'd')]
    directories_themselves: bool,
    /// Sizes for people: 1.5 K
    #[arg(short = 'h')]
    human: bool,
    /// A question mark for each character that cannot be printed
    #[arg(short = 'q')]
    hide_unprintable: bool,
    /// All that is below directories
    #[arg(short = 'R')]
    recursive: bool,
    /// Sort by time, the newest first
    #[arg(short = 't', overrides_with = "by_size")]
    by_time: bool,
    /// Sort by size, the largest first
    #[arg(short = 'S')]
    by_size: bool,
    /// Sort the other way round
    #[arg(short = 'r')]
    reversed: bool,
    /// The time of the last read instead of that of the last change
    #[arg(short = 'u')]
    by_access: bool,
    /// The erasure coding policy, too
    #[arg(short = 'e')]
    policies: bool,
    #[command(flatten)]
    pub json: Json,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl ListArgs {
    pub fn options(&self) -> ListOptions {
        ListOptions {
            paths_only: self.paths_only,
            directories_themselves: self.directories_themselves,
            human: self.human,
            hide_unprintable: self.hide_unprintable,
            recursive: self.recursive,
            sort_by: match (self.by_time, self.by_size) {
                (true, _) => SortBy::Time,
                (false, true) => SortBy::Size,
                (false, false) => SortBy::Name,
            },
            reversed: self.reversed,
            by_access: self.by_access,
            policies: self.policies,
        }
    }
}

/// Copy local files and directories to the file system
#[derive(Args, Debug)]
pub struct PutArgs {
    /// What to copy, - for the standard input; and last where to: a directory, or the path of the copy
    #[arg(value_name = "LOCAL… PATH", required = true, num_args = 2..)]
    pub paths: Vec<String>,
    /// Replace what is there
    #[arg(short = 'f')]
    overwrite: bool,
    /// Keep times and mode
    #[arg(short = 'p')]
    preserve: bool,
    /// Write under the file's own name, not under NAME._COPYING_ until it is complete
    #[arg(short = 'd')]
    direct: bool,
}

impl PutArgs {
    pub fn options(&self) -> CopyOptions {
        let Self { overwrite, preserve, direct, .. } = *self;
        CopyOptions { overwrite, preserve, direct }
    }
}

/// Copy files and directories to local ones
#[derive(Args, Debug)]
pub struct GetArgs {
    /// What to copy
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<String>,
    /// Where to: a directory, or the path of the copy
    #[arg(value_name = "LOCAL", required = true)]
    pub target: PathBuf,
    /// Replace files that are there
    #[arg(short = 'f')]
    overwrite: bool,
    /// Keep times and mode
    #[arg(short = 'p')]
    preserve: bool,
}

impl GetArgs {
    pub fn options(&self) -> CopyOptions {
        let Self { overwrite, preserve, .. } = *self;
        CopyOptions { overwrite, preserve, direct: false }
    }
}

/// Write the bytes of files to the standard output
#[derive(Args, Debug)]
pub struct PathsArgs {
    /// The files
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<String>,
}

/// Make directories
#[derive(Args, Debug)]
pub struct MakeDirectoryArgs {
    /// The directories
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<String>,
    /// Make those above, too; one that exists is as good as made
    #[arg(short = 'p')]
    pub with_parents: bool,
}

/// Remove files, and directories with -r
#[derive(Args, Debug)]
pub struct RemoveArgs {
    /// What to remove
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<String>,
    /// Directories with all that is in them
    #[arg(short = 'r', visible_short_alias = 'R')]
    recursive: bool,
    /// What is missing is no failure
    #[arg(short = 'f')]
    ignore_missing: bool,
    /// At once, where the NameNode keeps what was removed for a while; ours does not
    #[arg(long = "skipTrash")]
    skip_trash: bool,
}

impl RemoveArgs {
    pub fn options(&self) -> RemoveOptions {
        let Self { recursive, ignore_missing, skip_trash, .. } = *self;
        RemoveOptions { recursive, ignore_missing, skip_trash }
    }
}

/// Give files and directories another path
#[derive(Args, Debug)]
pub struct MoveArgs {
    /// What to move, and last where to: a directory, or the new path
    #[arg(value_name = "PATH… TARGET", required = true, num_args = 2..)]
    pub paths: Vec<String>,
}

/// Show how many bytes there are below paths, and how many they take with copies and parity
#[derive(Args, Debug)]
pub struct SizesArgs {
    /// What to measure [default: the home directory, /user/NAME]
    #[arg(value_name = "PATH", default_value = ".", hide_default_value = true)]
    pub paths: Vec<String>,
    /// One line for each path, not for the entries of a directory
    #[arg(short = 's')]
    summary: bool,
    /// Sizes for people: 1.5 K
    #[arg(short = 'h')]
    human: bool,
    /// Names of the columns above them
    #[arg(short = 'v')]
    with_titles: bool,
    #[command(flatten)]
    pub json: Json,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl SizesArgs {
    pub fn options(&self) -> SizeOptions {
        let Self { summary, human, with_titles, .. } = *self;
        SizeOptions { summary, human, with_titles }
    }
}

/// Show attributes of paths, by a format
#[derive(Args, Debug)]
pub struct AttributesArgs {
    /// The paths, after a format, if it has a % [default: %y]
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    #[command(flatten)]
    pub json: Json,
}

impl AttributesArgs {
    /// The format, and the paths.
    pub fn parts(&self) -> (&str, &[String]) {
        match self.paths.split_first() {
            Some((first, rest)) if first.contains('%') => (first, rest),
            _ => ("%y", &self.paths),
        }
    }
}

/// Verbs of `hdfs ec`.
#[derive(Subcommand, Debug)]
pub enum EcVerb {
    #[command(name = "-listPolicies", alias = "listPolicies")]
    List(EcListArgs),
    #[command(name = "-getPolicy", alias = "getPolicy")]
    Get(EcGetArgs),
    #[command(name = "-setPolicy", alias = "setPolicy")]
    Set(EcSetArgs),
    #[command(name = "-unsetPolicy", alias = "unsetPolicy")]
    Unset(EcPathArgs),
    #[command(name = "-enablePolicy", alias = "enablePolicy")]
    Enable(EcEnableArgs),
    #[command(name = "-disablePolicy", alias = "disablePolicy")]
    Disable(EcDisableArgs),
}

/// Show all policies, and which of them may be set
#[derive(Args, Debug)]
pub struct EcListArgs {
    #[command(flatten)]
    pub json: Json,
}

/// Show the policy that is in force for a path
#[derive(Args, Debug)]
pub struct EcGetArgs {
    /// A file or directory
    #[arg(long, value_name = "PATH")]
    pub path: String,
    #[command(flatten)]
    pub json: Json,
}

/// Set the policy of the files that are made below a directory from now on
#[derive(Args, Debug)]
pub struct EcSetArgs {
    /// The directory
    #[arg(long, value_name = "PATH")]
    pub path: String,
    /// The policy, such as RS-6-3-1024k [default: the NameNode's]
    #[arg(long, value_name = "NAME", conflicts_with = "replicate")]
    policy: Option<String>,
    /// Whole copies, whatever is set above
    #[arg(long)]
    replicate: bool,
}

impl EcSetArgs {
    /// The policy that is asked for.
    pub fn policy(&self) -> Option<String> {
        if self.replicate { Some("replication".to_owned()) } else { self.policy.clone() }
    }
}

/// Take away the policy that was set on a directory
#[derive(Args, Debug)]
pub struct EcPathArgs {
    /// The directory
    #[arg(long, value_name = "PATH")]
    pub path: String,
}

/// Let a policy be set
#[derive(Args, Debug)]
pub struct EcEnableArgs {
    /// The policy, such as RS-6-3-1024k
    #[arg(long, value_name = "NAME")]
    pub policy: String,
}

/// Let a policy be set no more; files that have it keep it
#[derive(Args, Debug)]
pub struct EcDisableArgs {
    /// The policy, such as RS-6-3-1024k
    #[arg(long, value_name = "NAME")]
    pub policy: String,
}

/// Show nodes, space, and what is missing or has too few copies
#[derive(Args, Debug)]
pub struct ReportArgs {
    #[command(flatten)]
    pub json: Json,
}
