//! The settings files of the systems whose place a server takes: their own formats, what each of their keys does here, and
//! the reference page about that. Nothing here knows a system; a part brings the table of its keys.
//!
//! - [`Entry`]: a key, its value, and where it stands. [`properties`] reads files of `key value` lines, [`hadoop`] reads and
//!   merges XML configurations.
//! - [`Table`]: every documented key of a system with its default, its deprecated names, and a [`Level`]: it is honoured,
//!   it changes nothing, or it is refused because it would promise what is not kept.
//! - [`apply()`]: puts the entries that count into options, with [`References`] in their values replaced, and returns
//!   [`Notice`]s about the others.
//! - [`Page`]: the reference page that is made from a table.
//! - [`bytes`], [`duration`]: sizes and times as settings files write them.
//!
//! ```
//! use yeoul_settings::{Level, References, Rules, Table, apply, properties};
//!
//! let table = Table::parse(
//!     "@server\n\
//!      lamp.port\t80\thonoured\t\tlamp.socket\n\
//!      lamp.threads\t4\tother\tthreads follow the number of cores\n\
//!      lamp.auth.enabled\tfalse\trefused\tconnections are not authenticated\n",
//!     &["lamp."],
//! );
//! let environment = |name: &str| (name == "PORT").then(|| "8080".to_owned());
//! let rules = Rules {
//!     table: &table,
//!     references: References::Prefixed { environment: &environment, keys: "lamp." },
//!     elsewhere: &|_, _| None,
//!     promises: &|_| None,
//!     page: "docs/reference/lamp-settings.md",
//! };
//! let mut port = 80;
//! let mut set = |file: &str| {
//!     apply(&properties::parse(file), &rules, |key, value| {
//!         if key == "lamp.port" {
//!             port = value()?.port()?;
//!         }
//!         Ok(())
//!     })
//! };
//! let notices = set("lamp.socket ${env:PORT}\nlamp.threads 7\nlamp.prot 1\n").unwrap();
//! let texts: Vec<String> = notices.iter().map(ToString::to_string).collect();
//! assert_eq!(
//!     texts,
//!     [
//!         "line 2: lamp.threads changes nothing here: threads follow the number of cores",
//!         "line 3: unknown key lamp.prot; did you mean lamp.port?",
//!     ]
//! );
//! assert!(set("lamp.auth.enabled true\n").unwrap_err().to_string().contains("is refused"));
//! assert_eq!(port, 8080);
//! ```

mod apply;
mod entry;
pub mod hadoop;
mod notice;
mod page;
pub mod properties;
mod references;
mod similar;
mod table;
mod value;

pub use apply::{Elsewhere, Resolve, Rules, apply};
pub use entry::{Entry, Origin};
pub use notice::Notice;
pub use page::{Group, Page};
pub use references::{Environment, References};
pub use table::{Found, Level, Setting, Table};
pub use value::{bytes, duration};
