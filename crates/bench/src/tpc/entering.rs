//! Contestants on their way into a comparison: in which form ours takes part, and where each finds the tables.

use std::sync::atomic::AtomicBool;

use yeoul_base::ErrorKind;

use super::TpcArgs;
use super::rounds::Entrant;
#[cfg(feature = "cluster")]
use super::store::Store;
use crate::contest::Peer;
use crate::contest::protocol::Open;
use crate::error::{Error, Result};
use crate::report::Fact;

/// The needs of contestants before they can be started. The tables of a cluster are gone once it is dropped.
pub(super) struct Entering {
    #[cfg(feature = "cluster")]
    cluster: Option<(u16, Store)>,
}

#[cfg(feature = "cluster")]
impl Entering {
    /// Copies the tables into a store, if our queries are to run on a cluster.
    ///
    /// # Errors
    /// `Invalid` for ways of our own without a cluster to compare them with; those of starting the store.
    pub(super) fn new(args: &TpcArgs, open: &Open, stop: &AtomicBool) -> Result<Self> {
        if args.cluster.is_none()
            && let Some(peer) = args.against.iter().find(|peer| peer.is_cluster() || **peer == Peer::Yeoul)
        {
            let message = format!("{peer} is compared with a cluster only");
            return Err(
                Error::new(ErrorKind::Invalid, message).with_hint("--cluster 3 runs our queries on one")
            );
        }
        let store = || Store::start(&open.scratch.join("store"), &open.data, &open.tables, stop);
        let cluster = args.cluster.map(|executors| Ok::<_, Error>((executors, store()?))).transpose()?;
        Ok(Self { cluster })
    }

    /// Our own form, which comes first.
    pub(super) fn ours(&self) -> Peer {
        if self.cluster.is_some() { Peer::Cluster } else { Peer::Yeoul }
    }

    /// Facts for a reader of the report.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let Some((executors, _)) = &self.cluster else { return Vec::new() };
        let text = format!(
            "{executors} executors, each with --memory, which share the threads, at least one each; two workers of a shuffle; tables in \
             hdfs://, in the process of the benchmark; the memory is that of the executor that held most; its servers are not stopped"
        );
        vec![Fact::new("cluster", text)]
    }

    /// A contestant that can be started.
    ///
    /// # Errors
    /// Those of [`Peer::launch`].
    pub(super) fn enter(&self, peer: Peer, open: &Open, stop: &AtomicBool) -> Result<Entrant> {
        let (mut launch, mut data) = (peer.launch(&open.scratch, stop)?, open.data.clone());
        if let Some((executors, store)) = self.cluster.as_ref().filter(|_| peer.is_cluster()) {
            launch.arguments.extend(["--executors".to_owned(), executors.to_string()]);
            data = store.data().to_owned();
        }
        Ok(Entrant { peer, launch, data, version: None })
    }
}

#[cfg(not(feature = "cluster"))]
impl Entering {
    pub(super) fn new(_: &TpcArgs, _: &Open, _: &AtomicBool) -> Result<Self> {
        Ok(Self {})
    }

    pub(super) fn ours(&self) -> Peer {
        Peer::Yeoul
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    pub(super) fn enter(&self, peer: Peer, open: &Open, stop: &AtomicBool) -> Result<Entrant> {
        let launch = peer.launch(&open.scratch, stop)?;
        Ok(Entrant { peer, launch, data: open.data.clone(), version: None })
    }
}
