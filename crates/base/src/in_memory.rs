use std::io;
use std::path::Path;

/// The types of file systems that keep their files in memory, as statfs(2) numbers them: tmpfs and ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether what is written to a folder stays in memory, and counts there, rather than on a disk.
///
/// # Errors
/// When the folder cannot be examined, for instance because it is not there.
pub fn is_in_memory(folder: &Path) -> io::Result<bool> {
    let system = rustix::fs::statfs(folder)?;
    // The width of the field differs between architectures; the numbers have 32 bits.
    Ok(IN_MEMORY.contains(&(system.f_type as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tmpfs_is_known_by_its_type() {
        let shared = Path::new("/dev/shm");
        // Not every container has it.
        assert!(!shared.exists() || is_in_memory(shared).unwrap());
        assert!(!is_in_memory(Path::new("/proc")).unwrap());
        assert_eq!(is_in_memory(Path::new("/nowhere/at/all")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
