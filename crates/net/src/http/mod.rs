//! HTTP/1.1 for people, scripts and metrics.
//!
//! [`serve_pages`] answers with [`Pages`], or with [`Routes`], which are pages by method and path that `/` lists. A request
//! has at most 1 MiB of body and 15 s to arrive; a connection lasts a minute and the answer that is then under way.

mod pages;
mod server;

pub use pages::{Pages, Request, Response, Routes, flattened};
pub use server::serve_pages;
