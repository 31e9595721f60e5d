use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::param::page_size;

/// The resident set of this process, as the kernel counts it; the file stays open for frequent reads.
#[derive(Debug)]
pub struct ResidentSet(File);

impl ResidentSet {
    /// Opens it; `None` where there is no such thing.
    pub fn open() -> Option<Self> {
        File::open("/proc/self/statm").ok().map(Self)
    }

    /// Bytes now; `None` if the system does not say.
    pub fn bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let len = self.0.read_at(&mut text, 0).ok()?;
        let pages: u64 = std::str::from_utf8(&text[..len]).ok()?.split(' ').nth(1)?.parse().ok()?;
        // The page size differs between kernels, even of one architecture.
        Some(pages * page_size() as u64)
    }
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
            let name = "resident_set::tests::the_resident_set_grows_by_what_is_touched";
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let run = alone.args([name, "--exact"]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let resident = ResidentSet::open().unwrap();
        let before = resident.bytes().unwrap();
        let touched = vec![7_u8; TOUCHED as usize];
        let grown = resident.bytes().unwrap() - before;
        assert!(grown.abs_diff(TOUCHED) < BESIDE, "{grown} bytes");
        assert_eq!(std::hint::black_box(&touched)[TOUCHED as usize / 2], 7);
    }
}
