//! The place of a contestant's queries: its process, or a cluster.

use clap::Args;
use yeoul_sql::{Options, Session};

#[cfg(feature = "cluster")]
use super::cluster::{Cluster, ClusterArgs};
use crate::contest::protocol::{Open, Opened};
use crate::error::Result;

/// Arguments of a contestant.
#[derive(Args, Debug, Clone, Default)]
pub struct ContestantArgs {
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Place of a contestant's queries, until it is dropped.
#[derive(Default)]
pub(super) struct Place {
    #[cfg(feature = "cluster")]
    cluster: Option<Cluster>,
}

#[cfg(feature = "cluster")]
impl Place {
    /// Starts the cluster, if there is to be one.
    ///
    /// # Errors
    /// `Unavailable` if it does not start.
    pub(super) fn start(args: &ContestantArgs, open: &Open) -> Result<Self> {
        let cluster = args.cluster.is_some().then(|| Cluster::start(args.cluster, open)).transpose()?;
        Ok(Self { cluster })
    }

    /// Engine with the tables' threads, or as many parts as the cluster runs at once.
    ///
    /// # Errors
    /// Those of [`Session::new`].
    pub(super) fn session(&self, mut options: Options) -> yeoul_sql::Result<Session> {
        let Some(cluster) = &self.cluster else { return Session::new(options) };
        options.threads = Some(cluster.parts());
        // The tables are in a store.
        let has_shared_paths = false;
        let queries = yeoul_cluster::Cluster::new(cluster.address(), has_shared_paths)?;
        Session::with_queries(options, std::sync::Arc::new(queries))
    }

    /// The words of a contestant about itself.
    pub(super) fn told(&self, own: Opened) -> Opened {
        match &self.cluster {
            Some(cluster) => Opened {
                version: format!("{}, {}", own.version, cluster.what()),
                pids: cluster.executors().to_vec(),
                is_limit_of_each: true,
                ..own
            },
            None => own,
        }
    }
}

#[cfg(not(feature = "cluster"))]
impl Place {
    pub(super) fn start(_: &ContestantArgs, _: &Open) -> Result<Self> {
        Ok(Self {})
    }

    pub(super) fn session(&self, options: Options) -> yeoul_sql::Result<Session> {
        Session::new(options)
    }

    pub(super) fn told(&self, own: Opened) -> Opened {
        own
    }
}
