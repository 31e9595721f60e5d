use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use yeoul_base::ErrorKind;

use crate::{Error, Options, Result, STACK_BYTES};

/// The most threads for blocking file I/O. Each keeps memory of its own in the allocator, so it is not tokio's 512.
const BLOCKING_THREADS_MAX: usize = 32;

/// How long a thread for file I/O stays idle under a memory limit. What it allocated and other threads freed goes back
/// to the system only when it allocates again, or ends: after one large query, idle threads held 140 MB.
const IDLE_MAX: Duration = Duration::from_millis(50);

/// The runtime on which a session with these options should run: as many threads as the options allow. A
/// thread that calls its `block_on` plans statements itself, and should have a stack of [`STACK_BYTES`], too.
///
/// # Errors
/// `Unavailable` when the system refuses the threads.
pub fn runtime(options: &Options) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if options.memory.is_some() {
        builder.thread_keep_alive(IDLE_MAX);
    }
    builder
        .worker_threads(options.threads().clamp(1, Options::THREADS_MAX))
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("yeoul-sql")
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(|source| {
            Error::new(ErrorKind::Unavailable, format!("cannot start threads: {source}")).with_source(source)
        })
}
