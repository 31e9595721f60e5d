//! Points at which a test has a process fail.

use std::sync::LazyLock;

/// The points that are to fail.
static WANTED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let named = std::env::var("YEOUL_FAILPOINTS").unwrap_or_default();
    named.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
});

/// Panics if the variable `YEOUL_FAILPOINTS` names this point, among others with commas between them. Tests of real processes
/// set it; without it a point costs next to nothing. A point is named after its place, such as `master-tick`.
///
/// # Panics
/// If it is told to.
pub fn failpoint(point: &str) {
    assert!(!WANTED.iter().any(|wanted| wanted == point), "failpoint {point}");
}
