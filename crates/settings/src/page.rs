//! The reference page of a table.

use std::fmt::Write;

use crate::table::{Level, Table};

/// A group of keys on a page.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Its name in the table.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What stands under the heading.
    pub intro: &'static str,
}

/// A page that says of all keys of a system what they do here.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// The keys.
    pub table: &'static Table,
    /// What stands above them, in Markdown.
    pub head: &'static str,
    /// The system's name, as in "default in NAME".
    pub system: &'static str,
    /// The groups, in order.
    pub groups: &'static [Group],
}

impl Page {
    /// The page, in Markdown.
    ///
    /// # Panics
    /// If a key is in none of the groups.
    pub fn text(&self) -> String {
        let mut text = String::from(self.head);
        let mut shown = 0;
        for Group { name, title, intro } in self.groups {
            let settings = || self.table.settings().iter().filter(|setting| setting.group == *name);
            let count = |level| settings().filter(|setting| setting.level == level).count();
            let counts: Vec<String> =
                Level::ALL.iter().map(|level| format!("{} {}", count(*level), level.name())).collect();
            let total = settings().count();
            shown += total;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n## {title}\n\n{intro} Of {total} keys: {}.\n", counts.join(", "));
            let _ =
                writeln!(text, "| key | default in {} | here | |\n| --- | --- | --- | --- |", self.system);
            for setting in settings() {
                let default = match cell(setting.default) {
                    empty if empty.is_empty() => empty,
                    text => format!("`{text}`"),
                };
                let deprecated: Vec<String> = setting.deprecated().map(|name| format!("`{name}`")).collect();
                let formerly = match deprecated.is_empty() {
                    true => String::new(),
                    false => format!("formerly {}", deprecated.join(", ")),
                };
                let notes = [cell(setting.note), cell(&formerly)];
                let notes: Vec<String> = notes.into_iter().filter(|note| !note.is_empty()).collect();
                let (level, note) = (setting.level.name(), notes.join("; "));
                let _ = writeln!(text, "| `{}` | {default} | {level} | {note} |", setting.key);
            }
        }
        assert_eq!(shown, self.table.settings().len(), "a key is in a group that the page does not show");
        text
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        Table::parse("@b\nx.z\t\trefused\ta|b\n@a\nx.y\t80\thonoured\t\tx.w,x.v\n", &["x."])
    });

    #[test]
    fn a_page_has_each_group_with_its_keys() {
        let page = Page {
            table: &TABLE,
            head: "# Settings\n",
            system: "X",
            groups: &[
                Group { name: "a", title: "First", intro: "All of them." },
                Group { name: "b", title: "Second", intro: "More." },
            ],
        };
        let expected = "\
# Settings

## First

All of them. Of 1 keys: 1 honoured, 0 other mechanism, 0 no effect, 0 refused.

| key | default in X | here | |
| --- | --- | --- | --- |
| `x.y` | `80` | honoured | formerly `x.w`, `x.v` |

## Second

More. Of 1 keys: 0 honoured, 0 other mechanism, 0 no effect, 1 refused.

| key | default in X | here | |
| --- | --- | --- | --- |
| `x.z` |  | refused | a\\|b |
";
        assert_eq!(page.text(), expected);
    }
}
