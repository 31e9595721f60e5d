use std::future::Future;

use async_trait::async_trait;

/// Where interrupts (Ctrl-C) come from.
#[async_trait]
pub trait Interrupts: Send {
    /// Waits for the next one. Those that came while nobody waited do not count.
    async fn next(&mut self);
}

/// What `work` gives, or `None` if an interrupt comes before it is done; then it is dropped.
pub(super) async fn or_interrupt<T>(
    interrupts: &mut dyn Interrupts,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        () = interrupts.next() => None,
        done = work => Some(done),
    }
}

/// Ctrl-C at the terminal, and SIGINT from elsewhere. From its first use on, the process no longer dies of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CtrlC;

#[async_trait]
impl Interrupts for CtrlC {
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // The signal cannot be handled here: then it ends the process as it always did, and never arrives.
            std::future::pending::<()>().await;
        }
    }
}

/// No interrupts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Never;

#[async_trait]
impl Interrupts for Never {
    async fn next(&mut self) {
        std::future::pending().await
    }
}
