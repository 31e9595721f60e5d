//! A party for the tests of this crate.

use std::fmt;

use crate::{Party, Reserve};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TestParty {
    name: String,
    reserve: Reserve,
}

impl TestParty {
    pub fn new(name: &str, reserve: Reserve) -> Self {
        Self { name: name.to_owned(), reserve }
    }
}

impl fmt::Display for TestParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Party for TestParty {
    fn reserve(&self) -> Reserve {
        self.reserve
    }
}
