//! Functions that mean something else in Spark, in its dialect. `spark.tsv` has a line for each.

use std::sync::LazyLock;

use super::Definition;

/// All of them, in the order of their names, and of the numbers of their arguments. Bodies are in the own dialect.
pub static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let lines = include_str!("spark.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.map(Definition::parse).collect()
});

/// The functions of a name in small letters.
pub(super) fn defined(name: &str) -> &'static [Definition] {
    let from = DEFINITIONS.partition_point(|definition| definition.name < name);
    let number = DEFINITIONS[from..].partition_point(|definition| definition.name == name);
    &DEFINITIONS[from..from + number]
}
