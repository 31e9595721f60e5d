use std::time::Duration;

/// Time for which the source of a repair may be silent. One that hangs is not to hold a repair up for long if there is another one;
/// the last one that is left is given the time that clients give a DataNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// While there is another source that can take its place.
    pub with_spare: Duration,
    /// While there is none.
    pub alone: Duration,
}

impl Default for Patience {
    /// A busy disk answers within 5 s; a DataNode that is silent for 10 s is missed. The other is HDFS's
    /// `dfs.client.socket-timeout`.
    fn default() -> Self {
        Self { with_spare: Duration::from_secs(5), alone: Duration::from_secs(60) }
    }
}

impl Patience {
    /// Time to wait for a source now.
    pub fn for_one(self, has_spare: bool) -> Duration {
        if has_spare { self.with_spare } else { self.alone }
    }
}
