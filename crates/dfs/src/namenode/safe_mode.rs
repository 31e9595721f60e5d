//! When the NameNode takes no changes.

/// Share of the blocks that must have been reported, as in HDFS (`dfs.namenode.safemode.threshold-pct`): 999 of 1000.
const THRESHOLD_PER_MILLE: u64 = 999;

/// Safe mode: after a start until the blocks have been reported, and whenever an operator wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafeMode {
    is_manual: bool,
    startup: Option<Startup>,
    extension_ms: u64,
    datanodes_min: usize,
}

/// What safe mode looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Blocks whose length is final.
    pub committed: u64,
    /// Those of them that can be read from what has been reported.
    pub stored: u64,
    /// DataNodes that are there.
    pub datanodes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Startup {
    /// When the threshold was reached.
    reached_ms: Option<u64>,
}

impl SafeMode {
    /// Of a NameNode that starts. `extension_ms` is how long it waits for the last blocks once enough are there, `datanodes_min`
    /// how many DataNodes have to be there.
    pub fn at_start(extension_ms: u64, datanodes_min: usize) -> Self {
        Self { is_manual: false, startup: Some(Startup { reached_ms: None }), extension_ms, datanodes_min }
    }

    /// True while nothing may change.
    pub fn is_on(&self) -> bool {
        self.is_manual || self.startup.is_some()
    }

    /// True while it ends by itself.
    pub fn is_startup(&self) -> bool {
        !self.is_manual && self.startup.is_some()
    }

    /// True until enough has been reported after the start: reports matter, whatever an operator has said.
    pub fn awaits_reports(&self) -> bool {
        self.startup.is_some()
    }

    /// An operator enters it.
    pub fn enter(&mut self) {
        self.is_manual = true;
    }

    /// An operator ends it, whatever it is there for.
    pub fn leave(&mut self) {
        (self.is_manual, self.startup) = (false, None);
    }

    /// Looks whether what is reported suffices: all blocks end it at once, [`THRESHOLD_PER_MILLE`] after the extension.
    pub fn look(&mut self, steady_ms: u64, seen: Seen) {
        let Some(startup) = &mut self.startup else { return };
        let Seen { committed, stored, datanodes } = seen;
        assert!(stored <= committed, "only blocks that there are have been reported");
        if datanodes < self.datanodes_min {
            startup.reached_ms = None;
            return;
        }
        if stored == committed {
            self.startup = None;
            return;
        }
        if stored * 1000 < committed * THRESHOLD_PER_MILLE {
            startup.reached_ms = None;
            return;
        }
        let reached_ms = *startup.reached_ms.get_or_insert(steady_ms);
        if steady_ms.saturating_sub(reached_ms) >= self.extension_ms {
            self.startup = None;
        }
    }

    /// Why it is on, for people.
    pub fn why(&self, seen: Seen) -> String {
        let Seen { committed, stored, datanodes } = seen;
        match self.startup {
            Some(_) if datanodes < self.datanodes_min => {
                let needed = self.datanodes_min;
                format!(
                    "{datanodes} of the {needed} DataNodes that it waits for are there; it ends by itself"
                )
            }
            Some(_) => {
                let missing = committed - stored;
                format!(
                    "{stored} of {committed} blocks have been reported so far, {missing} are missing; it ends by itself"
                )
            }
            None => "an operator entered it: 'hdfs dfsadmin -safemode leave' ends it".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(committed: u64, stored: u64) -> Seen {
        Seen { committed, stored, datanodes: 0 }
    }

    #[test]
    fn it_waits_for_as_many_datanodes_as_are_wanted() {
        let mut safe_mode = SafeMode::at_start(0, 2);
        safe_mode.look(0, Seen { datanodes: 1, ..seen(0, 0) });
        assert!(safe_mode.is_on());
        assert!(safe_mode.why(Seen { datanodes: 1, ..seen(0, 0) }).starts_with("1 of the 2 DataNodes"));
        safe_mode.look(0, Seen { datanodes: 2, ..seen(0, 0) });
        assert!(!safe_mode.is_on());
    }

    #[test]
    fn it_ends_at_once_with_all_blocks_and_later_with_almost_all() {
        let mut all = SafeMode::at_start(30_000, 0);
        all.look(0, seen(2000, 1997));
        assert!(all.is_on(), "998.5 of a thousand");
        all.look(1, seen(2000, 2000));
        assert!(!all.is_on());

        let mut most = SafeMode::at_start(30_000, 0);
        most.look(1_000, seen(2000, 1998));
        most.look(20_000, seen(2000, 1997));
        most.look(21_000, seen(2000, 1999));
        most.look(50_999, seen(2000, 1999));
        assert!(most.is_on(), "it fell below the threshold meanwhile");
        most.look(51_000, seen(2000, 1998));
        assert!(!most.is_on());
    }

    #[test]
    fn an_operator_enters_and_leaves_it() {
        let mut safe_mode = SafeMode::at_start(0, 0);
        safe_mode.look(0, seen(0, 0));
        assert!(!safe_mode.is_on(), "an empty namespace waits for nobody");
        safe_mode.enter();
        safe_mode.look(1, seen(0, 0));
        assert!(safe_mode.is_on() && !safe_mode.is_startup());
        safe_mode.leave();
        assert!(!safe_mode.is_on());
    }
}
