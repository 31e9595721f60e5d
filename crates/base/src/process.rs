//! What the operating system says about this process. Its files are the kernel's, not a disk's: reads do not wait.

use std::fs;

/// The kernel tells programs their CPU time in hundredths of a second on all systems that we run on.
const TICKS_PER_SECOND: f64 = 100.0;

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
    fn work_takes_cpu_time_and_a_file_counts() {
        let begin = cpu_seconds().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while cpu_seconds().unwrap() < begin + 0.02 {
            assert!(std::time::Instant::now() < deadline, "the time stands still");
        }
        let files: Vec<fs::File> = (0..100).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        assert!(open_files().unwrap() >= files.len());
        assert!(system_load().unwrap() >= 0.0);
    }
}
