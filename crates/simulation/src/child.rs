use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// This program once more, as a process of its own: it runs the one test of that name, which does what its environment says.
/// It is killed when this is dropped.
///
/// The test that it runs returns at once where the environment says nothing, so that it does no harm among the others.
#[derive(Debug)]
pub struct Child(std::process::Child);

/// How a process ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code or signal.
    pub status: ExitStatus,
    /// Its stderr.
    pub stderr: String,
}

impl Child {
    /// The command that runs a test of this program, to which the caller adds the environment.
    ///
    /// # Panics
    /// If the program does not know where it is.
    pub fn command(test: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("a program knows where it is"));
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command
    }

    /// Starts such a process, which says nothing.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Self)
    }

    /// Runs such a process to its end.
    ///
    /// # Errors
    /// What the system says.
    pub fn run(command: &mut Command) -> io::Result<Ended> {
        let output = command.output()?;
        Ok(Ended { status: output.status, stderr: String::from_utf8_lossy(&output.stderr).into_owned() })
    }

    /// Ends it as a power failure would: `kill -9`.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// The ports that a process gives to its tests before it comes to those of the next process.
const PORTS_OF_PROCESS: u32 = 16;

/// A free port below those that the kernel gives to whoever takes any: nobody else takes it while the server of a test is
/// down. Each call gives another.
///
/// # Panics
/// If there is none.
pub fn quiet_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 600 * PORTS_OF_PROCESS) as u16;
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports =
        std::iter::repeat_with(|| first + GIVEN.fetch_add(1, Relaxed)).take_while(|port| *port < 30_000);
    ports.find(is_free).expect("one of hundreds of ports is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "YEOUL_TEST_CODE";

    #[test]
    fn a_quiet_port_is_given_once() {
        let ports: Vec<u16> = std::iter::repeat_with(quiet_port).take(8).collect();
        assert!(ports.windows(2).all(|pair| pair[0] < pair[1]), "{ports:?}");
    }

    #[test]
    fn a_child_does_what_its_environment_says_and_its_end_is_seen() {
        let ended = Child::run(Child::command("child::tests::child").env(CODE, "7")).unwrap();
        assert_eq!((ended.status.code(), ended.stderr.contains("it was told 7")), (Some(7), true));
    }

    #[test]
    fn child() {
        let Ok(code) = std::env::var(CODE) else { return };
        eprintln!("it was told {code}");
        std::process::exit(code.parse().unwrap());
    }
}
