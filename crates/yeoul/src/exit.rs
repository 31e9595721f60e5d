//! How the binary ends: what it prints, what it says of a failure, what its exit codes mean, and the signals that ask it to.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use yeoul_base::{ErrorKind, Report};

/// The command line is at fault, as clap has it.
const USAGE: u8 = 2;
/// One and the same wish may come twice within this time: GNU timeout tells the process and then its whole group.
const ECHO_MAX: Duration = Duration::from_secs(1);
/// What a shell gives for a program that a signal ended: 128 and the signal's number.
const INTERRUPTED: u8 = 128 + 2;
const TERMINATED: u8 = 128 + 15;

/// Says on stderr why a verb failed, with the causes and the hint, and gives its exit code.
pub fn failed(kind: ErrorKind, error: &(dyn Error + 'static), hint: Option<&str>) -> ExitCode {
    refused(kind, &Report::from_error(error).hint(hint.map(str::to_owned)))
}

/// Says a report on stderr, and gives the exit code of its kind: what was asked for is wrong, it was told to stop, or
/// anything else.
pub fn refused(kind: ErrorKind, report: &Report) -> ExitCode {
    let code = match kind {
        ErrorKind::Invalid => ExitCode::from(USAGE),
        ErrorKind::Cancelled => return interrupted(Asked::Interrupt),
        _ => ExitCode::FAILURE,
    };
    tell(&report.text());
    code
}

/// Says that a verb ended early because it was asked to, and gives its exit code.
pub fn interrupted(asked: Asked) -> ExitCode {
    tell("interrupted\n");
    asked.code()
}

/// Prints a verb's result and a line end. A closed pipe is success: its reader has what it wanted.
///
/// # Errors
/// What else stdout says.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn tell(text: &str) {
    // A stderr that is gone leaves nobody to tell.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// SIGTERM and Ctrl-C, which from now on end nothing by themselves.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

/// Which of them came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Interrupt,
    Terminate,
}

impl Stop {
    /// Listens from here on; within a runtime.
    ///
    /// # Errors
    /// If the system allows no handler.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub async fn asked(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Terminate,
            _ = self.interrupt.recv() => Asked::Interrupt,
        }
    }

    /// Waits for another one that is a further wish, and no echo of `first`, which has just come.
    pub async fn asked_again(&mut self, first: Asked) -> Asked {
        let echoes_end = Instant::now() + ECHO_MAX;
        loop {
            let asked = self.asked().await;
            if asked != first || Instant::now() >= echoes_end {
                return asked;
            }
        }
    }
}

impl Asked {
    /// The exit code of what ended early because of it.
    pub fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// Ends the process at once, with that code.
    #[cfg(feature = "sql")]
    pub fn exit(self) -> ! {
        std::process::exit(self.number().into())
    }

    fn number(self) -> u8 {
        match self {
            Self::Interrupt => INTERRUPTED,
            Self::Terminate => TERMINATED,
        }
    }
}
