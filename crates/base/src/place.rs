/// A place in a text: both numbers start at 1, and columns count characters, as in SQL parsers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Character in the line.
    pub column: u64,
}

impl Place {
    /// The first character.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The place in the whole text of `inner`, a place in a part of it that starts here.
    pub fn plus(self, inner: Self) -> Self {
        let line = self.line + inner.line.saturating_sub(1);
        let column =
            if inner.line <= 1 { self.column + inner.column.saturating_sub(1) } else { inner.column };
        Self { line, column }
    }
}

/// A part of one line of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it starts.
    pub place: Place,
    /// Its length in characters; 1 where only the start is known.
    pub chars: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_statement_is_a_place_in_the_script() {
        let start = Place { line: 5, column: 29 };
        assert_eq!(start.plus(Place { line: 1, column: 8 }), Place { line: 5, column: 36 });
        assert_eq!(start.plus(Place { line: 3, column: 8 }), Place { line: 7, column: 8 });
    }
}
