//! Runs a verb that works on files or on a cluster.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use yeoul_base::{Error, ErrorKind, Result};
use yeoul_dfs::client::{FileSystem, RemotePath};
use yeoul_dfs::shell::{self, Format, Output};

use super::conf::Conf;
use super::verbs::{EcVerb, Json, Verb};
use crate::exit::{Stop, failed, interrupted};

/// How long a verb that is interrupted may take to let go of what it has open.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// Runs the verb to its end, or until it is interrupted.
pub fn run(verb: Verb, conf: &Conf) -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = match runtime.enable_all().thread_name("dfs").build() {
        Ok(runtime) => runtime,
        Err(error) => return refused(&error.into()),
    };
    let done = runtime.block_on(until_done(verb, conf));
    // What still waits for an input or an output does not keep the process.
    runtime.shutdown_background();
    done.unwrap_or_else(|error| refused(&error))
}

fn refused(error: &Error) -> ExitCode {
    failed(error.kind(), error, error.hint())
}

async fn until_done(verb: Verb, conf: &Conf) -> Result<ExitCode> {
    let options = conf.client()?;
    let user = FileSystem::user_of_process().await;
    let named = verb.remote_path().map(|text| RemotePath::parse(text, &user)).transpose()?;
    let mut stop = Stop::listen()?;
    let files = tokio::select! {
        connected = FileSystem::connect(options, named.as_ref()) => Arc::new(connected?),
        asked = stop.asked() => return Ok(interrupted(asked)),
    };
    // A task of its own: it may wait for an input that does not come, and is to be interrupted then, too.
    let mut work = tokio::spawn(work(verb, Arc::clone(&files)));
    let asked = tokio::select! {
        done = &mut work => {
            return done.map_err(|error| Error::new(ErrorKind::Internal, "the verb panicked").with_source(error))?;
        }
        asked = stop.asked() => asked,
    };
    work.abort();
    let _ = tokio::time::timeout(LEAVE_MAX, work).await;
    files.remove_unfinished().await;
    Ok(interrupted(asked))
}

/// Carries out the verb, and gives its exit code.
async fn work(verb: Verb, files: Arc<FileSystem>) -> Result<ExitCode> {
    let mut results = std::io::stdout();
    let mut tell = |error: &Error| {
        refused(error);
    };
    let format = if verb.is_json() { Format::Json } else { Format::Text };
    let mut output = Output::new(&mut results, &mut tell, format, std::io::stderr().is_terminal());
    match carry_out(&verb, &files, &mut output).await {
        // Who reads the results has what it wanted.
        Err(_) if output.is_closed() => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
        Ok(()) if output.failures() > 0 => Ok(ExitCode::FAILURE),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

async fn carry_out(verb: &Verb, files: &FileSystem, output: &mut Output<'_>) -> Result<()> {
    match verb {
        Verb::List(args) => shell::list(files, &args.paths, args.options(), output).await,
        Verb::Put(args) => {
            let (target, sources) = last_and_others(&args.paths);
            shell::put(files, sources, target, args.options(), output).await
        }
        Verb::Get(args) => shell::get(files, &args.paths, &args.target, args.options(), output).await,
        Verb::Print(args) => shell::print_files(files, &args.paths, output).await,
        Verb::MakeDirectory(args) => {
            shell::make_directories(files, &args.paths, args.with_parents, output).await
        }
        Verb::Remove(args) => shell::remove(files, &args.paths, args.options(), output).await,
        Verb::Move(args) => {
            let (target, sources) = last_and_others(&args.paths);
            shell::move_to(files, sources, target, output).await
        }
        Verb::Sizes(args) => shell::show_sizes(files, &args.paths, args.options(), output).await,
        Verb::Attributes(args) => {
            let (format, paths) = args.parts();
            shell::show_attributes(files, paths, format, output).await
        }
        Verb::Ec(verb) => carry_out_ec(verb, files, output).await,
        Verb::Report(_) => shell::show_report(files, output).await,
    }
}

async fn carry_out_ec(verb: &EcVerb, files: &FileSystem, output: &mut Output<'_>) -> Result<()> {
    match verb {
        EcVerb::List(_) => shell::show_policies(files, output).await,
        EcVerb::Get(args) => shell::show_policy(files, &args.path, output).await,
        EcVerb::Set(args) => shell::set_policy(files, &args.path, args.policy(), output).await,
        EcVerb::Unset(args) => shell::unset_policy(files, &args.path, output).await,
        EcVerb::Enable(args) => shell::enable_policy(files, &args.policy, true, output).await,
        EcVerb::Disable(args) => shell::enable_policy(files, &args.policy, false, output).await,
    }
}

fn last_and_others(paths: &[String]) -> (&str, &[String]) {
    paths.split_last().map_or(("", &[]), |(last, others)| (last.as_str(), others))
}

impl Verb {
    /// A path that may name the NameNode.
    fn remote_path(&self) -> Option<&str> {
        let path = match self {
            Self::List(args) => args.paths.first(),
            Self::Put(args) => args.paths.last(),
            Self::Get(args) => args.paths.first(),
            Self::Print(args) => args.paths.first(),
            Self::MakeDirectory(args) => args.paths.first(),
            Self::Remove(args) => args.paths.first(),
            Self::Move(args) => args.paths.first(),
            Self::Sizes(args) => args.paths.first(),
            Self::Attributes(args) => args.parts().1.first(),
            Self::Ec(EcVerb::Get(args)) => Some(&args.path),
            Self::Ec(EcVerb::Set(args)) => Some(&args.path),
            Self::Ec(EcVerb::Unset(args)) => Some(&args.path),
            Self::Ec(_) | Self::Report(_) => None,
        };
        path.map(String::as_str)
    }

    fn is_json(&self) -> bool {
        let Json { json } = match self {
            Self::List(args) => &args.json,
            Self::Sizes(args) => &args.json,
            Self::Attributes(args) => &args.json,
            Self::Report(args) => &args.json,
            Self::Ec(EcVerb::List(args)) => &args.json,
            Self::Ec(EcVerb::Get(args)) => &args.json,
            _ => return false,
        };
        *json
    }
}
