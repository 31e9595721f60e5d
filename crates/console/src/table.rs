//! A table with a heading, bounded in its rows.

use maud::{Markup, html};

use crate::cell::Cell;
use crate::value::grouped;

/// Rows of a table.
pub const ROWS_MAX: usize = 200;

/// A table. A phone shows each row as a list of its columns' names and values.
#[derive(Debug)]
pub struct Table {
    heading: &'static str,
    columns: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
    total: usize,
    nothing: &'static str,
}

impl Table {
    /// A table without rows.
    pub fn new(heading: &'static str, columns: &'static [&'static str]) -> Self {
        Self { heading, columns, rows: Vec::new(), total: 0, nothing: "None." }
    }

    /// The sentence that stands in place of a table without rows.
    pub fn or_say(mut self, nothing: &'static str) -> Self {
        self.nothing = nothing;
        self
    }

    /// The first [`ROWS_MAX`] of the rows, `total` being how many there are; no more are made.
    pub fn fill(&mut self, total: usize, rows: impl IntoIterator<Item = Vec<Cell>>) {
        self.rows = rows.into_iter().take(ROWS_MAX).collect();
        self.total = total.max(self.rows.len());
    }

    pub(crate) fn markup(&self) -> Markup {
        let is_number =
            |at: usize| self.rows.first().and_then(|row| row.get(at)).is_some_and(Cell::is_number);
        html! {
            section {
                h2 {
                    (self.heading)
                    @if self.total > 0 { " " span.count { (grouped(self.total as u64)) } }
                }
                @if self.rows.is_empty() {
                    p.nothing { (self.nothing) }
                } @else {
                    div.scroll {
                        table {
                            thead { tr {
                                @for (at, column) in self.columns.iter().enumerate() {
                                    th.number[is_number(at)] scope="col" { (column) }
                                }
                            } }
                            tbody {
                                @for row in &self.rows {
                                    tr {
                                        @for (cell, column) in row.iter().zip(self.columns) {
                                            td.number[cell.is_number()] data-column=(column) {
                                                div.value { (cell.markup()) }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    @if self.total > self.rows.len() {
                        p.more { (grouped((self.total - self.rows.len()) as u64)) " more are not shown." }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_limit_are_counted_and_never_made() {
        let mut made = 0;
        let mut table = Table::new("Rows", &["Row"]);
        let rows = std::iter::from_fn(|| {
            made += 1;
            Some(vec![Cell::number(made)])
        });
        table.fill(1_000_200, rows);
        let html = table.markup().0;
        assert_eq!(html.matches("<td").count(), ROWS_MAX);
        assert!(html.contains("1,000,000 more are not shown."), "{html}");
        assert_eq!(made, ROWS_MAX as u64);
    }

    #[test]
    fn a_table_without_rows_says_so() {
        let html = Table::new("Rows", &["Row"]).or_say("No row has come.").markup().0;
        assert!(html.contains("No row has come.") && !html.contains("<table"), "{html}");
    }
}
