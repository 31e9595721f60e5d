use std::time::Duration;

/// Time for which other DataNodes may be silent in a repair. A source that hangs is not to hold it up for long if there is another
/// one; the last one that is left is given the time that clients give a DataNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A source, while there is another one that can take its place.
    pub with_spare: Duration,
    /// A source, while there is none.
    pub alone: Duration,
    /// A target: it takes nothing, or acknowledges nothing. The NameNode knows of others.
    pub target: Duration,
}

impl Default for Patience {
    /// A busy disk answers within 5 s; a DataNode that is silent for 10 s is missed. A target may wait for 5 s until the NameNode
    /// knows of the replica. `alone` is HDFS's `dfs.client.socket-timeout`.
    fn default() -> Self {
        Self {
            with_spare: Duration::from_secs(5),
            alone: Duration::from_secs(60),
            target: Duration::from_secs(10),
        }
    }
}

impl Patience {
    /// Time to wait for a source now.
    pub fn for_one(self, has_spare: bool) -> Duration {
        if has_spare { self.with_spare } else { self.alone }
    }
}
