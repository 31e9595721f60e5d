//! What the operating system says about this process. Its files are the kernel's, not a disk's: reads do not wait.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use rustix::param::page_size;

/// The kernel tells programs their CPU time in hundredths of a second on all systems that we run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The resident set of this process, as the kernel counts it; the file stays open for frequent reads.
pub struct ResidentSet(File);

impl ResidentSet {
    /// Opens it; `None` where there is no such thing.
    pub fn open() -> Option<Self> {
        File::open("/proc/self/statm").ok().map(Self)
    }

    /// Bytes now.
    pub fn bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let len = self.0.read_at(&mut text, 0).ok()?;
        let pages: u64 = std::str::from_utf8(&text[..len]).ok()?.split(' ').nth(1)?.parse().ok()?;
        // The page size differs between kernels, even of one architecture.
        Some(pages * page_size() as u64)
    }
}

/// Bytes of memory that this process holds.
pub fn resident_bytes() -> Option<u64> {
    ResidentSet::open()?.bytes()
}

/// Seconds of CPU time that this process has used, its own and the kernel's for it.
pub fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in parentheses that may hold anything; the two times are the 14th and the 15th.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(11).map(|field| field.parse::<u64>().ok());
    Some((ticks.next()?? + ticks.next()??) as f64 / TICKS_PER_SECOND)
}

/// Files and sockets that this process has open.
pub fn open_files() -> Option<usize> {
    // One of them is the folder that is being read.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// The load average of the whole machine: tasks that ran or wanted to, over the last minute.
pub fn system_load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_set_grows_by_what_is_touched() {
        const TOUCHED: u64 = 64 << 20;
        const BESIDE: u64 = 16 << 20;
        // In a process of its own, because other tests run beside this one.
        const ALONE: &str = "YEOUL_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "process::tests::the_resident_set_grows_by_what_is_touched";
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let run = alone.args([name, "--exact"]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let before = resident_bytes().unwrap();
        let touched = vec![7_u8; TOUCHED as usize];
        let grown = resident_bytes().unwrap() - before;
        assert!(grown.abs_diff(TOUCHED) < BESIDE, "{grown} bytes");
        assert_eq!(std::hint::black_box(&touched)[TOUCHED as usize / 2], 7);
    }

    #[test]
    fn work_takes_cpu_time_and_a_file_counts() {
        let begin = cpu_seconds().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while cpu_seconds().unwrap() < begin + 0.02 {
            assert!(std::time::Instant::now() < deadline, "the time stands still");
        }
        let files: Vec<File> = (0..100).map(|_| File::open("/proc/self/stat").unwrap()).collect();
        assert!(open_files().unwrap() >= files.len());
        assert!(system_load().unwrap() >= 0.0);
    }
}
