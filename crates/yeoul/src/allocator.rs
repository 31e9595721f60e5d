//! The allocator's settings, which it reads before `main` does anything.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use yeoul_sql::RETURN_MEMORY;

/// Keeps an idle server small: of huge pages, the first few objects would already take 8 MiB.
const SMALL_PAGES: (&str, &str) = ("MIMALLOC_ALLOW_THP", "0");

/// Returns freed memory to the system at once, which a memory limit needs.
pub fn return_memory_at_once() {
    start_again_with(RETURN_MEMORY);
}

/// Takes memory in small pages.
pub fn take_small_pages() {
    start_again_with(SMALL_PAGES);
}

/// Starts this program again in place of itself with one more setting. Does nothing where it is set already, and goes on
/// without it where that fails: then more memory is held than need be, and every limit still holds.
fn start_again_with((key, value): (&str, &str)) {
    if env::var_os(key).is_some() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    // It only comes back if it failed.
    let _failed = again.args(arguments).env(key, value).exec();
}
