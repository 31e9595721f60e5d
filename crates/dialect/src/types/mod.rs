//! Values of all types: what is known of them, and what is done with texts and lists.
//!
//! - [`identity`]: functions that give what they are given, and hide it from the optimizer;
//! - [`list_casts`]: refuses to make a list of one value of what is none;
//! - [`list_functions`]: values beside the elements of a list, `x = ANY(list)` among them;
//! - [`map_types`]: types of maps;
//! - [`null_parents`]: makes the children of a null null;
//! - [`refused_operands`]: refuses operators and casts of types that have no such thing;
//! - [`spark_assertions`]: `assert_true`; [`spark_hashes`]: hashes of values as in Spark;
//! - [`spark_element`]: elements of lists and maps, counted from 0; [`spark_values`]: values as Spark has them;
//! - [`substr`]: parts of texts, with a start that counts from the end;
//! - [`type_name`]: names of types, as SQL writes them.

pub(crate) mod identity;
pub(crate) mod list_casts;
pub(crate) mod list_functions;
pub(crate) mod map_types;
pub(crate) mod null_parents;
pub(crate) mod refused_operands;
pub(crate) mod spark_assertions;
pub(crate) mod spark_element;
pub(crate) mod spark_hashes;
pub(crate) mod spark_values;
pub(crate) mod substr;
pub(crate) mod type_name;

pub use identity::Identity;
pub use null_parents::has_children;
pub use type_name::type_name;
