use std::future::Future;

use async_trait::async_trait;
use futures::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;

/// Where interrupts (Ctrl-C) come from.
#[async_trait]
pub trait Interrupts: Send {
    /// Waits for an interrupt, or takes one that has come since the last one was taken.
    async fn next(&mut self);

    /// Discards interrupts that have come: they were meant for work that has ended.
    fn forget(&mut self) {}
}

/// The result of `work`, or `None` if an interrupt comes before it is done; `work` is then dropped.
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

/// Ctrl-C at the terminal, and SIGINT from elsewhere. From its first use on, SIGINT no longer ends the process.
#[derive(Debug, Default)]
pub struct CtrlC(Option<Signal>);

#[async_trait]
impl Interrupts for CtrlC {
    async fn next(&mut self) {
        // One listener for all waits: it remembers a signal that comes between two of them.
        if self.0.is_none() {
            self.0 = signal(SignalKind::interrupt()).ok();
        }
        match &mut self.0 {
            Some(interrupts) => {
                interrupts.recv().await;
            }
            // No handler could be installed: then the signal ends the process, as by default, and never arrives here.
            None => std::future::pending().await,
        }
    }

    fn forget(&mut self) {
        if let Some(interrupts) = &mut self.0 {
            while interrupts.recv().now_or_never().flatten().is_some() {}
        }
    }
}

/// An interrupt sent through a channel. It fires once and closes the channel, so that the sender knows it was seen.
#[async_trait]
impl Interrupts for Receiver<()> {
    async fn next(&mut self) {
        if self.recv().await.is_none() {
            std::future::pending().await
        }
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{Signal as Number, getpid, kill_process};

    use super::*;

    /// Sends a signal, and waits until all who listen have it. The runtime of another test may be the one that tells them, one after
    /// the other.
    async fn interrupt(heard: &mut Signal) {
        kill_process(getpid(), Number::INT).unwrap();
        heard.recv().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    #[tokio::test]
    async fn what_comes_between_two_waits_counts_until_it_is_forgotten() {
        let mut interrupts = CtrlC::default();
        // From here on the signal does not end the process.
        assert!(interrupts.next().now_or_never().is_none());
        kill_process(getpid(), Number::INT).unwrap();
        // The runtime notices the signal only when it is polled again.
        tokio::time::timeout(Duration::from_secs(10), interrupts.next()).await.unwrap();
        assert!(interrupts.next().now_or_never().is_none(), "it counts once");

        let mut heard = signal(SignalKind::interrupt()).unwrap();
        interrupt(&mut heard).await;
        assert!(interrupts.next().now_or_never().is_some(), "nobody waited when it came");
        interrupt(&mut heard).await;
        interrupts.forget();
        assert!(interrupts.next().now_or_never().is_none());
    }
}
