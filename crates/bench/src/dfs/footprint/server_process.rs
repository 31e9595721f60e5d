use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use yeoul_base::{Error, ErrorKind, Result};

const MIB: f64 = (1 << 20) as f64;

/// A server of this binary in a process of its own, which ends with this.
pub struct ServerProcess {
    child: Child,
    address: String,
    folder: PathBuf,
}

impl ServerProcess {
    /// Starts `yeoul dfs` with these arguments and a directory, and waits until it says where it is.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(args: &[&str], folder: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["dfs", "--log", "error"]).args(args).arg("--dir").arg(folder);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().expect("it was piped");
        let mut server = Self { child, address: String::new(), folder: folder.to_owned() };
        BufReader::new(stdout).read_line(&mut server.address)?;
        server.address.truncate(server.address.trim_end().len());
        if server.address.is_empty() {
            let message = format!("yeoul dfs {} does not start", args.join(" "));
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(server)
    }

    /// `host:port` of the server.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The most physical memory that it has held, in MiB.
    ///
    /// # Errors
    /// It is gone.
    pub fn peak_mib(&self) -> Result<f64> {
        let gone = || Error::new(ErrorKind::Unavailable, format!("the server at {} is gone", self.address));
        Ok(yeoul_memory::peak_bytes(&[self.child.id()]).ok_or_else(gone)? as f64 / MIB)
    }

    /// Lets its peak begin anew.
    pub fn forget_peak(&self) {
        yeoul_memory::reset_peak(&[self.child.id()]);
    }

    /// Ends it, and gives its directory.
    ///
    /// # Errors
    /// It had ended before.
    pub fn stop(mut self) -> Result<PathBuf> {
        if let Some(status) = self.child.try_wait()? {
            let message = format!("the server at {} has ended with {status}", self.address);
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(std::mem::take(&mut self.folder))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
