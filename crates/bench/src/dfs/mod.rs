//! The file system: an act for `yeoul demo`.

pub mod act;
