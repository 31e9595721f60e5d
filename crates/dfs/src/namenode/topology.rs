//! The racks of DataNodes that do not say theirs: asked of a script or looked up in a table, as in HDFS.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tracing::warn;

use super::datanodes::RACK_BYTES_MAX;
use super::hosts::FILE_BYTES_MAX;
use crate::error::{Error, Kind};

/// Time that a registration waits for a rack, its turn among others included.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Runs of the script at a time.
const SCRIPTS_MAX: usize = 8;
/// Bytes of what a script prints; the rest is not read.
const OUTPUT_BYTES_MAX: u64 = 4 << 10;
/// DataNodes whose racks are remembered.
const KNOWN_MAX: usize = 10_000;

/// Source of the racks of DataNodes that do not say theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// A program that is given an address and prints a rack (`net.topology.script.file.name`).
    pub script: Option<PathBuf>,
    /// A file with an address or a name and a rack in each line (`net.topology.table.file.name`).
    pub table: Option<PathBuf>,
    /// The table is asked (`net.topology.node.switch.mapping.impl`: `TableMapping`), and not the script.
    pub is_table: bool,
}

impl Topology {
    /// Checks that what is to be asked is there to be asked.
    ///
    /// # Errors
    /// `Invalid` for a table that nothing asks, and for the question to a table that is not named.
    pub fn check(&self) -> Result<(), Error> {
        let missing = self.is_table && self.table.is_none();
        let unread = !self.is_table && self.table.is_some() && self.script.is_none();
        let message = match (missing, unread) {
            (true, _) => "TableMapping is to know the racks, and net.topology.table.file.name names no table",
            (_, true) => "net.topology.table.file.name is read with TableMapping only",
            _ => return Ok(()),
        };
        Err(Error::new(Kind::Invalid, message)
            .with_hint("set net.topology.node.switch.mapping.impl to org.apache.hadoop.net.TableMapping and name the table, or neither"))
    }
}

/// The racks of hosts, each asked for once until all are forgotten.
#[derive(Clone, Debug)]
pub struct Racks {
    topology: Topology,
    known: Arc<Mutex<HashMap<String, String>>>,
    turns: Arc<Semaphore>,
    answer_max: Duration,
}

impl Racks {
    /// The racks that a script or a table knows.
    pub fn new(topology: Topology) -> Self {
        let turns = Arc::new(Semaphore::new(SCRIPTS_MAX));
        Self { topology, known: Arc::default(), turns, answer_max: ANSWER_MAX }
    }

    /// True if DataNodes that say no rack may have one.
    pub fn are_known(&self) -> bool {
        self.topology.script.is_some() || self.topology.is_table
    }

    /// The rack of a host by its address and its name; none if nothing knows it in time, which the log says.
    pub async fn of(&self, ip: &str, host: &str) -> Option<String> {
        if let Some(rack) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(ip) {
            return Some(rack.clone());
        }
        let Topology { script, table, is_table } = &self.topology;
        let found = match (script, table) {
            (_, Some(table)) if *is_table => looked_up(table, [ip, host]).await,
            (Some(script), _) => self.asked(script, ip).await,
            _ => return None,
        };
        let rack = match found.and_then(|rack| checked(&rack)) {
            Ok(rack) => rack,
            Err(why) => {
                warn!(ip, host, why, "the rack of a DataNode is not found: it is taken for the default one");
                return None;
            }
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(ip.to_owned(), rack.clone());
        Some(rack)
    }

    /// Forgets all racks, so that they are asked for again.
    pub fn forget_all(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What a script says of an address: its one word.
    async fn asked(&self, script: &Path, ip: &str) -> Result<String, String> {
        let run = async {
            let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
            run(script, ip).await
        };
        let in_time = tokio::time::timeout(self.answer_max, run).await;
        let shown = script.display();
        let printed =
            in_time.map_err(|_| format!("'{shown}' does not answer within {:?}", self.answer_max))?;
        let printed = printed.map_err(|error| format!("'{shown}': {error}"))?;
        let mut words = printed.split_whitespace();
        match (words.next(), words.next()) {
            (Some(rack), None) => Ok(rack.to_owned()),
            _ => {
                Err(format!("'{shown}' prints '{:.100}' for one address, expected one rack", printed.trim()))
            }
        }
    }
}

/// Output of a script for an address. It is killed if nobody waits for it any more.
async fn run(script: &Path, ip: &str) -> std::io::Result<String> {
    let mut command = Command::new(script);
    command
        .arg(ip)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut printed).await?;
    }
    let status = child.wait().await?;
    if !status.success() {
        return Err(std::io::Error::other(format!("it ends with {status}")));
    }
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// The rack in a table of the first of these names that it has.
async fn looked_up(table: &Path, names: [&str; 2]) -> Result<String, String> {
    let shown = table.display();
    let failed = |error: std::io::Error| format!("cannot read '{shown}': {error}");
    let file = tokio::fs::File::open(table).await.map_err(failed)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).await.map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("'{shown}' has more than {FILE_BYTES_MAX} bytes"));
    }
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rack_of = |name: &str| {
        // As in HDFS, of two lines for a host the later one counts.
        let mut columns = lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        columns.rfind(|columns| columns.len() == 2 && columns[0] == name).map(|columns| columns[1].to_owned())
    };
    names.into_iter().find_map(rack_of).ok_or_else(|| format!("'{shown}' does not have it"))
}

/// A rack as DataNodes may have one.
fn checked(rack: &str) -> Result<String, String> {
    let named = rack.trim_end_matches('/');
    if named.starts_with('/') && named.len() <= RACK_BYTES_MAX {
        return Ok(named.to_owned());
    }
    Err(format!("'{rack:.100}' is no rack, such as /dc1/rack2"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn of_script(path: PathBuf) -> Topology {
        Topology { script: Some(path), ..Topology::default() }
    }

    /// Racks of a script. Another process writes it: a file that this one has open for writing cannot be run, not even by a child
    /// that another test is just starting.
    fn racks_of(dir: &Path, script: &str) -> Racks {
        let path = dir.join("script");
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
        let written = std::process::Command::new("sh").args(["-c", write]).arg(&path).arg(script).status();
        assert!(written.unwrap().success());
        Racks { answer_max: Duration::from_secs(2), ..Racks::new(of_script(path)) }
    }

    #[tokio::test]
    async fn a_script_is_asked_once_for_each_address_until_all_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let asked = dir.path().join("asked");
        let racks = racks_of(dir.path(), &format!("echo $1 >> {}; echo /rack-$1/", asked.display()));
        for _ in 0..3 {
            assert_eq!(racks.of("10.0.0.1", "a").await.as_deref(), Some("/rack-10.0.0.1"));
        }
        assert_eq!(racks.of("10.0.0.2", "b").await.as_deref(), Some("/rack-10.0.0.2"));
        racks.forget_all();
        racks.of("10.0.0.1", "a").await;
        assert_eq!(std::fs::read_to_string(asked).unwrap(), "10.0.0.1\n10.0.0.2\n10.0.0.1\n");
    }

    #[tokio::test]
    async fn a_script_that_hangs_fails_or_prints_something_else_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let long = format!("echo /{}", "x".repeat(300));
        let scripts = [
            "exec sleep 600",
            "exit 3",
            "echo /a; exit 1",
            "true",
            "echo /a /b",
            "echo rack",
            "echo /",
            long.as_str(),
        ];
        for script in scripts {
            let (racks, began) = (racks_of(dir.path(), script), Instant::now());
            assert_eq!(racks.of("10.0.0.1", "a").await, None, "{script}");
            assert!(began.elapsed() < Duration::from_secs(60), "{script}");
        }
        let endless = racks_of(dir.path(), "yes /rack");
        assert_eq!(endless.of("10.0.0.1", "a").await, None);
        let missing = Racks::new(of_script(dir.path().join("none")));
        assert_eq!(missing.of("10.0.0.1", "a").await, None);
        // Many at once: those that get no turn in time are not waited for either.
        let hanging = racks_of(dir.path(), "exec sleep 600");
        let began = Instant::now();
        let all = (0..50).map(|number| {
            let racks = hanging.clone();
            tokio::spawn(async move { racks.of(&format!("10.0.0.{number}"), "a").await })
        });
        for one in all.collect::<Vec<_>>() {
            assert_eq!(one.await.unwrap(), None);
        }
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn a_table_has_addresses_and_names_and_is_read_again_when_all_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        std::fs::write(&path, "# hosts\n10.0.0.1 /old\n\n10.0.0.1\t/a\nnode2   /b\nhalf\nwrong rack\n")
            .unwrap();
        let racks = Racks::new(Topology { table: Some(path.clone()), is_table: true, script: None });
        assert_eq!(racks.of("10.0.0.1", "node2").await.as_deref(), Some("/a"));
        assert_eq!(racks.of("10.0.0.2", "node2").await.as_deref(), Some("/b"));
        assert_eq!(racks.of("10.0.0.3", "half").await, None);
        assert_eq!(racks.of("10.0.0.4", "wrong").await, None);
        std::fs::write(&path, "10.0.0.1 /c\n").unwrap();
        assert_eq!(racks.of("10.0.0.1", "node2").await.as_deref(), Some("/a"), "it is remembered");
        racks.forget_all();
        assert_eq!(racks.of("10.0.0.1", "node2").await.as_deref(), Some("/c"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(racks.of("10.0.0.9", "node9").await, None);
    }

    #[test]
    fn a_table_that_nothing_asks_and_one_that_is_not_named_are_refused() {
        let table = || Some(PathBuf::from("/etc/racks"));
        let topology = |script: Option<PathBuf>, table, is_table| Topology { script, table, is_table };
        assert!(topology(None, None, true).check().unwrap_err().to_string().contains("names no table"));
        assert!(
            topology(None, table(), false).check().unwrap_err().to_string().contains("TableMapping only")
        );
        for good in
            [topology(None, None, false), topology(table(), table(), false), topology(None, table(), true)]
        {
            assert!(good.check().is_ok(), "{good:?}");
        }
    }
}
