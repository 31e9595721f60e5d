//! Functions that mean something else in Spark, in its dialect. `spark.tsv` has a line for each.

use std::sync::LazyLock;

use super::Definition;

/// All of them, in the order of their names, and of the numbers of their arguments. Bodies are in the own dialect.
pub static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let lines = include_str!("spark.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.map(Definition::parse).collect()
});

/// Functions of this engine whose names Spark gives another meaning, in the order of their names, with what to write instead.
pub const REFUSED: [(&str, &str); 1] = [("version", "SELECT 1: there is no Spark here")];

/// Replacement of a function that is refused, by its name in small letters.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    REFUSED.into_iter().find(|(refused, _)| *refused == name).map(|(_, instead)| instead)
}

/// The body of a function with so many arguments.
pub(crate) fn body(name: &str, arguments: usize) -> &'static str {
    let has_so_many = |of: &&Definition| of.parameters.as_ref().is_some_and(|names| names.len() == arguments);
    defined(name).iter().find(has_so_many).map_or("NULL", |definition| definition.body)
}

/// The functions of a name in small letters.
pub(crate) fn defined(name: &str) -> &'static [Definition] {
    let from = DEFINITIONS.partition_point(|definition| definition.name < name);
    let number = DEFINITIONS[from..].partition_point(|definition| definition.name == name);
    &DEFINITIONS[from..from + number]
}
