/// What a block lacks, as it was counted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lack(u8);

impl Lack {
    /// It can be read, and has fewer good copies or units than it is to have.
    pub const UNDER_REPLICATED: Self = Self(1);
    /// It cannot be read.
    pub const MISSING: Self = Self(2);
    /// A replica of it is damaged.
    pub const CORRUPT: Self = Self(4);

    /// This and, if it is so, another one.
    #[must_use]
    pub fn and(self, other: Self, is_so: bool) -> Self {
        if is_so { Self(self.0 | other.0) } else { self }
    }

    /// True if it cannot be read.
    pub fn is_missing(self) -> bool {
        self.has(Self::MISSING)
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
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
        self.under_replicated += u64::from(lack.has(Lack::UNDER_REPLICATED));
        self.missing += u64::from(lack.has(Lack::MISSING));
        self.corrupt += u64::from(lack.has(Lack::CORRUPT));
    }

    /// Takes out a block that was counted in.
    pub fn subtract(&mut self, lack: Lack) {
        let less = |count: &mut u64, by: bool| {
            *count = count.checked_sub(u64::from(by)).expect("what goes was counted in");
        };
        less(&mut self.under_replicated, lack.has(Lack::UNDER_REPLICATED));
        less(&mut self.missing, lack.has(Lack::MISSING));
        less(&mut self.corrupt, lack.has(Lack::CORRUPT));
    }
}
