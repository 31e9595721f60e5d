//! The allocator: its settings, which it reads before `main` does anything, and what it keeps of freed memory.

#[cfg(feature = "sql")]
use yeoul_base::ByteSize;

/// Keep a server small: of huge pages, the first few objects would already take 8 MiB, and pages kept for each size of
/// object by each thread come to 5 MiB.
#[cfg(any(feature = "dfs", feature = "shuffle"))]
const SMALL: [(&str, &str); 2] = [("MIMALLOC_ALLOW_THP", "0"), ("MIMALLOC_PAGE_FULL_RETAIN", "0")];

/// Has freed memory go back to the system at once.
#[cfg(feature = "sql")]
const AT_ONCE: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "0");

/// A limit below which nothing may lie between what the process holds and what it uses: what is freed goes back at once, which costs time.
#[cfg(feature = "sql")]
const SMALL_LIMIT: ByteSize = ByteSize::from_mib(512);

/// Has freed memory go back to the system when the process comes near a limit. By default it does so after a second, if its thread allocates
/// again: after some seventy queries the process then holds hundreds of megabytes that nobody uses, and no query fits beside them.
pub fn give_memory_back_near_limits() {
    yeoul_memory::freed::given_back_by(|| {
        // SAFETY: any thread may call it at any time; it frees nothing that is in use.
        #[allow(unsafe_code)]
        unsafe {
            libmimalloc_sys::mi_collect(true);
        }
    });
}

/// Has freed memory go back at once if the limit is small.
#[cfg(feature = "sql")]
pub fn keep_to_small_limit(limit: Option<ByteSize>) {
    if limit.is_some_and(|limit| limit < SMALL_LIMIT) {
        start_again_with(&[AT_ONCE]);
    }
}

/// Takes memory in small pages, and keeps none that are empty.
#[cfg(any(feature = "dfs", feature = "shuffle"))]
pub fn take_small_pages() {
    start_again_with(&SMALL);
}

/// Starts this program again in place of itself with more settings, but for those that are set already. Goes on without
/// them where that fails: then more memory is held than need be, and every limit still holds.
#[cfg(any(feature = "dfs", feature = "shuffle", feature = "sql"))]
fn start_again_with(settings: &[(&str, &str)]) {
    use std::env;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

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
