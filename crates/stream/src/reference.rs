//! The reference page of options and settings, made from the tables that the code goes by.

use crate::connectors::option_table::{
    CONNECTORS, ConnectorEntry, Direction, OptionEntry, Preset, WATERMARK_OPTIONS,
};
use crate::plan::{SETTINGS, Settings};

/// The page `docs/reference/stream-options.md`.
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    text += "\n## Settings\n\n`SET 'key' = 'value'` holds for the queries after it.\n\n";
    text += "| key | values | default | |\n| --- | --- | --- | --- |\n";
    let defaults = Settings::default();
    for entry in SETTINGS {
        let default = defaults.get(entry.key).unwrap_or_default();
        text += &row(&[&format!("`{}`", entry.key), entry.values, &format!("`{default}`"), entry.meaning]);
    }
    for (direction, title) in [
        (Direction::Source, "To read: CREATE STREAM"),
        (Direction::AtRest, "To join with: CREATE TABLE"),
        (Direction::Sink, "To write: CREATE SINK"),
    ] {
        text += &format!("\n## {title}\n");
        if direction == Direction::Source {
            text += "\n### With `WATERMARK FOR`\n\nOptions of every stream that has one.\n";
            text += &options(&WATERMARK_OPTIONS);
        }
        let of_direction = CONNECTORS.iter().filter(|entry| entry.direction == direction);
        of_direction.for_each(|entry| text += &section(entry));
    }
    text
}

const HEAD: &str = "# Options and settings of `yeoul stream`

This page is made from the tables that the code goes by; tests compare them with each other, and with what the connectors know.

Names of options are matched without regard to case, and one that is not honoured where it stands is refused with those that are. Durations are a
whole number and a unit: `100 ms`, `5 seconds`, `1 hour`. [docs/stream.md](../stream.md) tells how they belong together.
";

fn section(entry: &ConnectorEntry) -> String {
    let text = format!("\n### `'connector' = '{}'`\n\n{}\n", entry.name, entry.intro);
    if entry.options.is_empty() {
        return text + "\nIt has no options.\n";
    }
    text + &options(entry.options)
}

fn options(entries: &[OptionEntry]) -> String {
    let mut text = "\n| option | values | default | |\n| --- | --- | --- | --- |\n".to_owned();
    for option in entries {
        let default = match option.default {
            Preset::Needed => "has to be given".to_owned(),
            Preset::Nothing => "none".to_owned(),
            Preset::Fixed(value) => format!("`{value}`"),
            Preset::Depends(text) => text.to_owned(),
        };
        text += &row(&[&format!("`{}`", option.name), option.values, &default, option.meaning]);
    }
    text
}

/// A row of a table; a bar within a cell ends none.
fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `YEOUL_WRITE_DOCS` set it writes the page instead.
    #[test]
    fn the_page_in_the_documentation_is_the_tables() {
        // Read at run time: with a target folder that several clones share, the one that built this may be gone.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
        let path = &std::path::Path::new(&package).join("../../docs/reference/stream-options.md");
        if std::env::var_os("YEOUL_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "run the test with YEOUL_WRITE_DOCS=1 and commit the page");
    }
}
