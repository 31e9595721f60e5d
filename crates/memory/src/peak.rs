use std::fs;

/// The most physical memory that the processes have held since [`reset_peak`], in bytes (`VmHWM`). It is the sum of their
/// peaks, which need not have been at the same time. `None` if none of them can be read.
pub fn peak_bytes(pids: &[u32]) -> Option<u64> {
    sum(pids, "VmHWM:")
}

/// Resets the peak to what is held now. Without permission to do so the old peak stays, which is never too low.
pub fn reset_peak(pids: &[u32]) {
    for pid in pids {
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

fn sum(pids: &[u32], field: &str) -> Option<u64> {
    pids.iter()
        .filter_map(|pid| field_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, field))
        .reduce(u64::saturating_add)
}

/// The value in bytes of a line such as `VmHWM:   123456 kB`.
fn field_bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_lines_of_proc() {
        let status = "Name:\tx\nVmHWM:\t  123456 kB\nVmRSS:\t 7 kB\n";
        assert_eq!(field_bytes(status, "VmHWM:"), Some(123_456 * 1024));
        assert_eq!(field_bytes(status, "VmRSS:"), Some(7 * 1024));
        assert_eq!(field_bytes(status, "VmSwap:"), None);
        assert_eq!(field_bytes("VmHWM: many kB", "VmHWM:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_peak_outlives_what_caused_it() {
        // In a process of its own, because other tests run beside this one.
        const ALONE: &str = "YEOUL_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "peak::tests::a_peak_outlives_what_caused_it";
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let run = alone.args([name, "--exact"]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let own = [std::process::id()];
        reset_peak(&own);
        let before = peak_bytes(&own).unwrap();
        const HELD: usize = 256 << 20;
        drop(std::hint::black_box(vec![7u8; HELD]));
        let peak = peak_bytes(&own).unwrap();
        assert!(peak >= before + HELD as u64 / 2, "before {before}, peak {peak}");
    }
}
