//! The file system: an act for `yeoul demo`, and the memory of its servers for `yeoul bench dfs`.

pub mod act;
mod contents;
pub mod footprint;
mod scene;

pub use contents::{Contents, PlainBytes};
pub use scene::{Killed, Scene};
