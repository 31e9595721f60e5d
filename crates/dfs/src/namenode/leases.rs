//! Which client writes which files, and when it last said that it is there.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::ids::InodeId;

/// Milliseconds without a sign after which another client may take the file, as in HDFS.
pub const SOFT_LIMIT_MS: u64 = 60_000;

/// Leases by holder. Which files a holder has is in the journal, with the files; when it last renewed is not.
#[derive(Debug, Default)]
pub struct Leases(HashMap<Arc<str>, Lease>);

#[derive(Debug, Default)]
struct Lease {
    files: BTreeSet<InodeId>,
    renewed_ms: u64,
    /// The address that the holder last called from.
    host: Box<str>,
}

impl Leases {
    /// Gives a holder a file.
    pub fn add(&mut self, holder: &Arc<str>, file: InodeId) {
        let lease = self.0.entry(Arc::clone(holder)).or_default();
        assert!(lease.files.insert(file), "a file is opened once");
    }

    /// Takes a file away from its holder.
    pub fn remove(&mut self, holder: &Arc<str>, file: InodeId) {
        let lease = self.0.get_mut(holder).expect("an open file has a lease");
        assert!(lease.files.remove(&file), "an open file has a lease");
        if lease.files.is_empty() {
            self.0.remove(holder);
        }
    }

    /// Notes that a holder is there. One without files is not kept.
    pub fn renew(&mut self, holder: &str, steady_ms: u64) {
        if let Some(lease) = self.0.get_mut(holder) {
            lease.renewed_ms = lease.renewed_ms.max(steady_ms);
        }
    }

    /// Notes the address that a holder calls from. One without files is not kept.
    pub fn note_host(&mut self, holder: &str, host: Option<&str>) {
        if let (Some(lease), Some(host)) = (self.0.get_mut(holder), host)
            && *lease.host != *host
        {
            lease.host = host.into();
        }
    }

    /// The address that a holder last called from; empty if it has not called since the start.
    pub fn host(&self, holder: &str) -> &str {
        self.0.get(holder).map_or("", |lease| &lease.host)
    }

    /// Notes that all holders are there: they had no chance to say so before the start.
    pub fn renew_all(&mut self, steady_ms: u64) {
        for lease in self.0.values_mut() {
            lease.renewed_ms = steady_ms;
        }
    }

    /// True if a holder has not been heard of for [`SOFT_LIMIT_MS`].
    pub fn is_silent(&self, holder: &str, steady_ms: u64) -> bool {
        self.0.get(holder).is_none_or(|lease| steady_ms.saturating_sub(lease.renewed_ms) > SOFT_LIMIT_MS)
    }

    /// The first files of holders that have not been heard of for longer than a number of milliseconds.
    pub fn silent_for(&self, steady_ms: u64, silent_ms_max: u64, count: usize) -> Vec<InodeId> {
        let is_silent = |lease: &&Lease| steady_ms.saturating_sub(lease.renewed_ms) > silent_ms_max;
        let silent = self.0.values().filter(is_silent);
        silent.flat_map(|lease| lease.files.iter().copied()).take(count).collect()
    }

    /// The files of a holder.
    pub fn files_of(&self, holder: &str) -> impl Iterator<Item = InodeId> {
        self.0.get(holder).into_iter().flat_map(|lease| lease.files.iter().copied())
    }

    /// How many clients write files.
    pub fn holders(&self) -> usize {
        self.0.len()
    }

    /// How many files are being written.
    pub fn files(&self) -> usize {
        self.0.values().map(|lease| lease.files.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_silent_a_minute_after_its_last_sign() {
        let mut leases = Leases::default();
        let holder: Arc<str> = "client".into();
        leases.add(&holder, InodeId(20_000));
        leases.renew("client", 5_000);
        leases.renew("client", 4_000);
        assert!(!leases.is_silent("client", 65_000));
        assert!(leases.is_silent("client", 65_001));
        assert_eq!(leases.silent_for(65_000, SOFT_LIMIT_MS, 9), []);
        assert_eq!(leases.silent_for(65_001, SOFT_LIMIT_MS, 9), [InodeId(20_000)]);
        leases.renew_all(70_000);
        assert!(!leases.is_silent("client", 130_000));
        leases.remove(&holder, InodeId(20_000));
        assert_eq!((leases.files(), leases.is_silent("client", 70_000)), (0, true));
    }
}
