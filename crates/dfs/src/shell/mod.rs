//! What `yeoul dfs -ls` and its like do: the verbs of Hadoop's shell, with its flags and its output, on a [`FileSystem`].
//!
//! Each verb goes on with the next path when one fails: [`Output`] tells of the failure and counts it.
//!
//! [`FileSystem`]: crate::client::FileSystem

mod attributes;
mod copying;
mod listing;
mod local_files;
mod moving;
mod output;
mod progress;
mod reporting;
mod sizes;

pub use attributes::show_attributes;
pub use copying::{CopyOptions, get, print_files, put};
pub use listing::{ListOptions, SortBy, list};
pub use moving::{RemoveOptions, make_directories, move_to, remove};
pub use output::{Format, Output};
pub use reporting::{enable_policy, set_policy, show_policies, show_policy, show_report, unset_policy};
pub use sizes::{SizeOptions, show_sizes};
