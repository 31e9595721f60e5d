//! Orders on their way to the lifecycle: from the handle, the HTTP pages and the master.

use tokio::sync::mpsc;

use crate::report::Command;

/// Orders that wait. The lifecycle takes each at once, unless it waits for the end.
const WAITING_MAX: usize = 16;

/// Places that are kept for orders to stop, and those among them that are kept for orders to do so at once.
const KEPT_FOR_STOPS: usize = 8;
const KEPT_FOR_STOPS_NOW: usize = 4;

/// Where orders are given. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Orders(mpsc::Sender<Command>);

impl Orders {
    /// Where they are given, and where they are taken.
    pub fn channel() -> (Self, mpsc::Receiver<Command>) {
        let (given, taken) = mpsc::channel(WAITING_MAX);
        (Self(given), taken)
    }

    /// Gives an order. Returns whether it will be taken. An order to stop is refused only where several of its kind wait.
    pub fn give(&self, command: Command) -> bool {
        let kept = match command {
            Command::StopNow => 0,
            Command::StopGracefully => KEPT_FOR_STOPS_NOW,
            Command::Decommission | Command::Recommission => KEPT_FOR_STOPS,
        };
        self.0.capacity() > kept && self.0.try_send(command).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::worker::options::Options;
    use crate::worker::server::Server;
    use crate::worker::server::tests::alone;

    #[test]
    fn an_order_to_stop_finds_a_place_behind_however_many_others() {
        let (orders, mut taken) = Orders::channel();
        for command in [Command::Decommission, Command::StopGracefully, Command::StopNow] {
            assert!(orders.give(command), "{command:?}");
            while orders.give(command) {}
        }
        let mut waiting = Vec::new();
        while let Ok(command) = taken.try_recv() {
            waiting.push(command);
        }
        assert_eq!(waiting.len(), WAITING_MAX);
        assert!(orders.give(Command::Recommission), "there is room again");
        drop(taken);
        assert!(!orders.give(Command::StopNow), "nobody takes it");
    }

    #[tokio::test]
    async fn an_order_to_stop_does_not_wait_for_masters_that_do_not_answer() {
        // They take connections, and read nothing. Together they would be waited for for more than a minute.
        let mut silent = Vec::new();
        for _ in 0..7 {
            silent.push(yeoul_net::Listener::bind("127.0.0.1:0").await.unwrap());
        }
        let masters = silent.iter().map(|master| master.address().to_string()).collect();
        let place = tempfile::tempdir().unwrap();
        let worker = Server::start(Options { masters, ..alone(&place) }).await.unwrap();
        worker.decommission();
        worker.order(Command::StopNow);
        let ended = tokio::time::timeout(Duration::from_secs(30), worker.ended());
        ended.await.expect("it waits for none").unwrap();
    }
}
