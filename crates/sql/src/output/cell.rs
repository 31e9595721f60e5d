use std::fmt::{self, Write};

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Marks the cut end of a text.
pub(super) const ELLIPSIS: char = '…';

/// On which side of its column a text is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// The text of one cell as a terminal may show it.
///
/// Control characters, which data could use to move the cursor or to hide text, are escaped (`\n`, `\u{1b}`). Writing stops
/// with an error once the text is wider than its limit, so that formatting a cell of 100 MB costs no more than what is shown
/// of it.
#[derive(Debug, Default)]
pub(super) struct CellText {
    text: String,
    /// Sum of the characters' widths, which is at least the width of the text.
    width_bound: usize,
    width_max: Option<usize>,
    cut: bool,
}

impl CellText {
    /// Bytes of zero-width characters that a cell may hold for each column of its limit.
    const BYTES_PER_COLUMN_MAX: usize = 32;

    /// Empties the cell; the next text is cut if it is wider than `width_max`.
    pub(super) fn start(&mut self, width_max: Option<usize>) {
        self.text.clear();
        self.width_bound = 0;
        self.width_max = width_max;
        self.cut = false;
    }

    /// Whether there was more text than fits.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// The columns that the text takes on a terminal; more than `width_max` if it was cut.
    pub(super) fn width(&self) -> usize {
        if self.text.is_ascii() { self.text.len() } else { self.text.width() }.max(match self.width_max {
            Some(width_max) if self.cut => width_max + 1,
            _ => 0,
        })
    }

    /// Appends the text to `line`, padded to `width` columns. If `fit`, a wider text is cut there and marked.
    pub(super) fn push_padded(&self, line: &mut String, width: usize, align: Align, fit: bool) {
        let own = self.width();
        let padding = width.saturating_sub(own);
        if align == Align::Right {
            line.extend(std::iter::repeat_n(' ', padding));
        }
        if own <= width || !fit {
            line.push_str(&self.text);
        } else if width > 0 {
            let mut left = width - 1;
            for grapheme in self.text.graphemes(true) {
                let columns = grapheme.width();
                if columns > left {
                    break;
                }
                line.push_str(grapheme);
                left -= columns;
            }
            line.push(ELLIPSIS);
            line.extend(std::iter::repeat_n(' ', left));
        }
        if align == Align::Left {
            line.extend(std::iter::repeat_n(' ', padding));
        }
    }

    /// # Errors
    /// If the cell is full.
    fn make_room(&mut self, columns: usize) -> fmt::Result {
        self.width_bound += columns;
        if let Some(width_max) = self.width_max {
            // Characters that join (emoji with modifiers) take fewer columns than the sum of their widths; twice the limit
            // keeps enough.
            let bytes_max = (width_max + 1) * Self::BYTES_PER_COLUMN_MAX;
            if self.width_bound > 2 * width_max + 8 || self.text.len() > bytes_max {
                self.cut = true;
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

impl Write for CellText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c.width() {
                Some(columns) if !is_bidi_control(c) => {
                    self.make_room(columns)?;
                    self.text.push(c);
                }
                _ => {
                    let before = self.text.len();
                    match c {
                        '\n' => self.text.push_str("\\n"),
                        '\r' => self.text.push_str("\\r"),
                        '\t' => self.text.push_str("\\t"),
                        c => self.text.extend(c.escape_unicode()),
                    }
                    let columns = self.text.len() - before;
                    self.make_room(columns)?;
                }
            }
        }
        Ok(())
    }
}

/// Characters that change the order in which the rest of a line is shown.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn padded(text: &str, width: usize, align: Align) -> String {
        let mut cell = CellText::default();
        cell.start(Some(width));
        let _ = cell.write_str(text);
        let mut line = String::new();
        cell.push_padded(&mut line, width, align, true);
        line
    }

    #[test]
    fn texts_are_padded_on_the_side_and_cut_with_a_mark() {
        for (text, width, align, expected) in [
            ("ab", 4, Align::Left, "ab  "),
            ("ab", 4, Align::Right, "  ab"),
            ("abcd", 4, Align::Left, "abcd"),
            ("abcde", 4, Align::Left, "abc…"),
            ("여울물", 6, Align::Left, "여울물"),
            ("여울물", 5, Align::Left, "여울…"),
            ("여울물", 4, Align::Left, "여… "),
            ("cafe\u{301}s", 5, Align::Left, "cafe\u{301}s"),
            ("cafe\u{301}s", 4, Align::Left, "caf…"),
            ("👩‍👩‍👧‍👦x", 3, Align::Left, "👩‍👩‍👧‍👦x"),
            ("👩‍👩‍👧‍👦xyz", 3, Align::Left, "👩‍👩‍👧‍👦…"),
            ("", 2, Align::Left, "  "),
            ("ab", 0, Align::Left, ""),
        ] {
            assert_eq!(padded(text, width, align), expected, "{text} in {width}");
        }
    }

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        assert_eq!(padded("a\nb\tc\r", 20, Align::Left).trim_end(), "a\\nb\\tc\\r");
        assert_eq!(padded("\u{1b}[2Jx", 20, Align::Left).trim_end(), "\\u{1b}[2Jx");
        assert_eq!(padded("a\u{202e}b", 20, Align::Left).trim_end(), "a\\u{202e}b");
    }

    #[test]
    fn a_huge_cell_stops_the_writer_early() {
        let mut cell = CellText::default();
        cell.start(Some(10));
        let huge = "x".repeat(1 << 20);
        assert!(cell.write_str(&huge).is_err());
        assert!(cell.is_cut() && cell.text.len() < 100 && cell.width() > 10);
        cell.start(Some(10));
        let combining = "\u{301}".repeat(1 << 20);
        assert!(cell.write_str(&combining).is_err());
        assert!(cell.is_cut() && cell.text.len() < 1000);
    }

    proptest! {
        #[test]
        fn any_text_takes_exactly_its_column(text in "\\PC*|.*", width in 0usize..40, right in any::<bool>()) {
            let align = if right { Align::Right } else { Align::Left };
            let line = padded(&text, width, align);
            prop_assert!(!line.chars().any(char::is_control));
            prop_assert_eq!(line.width(), width, "{:?}", line);
        }
    }
}
