//! The file system: an act for `yeoul demo`.

pub mod act;
mod contents;
mod scene;

pub use contents::{Contents, PlainBytes};
pub use scene::{Killed, Scene};
