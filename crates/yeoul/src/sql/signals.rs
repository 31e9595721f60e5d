use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::sleep;

use crate::exit::{Asked, Stop};

/// How long it may take until a script hears of a signal. One that writes into a pipe which nobody reads never does.
const HEARD_MAX: Duration = Duration::from_secs(5);

/// Which signal came first, once there was one.
pub type First = Arc<OnceLock<Asked>>;

/// SIGINT and SIGTERM to a script, which ends with the first of them and leaves nothing behind. If it does not hear of that
/// in time, or a second one comes, the process ends at once.
pub struct Signals {
    /// Tells of the first. Who hears of it closes the channel.
    pub told: Receiver<()>,
    /// Which one it was.
    pub first: First,
}

impl Signals {
    /// Listens from here on; within a runtime.
    ///
    /// # Errors
    /// If the system allows no handler.
    pub fn listen() -> io::Result<Self> {
        let mut stop = Stop::listen()?;
        let (tell, told) = channel(1);
        let signals = Self { told, first: Arc::default() };
        let first = Arc::clone(&signals.first);
        tokio::spawn(async move {
            let asked = stop.asked().await;
            first.get_or_init(|| asked);
            // There is room for one, so that it waits for nobody; and it fails only if the script has just ended.
            let _ = tell.send(()).await;
            let unheard = async {
                tokio::select! {
                    () = tell.closed() => std::future::pending().await,
                    () = sleep(HEARD_MAX) => {}
                }
            };
            tokio::select! {
                _ = stop.asked() => {}
                () = unheard => {}
            }
            asked.exit()
        });
        Ok(signals)
    }
}
