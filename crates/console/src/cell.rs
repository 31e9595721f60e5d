//! A cell of a table, or the value of a figure.

use maud::{Markup, html};
use yeoul_base::ByteSize;

use crate::href::Href;
use crate::value::{grouped, percent, shown, span, utc};

/// The meaning of a state, which its colour and its mark show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Neither.
    Plain,
    /// Somebody should look.
    Warning,
    /// Something is broken or lost.
    Bad,
}

impl Tone {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Plain => "plain",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// A value as a page shows it.
#[derive(Debug, Clone)]
pub struct Cell {
    markup: Markup,
    is_number: bool,
}

impl Cell {
    /// A text; a dash if it is empty.
    pub fn text(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        Self::of(if text.is_empty() {
            html! { span.none { "–" } }
        } else {
            html! { (shown(text)) }
        })
    }

    /// A text that leads somewhere, if there is somewhere.
    pub fn link(text: impl AsRef<str>, href: Option<Href>) -> Self {
        match href {
            Some(href) => Self::of(html! { a href=(href.as_str()) { (shown(text.as_ref())) } }),
            None => Self::text(text),
        }
    }

    /// A count.
    pub fn number(number: u64) -> Self {
        Self { markup: html! { (grouped(number)) }, is_number: true }
    }

    /// A number of bytes.
    pub fn bytes(bytes: u64) -> Self {
        let exact = format!("{} bytes", grouped(bytes));
        Self { markup: html! { span title=(exact) { (ByteSize::from_bytes(bytes)) } }, is_number: true }
    }

    /// A state, with a mark of its colour.
    pub fn state(tone: Tone, text: impl AsRef<str>) -> Self {
        Self::of(html! { span.state.(tone.class()) { (shown(text.as_ref())) } })
    }

    /// How much of something is used: a meter with both numbers of bytes.
    pub fn space(used: u64, total: u64) -> Self {
        if total == 0 {
            return Self::text("");
        }
        let share = percent(used, total);
        let said = format!("{} of {}", ByteSize::from_bytes(used), ByteSize::from_bytes(total));
        let tone = match share {
            0..=84 => Tone::Plain,
            85..=94 => Tone::Warning,
            _ => Tone::Bad,
        };
        // A little is seen, too.
        let width = format!("{}%", share.max(u64::from(used > 0)));
        let label = format!("{share} % used");
        Self::of(html! {
            span.space {
                // Attributes of SVG, because the policy of the page takes no style but the sheet's.
                svg.meter.(tone.class()) role="img" aria-label=(label) {
                    title { (label) }
                    rect.track width="100%" height="100%" rx="3" {}
                    rect.fill width=(width) height="100%" rx="3" {}
                }
                span { (said) }
            }
        })
    }

    /// How long ago something was, with its time of day; a dash if it never was, which 0 says.
    pub fn ago(unix_ms: u64, now_unix_ms: u64) -> Self {
        if unix_ms == 0 {
            return Self { is_number: true, ..Self::text("") };
        }
        let text = format!("{} ago", span(now_unix_ms.saturating_sub(unix_ms) / 1000));
        Self { markup: html! { span title=[utc(unix_ms)] { (text) } }, is_number: true }
    }

    /// Several values below each other, at most [`Self::LINES_MAX`] of them.
    pub fn lines(cells: impl IntoIterator<Item = Cell>) -> Self {
        let mut cells = cells.into_iter();
        let lines: Vec<Cell> = cells.by_ref().take(Self::LINES_MAX).collect();
        if lines.is_empty() {
            return Self::text("");
        }
        let more = cells.count();
        Self::of(html! {
            @for line in &lines { div.line { (line.markup()) } }
            @if more > 0 { div.more { (grouped(more as u64)) " more" } }
        })
    }

    /// Lines of one cell.
    pub const LINES_MAX: usize = 16;

    pub(crate) fn markup(&self) -> &Markup {
        &self.markup
    }

    pub(crate) fn is_number(&self) -> bool {
        self.is_number
    }

    fn of(markup: Markup) -> Self {
        Self { markup, is_number: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_lines_that_fit_and_says_how_many_more() {
        let lines = Cell::lines((0..Cell::LINES_MAX as u64 + 3).map(Cell::number)).markup.0;
        assert_eq!(lines.matches("class=\"line\"").count(), Cell::LINES_MAX);
        assert!(lines.contains("3 more"), "{lines}");
        assert!(Cell::lines([]).markup.0.contains('–'));
    }

    #[test]
    fn a_meter_is_in_its_bounds_and_has_its_numbers_as_text() {
        let meter = Cell::space(u64::MAX, 1 << 30).markup.0;
        assert!(meter.contains("width=\"100%\" height") && meter.contains("of 1 GiB"), "{meter}");
        assert!(meter.contains("aria-label=\"100 % used\""), "{meter}");
        assert!(Cell::space(5, 0).markup.0.contains('–'), "nothing is known of it");
    }
}
