//! Where tables come from: files named in the query itself, and the stores behind their addresses.

pub(crate) mod address;
pub(crate) mod files;
mod selection;
pub(crate) mod stores;
