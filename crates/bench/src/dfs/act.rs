//! An act for `yeoul demo`: a whole cluster in this process, an erasure-coded file, and DataNodes that die before it is read.

use std::path::Path;
use std::time::{Duration, Instant};

use yeoul_base::{Error, ErrorKind, Result};
use yeoul_dfs::policy::geometry_of;
use yeoul_dfs::report::ClusterReport;

use super::{Contents, Killed, Scene};

/// The erasure-coded directory.
const DIRECTORY: &str = "/coded";

/// Time in which the NameNode misses what dead DataNodes had: it waits for 10 s for them to come back.
const NOTICE_MAX: Duration = Duration::from_secs(30);
/// Time in which what is missed is made anew.
const REPAIR_MAX: Duration = Duration::from_secs(60);

/// How large the act is.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// DataNodes, at least as many as a group has units and those that are killed: what is lost is made anew on others.
    pub datanodes: usize,
    /// DataNodes that are killed, and once more after the repair: at most as many as a group has parity units.
    pub killed: usize,
    /// Name of the erasure coding policy.
    pub policy: &'static str,
}

impl Default for Script {
    fn default() -> Self {
        Self { datanodes: 11, killed: 2, policy: "RS-6-3-1024k" }
    }
}

impl Script {
    fn check(&self) -> Result<()> {
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let geometry =
            geometry_of(self.policy).ok_or_else(|| invalid(format!("no policy '{}'", self.policy)))?;
        let (units, parity) = (geometry.schema().units(), geometry.schema().parity_units());
        if self.datanodes < units + self.killed || self.killed > parity {
            let message = format!("{} has {units} units and survives the loss of {parity}", self.policy);
            return Err(invalid(message));
        }
        Ok(())
    }
}

/// What happened, and was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of its internal blocks and their checksums on all disks.
    pub bytes_on_disks: u64,
    /// From the first byte to the acknowledgement of the whole file.
    pub write: Duration,
    /// The DataNodes that were killed.
    pub killed: Killed,
    /// From opening the file to its last byte, after the kill.
    pub read: Duration,
    /// From the kill to the moment at which the NameNode missed nothing any more.
    pub repair: Duration,
    /// Internal blocks on the DataNodes that were killed after the repair.
    pub units_killed_again: u64,
    /// From opening the file to its last byte, after the second kill.
    pub read_again: Duration,
    /// What was read, both times, as the contents say it.
    pub found: String,
}

/// Starts a cluster with directories under `dir`, writes a file into an erasure-coded directory, kills DataNodes, and compares
/// what is read with what was written; waits until what was lost is made anew, kills as many others, and reads again: both
/// times together more is lost than a group survives. `say` gets a line for each step.
///
/// # Errors
/// `DataLoss` if something is missing or wrong; `Unavailable` if it is not made anew in time; `Internal` if the killed DataNodes live on or had nothing, or if the file is
/// not erasure-coded; whatever the cluster says if it fails.
pub async fn run(
    dir: &Path,
    script: &Script,
    contents: &impl Contents,
    mut say: impl FnMut(&str),
) -> Result<Outcome> {
    script.check()?;
    let mut scene = Scene::start(dir, script.datanodes).await?;
    let files = scene.files();
    say(&format!("a NameNode at {} and {} DataNodes, in this process", files.address(), script.datanodes));
    files.make_directory(DIRECTORY, true).await?;
    files.enable_policy(script.policy, true).await?;
    files.set_policy(DIRECTORY, Some(script.policy.to_owned())).await?;

    let path = format!("{DIRECTORY}/{}", contents.name());
    let began = Instant::now();
    contents.write(files, &path).await?;
    let write = began.elapsed();
    let bytes = files.status(&path).await?.length;
    if files.policy(&path).await?.as_deref() != Some(script.policy) {
        return Err(Error::new(
            ErrorKind::Internal,
            format!("{path} is not of the policy {}", script.policy),
        ));
    }
    let bytes_on_disks = scene.bytes_on_disks()?;

    let killed = scene.kill(script.killed).await?;
    let Killed { addresses, units, units_before } = &killed;
    say(&format!("killed {} with {units} of {units_before} internal blocks", addresses.join(" and ")));
    let dead = Instant::now();
    let found = contents.check(scene.files(), &path).await?;
    let read = dead.elapsed();

    let live = script.datanodes - script.killed;
    let is_noticed = |report: &ClusterReport| {
        report.datanodes.iter().filter(|node| node.live).count() == live && report.under_replicated_blocks > 0
    };
    scene.until(NOTICE_MAX, "the loss is noticed", is_noticed).await?;
    let is_whole = |report: &ClusterReport| report.under_replicated_blocks + report.missing_blocks == 0;
    scene.until(REPAIR_MAX, "all is made anew", is_whole).await?;
    let repair = dead.elapsed();
    let again = scene.kill(script.killed).await?;
    let Killed { addresses, units, units_before } = &again;
    say(&format!(
        "repaired after {:.1} s; killed {} with {units} of {units_before}",
        repair.as_secs_f64(),
        addresses.join(" and ")
    ));
    let began = Instant::now();
    contents.check(scene.files(), &path).await?;
    let read_again = began.elapsed();
    scene.stop().await;
    let units_killed_again = again.units;
    Ok(Outcome { bytes, bytes_on_disks, write, killed, read, repair, units_killed_again, read_again, found })
}

#[cfg(test)]
mod tests {
    use super::super::PlainBytes;
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_small_act_reads_what_it_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script { datanodes: 7, killed: 2, policy: "RS-3-2-1024k" };
        let (contents, mut said) = (PlainBytes { pieces: 6 }, Vec::new());
        let outcome = run(dir.path(), &script, &contents, |line| said.push(line.to_owned())).await.unwrap();
        assert_eq!((outcome.bytes, outcome.killed.units, outcome.killed.units_before), (6 << 20, 2, 5));
        // Two stripes of three cells and two of parity; the rest are checksums.
        let beside_data = outcome.bytes_on_disks - (10 << 20);
        assert!((1..=10 << 14).contains(&beside_data), "{outcome:?}");
        // Four of five are lost, of which two had been made anew.
        assert!(outcome.units_killed_again == 2 && outcome.repair > outcome.read, "{outcome:?}");
        assert_eq!(said.len(), 3);
        for wrong in [
            Script { killed: 3, ..script.clone() },
            Script { datanodes: 6, ..script.clone() },
            Script { policy: "RS-3-2", ..script },
        ] {
            let error = run(dir.path(), &wrong, &contents, |_| {}).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{wrong:?}");
        }
    }
}
