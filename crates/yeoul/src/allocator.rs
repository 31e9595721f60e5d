//! The allocator under a memory limit.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use yeoul_sql::RETURN_MEMORY;

/// Starts this program again in place of itself, so that its allocator returns memory at once; the allocator reads that
/// setting before `main` does anything. Does nothing where it is set already, and goes on without it where that fails.
pub fn return_memory_at_once() {
    let (key, value) = RETURN_MEMORY;
    if env::var_os(key).is_some() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    // It only comes back if it failed; then memory is returned later, and the limit still holds.
    let _failed = again.args(arguments).env(key, value).exec();
}
