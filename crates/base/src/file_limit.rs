use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};

/// Lets the process have as many files open as the system allows. Where a shell starts it, it begins with 1024.
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
        raise_file_limit().unwrap();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
