//! Points at which a test has a process fail.

use std::env;
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names the points that are to fail: `master-tick,journal-write@100`.
const VARIABLE: &str = "YEOUL_FAILPOINTS";

static WANTED: LazyLock<Vec<Wanted>> =
    LazyLock::new(|| wanted(&env::var(VARIABLE).unwrap_or_default()).collect());

/// A point that is to fail.
#[derive(Debug)]
struct Wanted {
    point: String,
    /// How often it is passed before it fails.
    passes: AtomicU64,
}

fn wanted(named: &str) -> impl Iterator<Item = Wanted> + '_ {
    named.split(',').filter(|name| !name.is_empty()).map(|name| {
        let (point, time) = name.split_once('@').unwrap_or((name, "1"));
        let time: u64 =
            time.parse().expect("a failpoint is named with the number of the time at which it fails");
        Wanted { point: point.to_owned(), passes: AtomicU64::new(time.saturating_sub(1)) }
    })
}

/// Whether it is to fail now: from that time on it always is.
fn fails(wanted: &[Wanted], point: &str) -> bool {
    wanted.iter().filter(|wanted| wanted.point == point).any(|wanted| {
        let fewer = |passes: u64| passes.checked_sub(1);
        wanted.passes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_err()
    })
}

/// Panics if the variable `YEOUL_FAILPOINTS` names this point, among others with commas between them; with `@N` behind the
/// name from the `N`th time on. Tests of real processes set it; without it a point costs next to nothing. A point is named
/// after its place, such as `master-tick`.
///
/// # Panics
/// If it is told to.
pub fn failpoint(point: &str) {
    assert!(!fails(&WANTED, point), "failpoint {point}");
}

/// The same for what the system may refuse.
///
/// # Errors
/// If it is told to.
pub fn failpoint_error(point: &str) -> io::Result<()> {
    if fails(&WANTED, point) { Err(io::Error::other(format!("failpoint {point}"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_fails_from_its_time_on_and_no_other_does() {
        let wanted: Vec<_> = wanted("master-tick,journal-write@3").collect();
        let times = |point| [(); 5].map(|()| fails(&wanted, point));
        assert_eq!(times("journal-write"), [false, false, true, true, true]);
        assert_eq!(times("master-tick"), [true; 5]);
        assert_eq!(times("journal"), [false; 5]);
    }
}
