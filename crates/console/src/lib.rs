//! HTML pages for people, over the plain values that a part gives: it knows no part, no HTTP and no clock.
//!
//! - [`Page`]: a document with a heading, links, notices, figures and tables. It refreshes itself without script.
//! - [`Table`] with its [`Cell`]s: at most [`ROWS_MAX`] rows, and a last line that says how many more there are.
//! - [`Href`]: an address that is safe to link to, whatever a peer said its name was.
//! - [`STYLE`], to be served at [`STYLE_PATH`]: the one stylesheet, light and dark, for wide screens and phones.
//!
//! Each document carries the policy `default-src 'none'; style-src 'self'`: a browser runs no script in it and loads nothing
//! but the stylesheet. All values are escaped, and each is cut to [`VALUE_CHARS_MAX`] characters.
//!
//! ```
//! use yeoul_console::{Cell, Page, Table};
//!
//! let mut table = Table::new("Disks", &["Directory", "Used"]);
//! table.fill(1, [vec![Cell::text("/data/1"), Cell::space(10, 100)]]);
//! let html = Page::new("Worker <one>", "Yeoul shuffle").table(table).render();
//! assert!(html.contains("Worker &lt;one&gt;"));
//! ```

mod cell;
mod href;
mod page;
mod query;
mod table;
mod value;

pub use cell::{Cell, Tone};
pub use href::Href;
pub use page::Page;
pub use query::{query_pairs, query_value};
pub use table::{ROWS_MAX, Table};
pub use value::VALUE_CHARS_MAX;

/// The stylesheet of all pages.
pub const STYLE: &str = include_str!("style.css");

/// The path at which pages expect [`STYLE`].
pub const STYLE_PATH: &str = "/console.css";
