//! Where tables come from: files named in the query itself, and the stores behind their addresses.

pub(crate) mod files;
pub(crate) mod stores;
