use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the most that the system allows. A process that a shell starts begins with 1024.
///
/// # Errors
/// When the system refuses; the limit stays as it is.
pub fn raise_file_limit() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let mut limit = getrlimit(Resource::Nofile);
        // Lowered first, since both are often equal, but to enough files for all tests of this process.
        limit.current = limit.maximum.map_or(Some(4096), |maximum| Some(maximum.min(4096) - 1));
        setrlimit(Resource::Nofile, limit).unwrap();
        raise_file_limit().unwrap();
        let raised = getrlimit(Resource::Nofile);
        assert_eq!((raised.current, raised.maximum), (limit.maximum, limit.maximum));
        assert_ne!(raised.current, limit.current);
    }
}
