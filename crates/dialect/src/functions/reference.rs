//! The reference page of the functions, made from the table.

use std::fmt::Write as _;

use super::DEFINITIONS;

const HEAD: &str = "# Functions that stand for others

This page is made from the table that `yeoul sql` and `yeoul stream` use; a test compares them, and runs each example.

Spark, DuckDB and others have these by names of their own, and agree about them, or one of them alone has the name. Each stands for the
expression beside it: types, nulls and errors are those of the expression. An aggregate has its clauses, too (`FILTER`, `OVER`, an
order of the values), as far as the expression has none of its own. `SHOW FUNCTIONS` lists all functions.

| function | stands for | | example |
| --- | --- | --- | --- |
";

/// The page `docs/reference/sql-functions.md`.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for definition in DEFINITIONS.iter() {
        let (name, body) = (definition.signature(), definition.body);
        let (description, example, answer) = (definition.description, definition.example, definition.answer);
        let cell = |text: &str| text.replace('|', "\\|");
        let written = writeln!(
            page,
            "| `{}` | `{}` | {description} | `{}` is `{}` |",
            cell(&name),
            cell(body),
            cell(example),
            cell(answer)
        );
        written.expect("a String takes everything");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `YEOUL_WRITE_DOCS` set it writes the page instead.
    #[test]
    fn the_page_in_the_documentation_is_the_table() {
        // Read at run time: with a target folder that several clones share, the one that built this may be gone.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
        let path = &std::path::Path::new(&package).join("../../docs/reference/sql-functions.md");
        if std::env::var_os("YEOUL_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "run the test with YEOUL_WRITE_DOCS=1 and commit the page");
    }
}
