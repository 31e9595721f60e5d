/// What a block lacks, as it was counted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lack {
    /// It can be read, and has fewer good copies or units than it is to have.
    pub is_under_replicated: bool,
    /// It cannot be read.
    pub is_missing: bool,
    /// A replica of it is damaged.
    pub has_corrupt: bool,
}

/// How many blocks of whole replicas lack something, and how many block groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LacksByForm {
    /// Blocks of whole replicas.
    pub replicated: LackCounts,
    /// Block groups.
    pub striped: LackCounts,
}

impl LacksByForm {
    /// The counts of blocks of this form.
    pub fn of_form(&mut self, is_striped: bool) -> &mut LackCounts {
        if is_striped { &mut self.striped } else { &mut self.replicated }
    }

    /// The counts of both forms together.
    pub fn total(&self) -> LackCounts {
        let (replicated, striped) = (self.replicated, self.striped);
        LackCounts {
            under_replicated: replicated.under_replicated + striped.under_replicated,
            missing: replicated.missing + striped.missing,
            corrupt: replicated.corrupt + striped.corrupt,
        }
    }
}

/// How many blocks lack something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LackCounts {
    /// Blocks that can be read, with fewer good copies or units than they are to have.
    pub under_replicated: u64,
    /// Blocks that cannot be read.
    pub missing: u64,
    /// Blocks with a damaged replica.
    pub corrupt: u64,
}

impl LackCounts {
    /// Counts a block in.
    pub fn add(&mut self, lack: Lack) {
        self.under_replicated += u64::from(lack.is_under_replicated);
        self.missing += u64::from(lack.is_missing);
        self.corrupt += u64::from(lack.has_corrupt);
    }

    /// Takes out a block that was counted in.
    pub fn subtract(&mut self, lack: Lack) {
        let less = |count: &mut u64, by: bool| {
            *count = count.checked_sub(u64::from(by)).expect("what goes was counted in");
        };
        less(&mut self.under_replicated, lack.is_under_replicated);
        less(&mut self.missing, lack.is_missing);
        less(&mut self.corrupt, lack.has_corrupt);
    }
}
