//! What tests of servers share; only a dev-dependency.
//!
//! Simulated worlds, in which decision code runs without sockets or clocks:
//! - [`Random`]: choices that a seed repeats.
//! - [`Scene`]: time, and messages that are lost, doubled, reordered, or too late.
//! - [`Tally`]: how often each [`Event`] of a world happened; [`events!`] declares them. A run without faults has tested
//!   nothing.
//! - [`Worlds`]: runs one seed after the other until there were enough faults, or one seed again.
//!
//! Real processes:
//! - [`Child`]: this program once more, as a process that a test kills or that dies of a fault.
//! - [`http`], [`http_with`]: one HTTP request, spoken by hand.
//!
//! ```
//! use std::time::Duration;
//! use yeoul_simulation::{Network, Scene, Tally, Worlds, events};
//!
//! events! {
//!     faults {
//!         /// A message never arrives.
//!         Lost,
//!         /// A message arrives twice.
//!         Doubled,
//!         /// A message takes so long that nobody waits for it any more.
//!         TimedOut,
//!     }
//!     others {
//!         /// A message arrives after one that was sent later.
//!         Reordered,
//!         /// A number is counted.
//!         Counted,
//!     }
//! }
//!
//! const NETWORK: Network<Event> = Network {
//!     lost: Event::Lost,
//!     doubled: Event::Doubled,
//!     reordered: Event::Reordered,
//!     timed_out: Event::TimedOut,
//!     lost_percent: 5,
//!     doubled_percent: 5,
//!     flight_max: Duration::from_secs(15),
//! };
//!
//! /// Sends numbers to who counts each once.
//! fn world(seed: u64) -> Tally<Event> {
//!     let mut scene = Scene::new(seed, NETWORK);
//!     let mut seen = std::collections::BTreeSet::new();
//!     (0..100).for_each(|number| scene.send(number));
//!     while !scene.is_still() {
//!         scene.time += Duration::from_millis(200);
//!         if let Some(number) = scene.arrive(|_| false, |_| false)
//!             && seen.insert(number)
//!         {
//!             scene.count(Event::Counted);
//!         }
//!     }
//!     assert!(scene.tally.of(Event::Counted) + scene.tally.of(Event::Lost) <= 100, "one is counted twice");
//!     scene.tally
//! }
//!
//! let worlds = Worlds { faults: 500, what: "message" };
//! worlds.run(world, |tally, worlds| tally.assert_each(worlds / 50));
//! ```

mod child;
mod http;
mod random;
mod scene;
mod tally;
mod worlds;

pub use child::{Child, Ended, quiet_port};
pub use http::{http, http_with};
pub use random::Random;
pub use scene::{Network, Scene};
pub use tally::{Kind, Tally};
pub use worlds::Worlds;
