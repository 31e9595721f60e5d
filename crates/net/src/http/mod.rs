//! HTTP/1.1 for people, scripts and metrics.
//!
//! [`serve_pages`] answers with [`Pages`], or with [`Routes`], which are pages by method and path that `/` lists; a
//! browser gets [`Routes::page`] instead, where there is one. A request
//! has 5 s for its head, 15 s for its body and at most 1 MiB of it; a connection lasts a minute and the answer that is then
//! under way. While somebody takes all places, whoever comes with a request is served: connections that wait for their peers
//! give way. What a browser sends on behalf of another site is refused ([`admission`]), and no site may frame a page.

mod accept;
mod admission;
mod body;
mod host_names;
mod pages;
mod server;

pub use pages::{Pages, Request, Response, Rest, Routes, flattened};
pub use server::{PageOptions, serve_pages, serve_pages_with};
