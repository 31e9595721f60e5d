//! The allocator's settings, which it reads before `main` does anything.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Keep a server small: of huge pages, the first few objects would already take 8 MiB, and pages kept for each size of
/// object by each thread come to 5 MiB.
#[cfg(any(feature = "dfs", feature = "shuffle"))]
const SMALL: [(&str, &str); 2] = [("MIMALLOC_ALLOW_THP", "0"), ("MIMALLOC_PAGE_FULL_RETAIN", "0")];

/// Returns freed memory to the system at once, which a memory limit needs.
#[cfg(feature = "sql")]
pub fn return_memory_at_once() {
    start_again_with(&[yeoul_sql::RETURN_MEMORY]);
}

/// Takes memory in small pages, and keeps none that are empty.
#[cfg(any(feature = "dfs", feature = "shuffle"))]
pub fn take_small_pages() {
    start_again_with(&SMALL);
}

/// Starts this program again in place of itself with more settings, but for those that are set already. Goes on without
/// them where that fails: then more memory is held than need be, and every limit still holds.
fn start_again_with(settings: &[(&str, &str)]) {
    let missing: Vec<_> = settings.iter().filter(|(key, _)| env::var_os(key).is_none()).copied().collect();
    if missing.is_empty() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    // It only comes back if it failed.
    let _failed = again.args(arguments).envs(missing).exec();
}
