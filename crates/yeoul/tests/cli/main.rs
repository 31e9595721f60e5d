//! Goal: what people and scripts see of the binary stays as it is. Method: run it, and compare stdout, stderr and the exit
//! code with what stands here; times, sizes and folders, which differ from run to run, are replaced by a word.

#![allow(clippy::unwrap_used)] // what helps a test fails it

mod cluster;
mod harness;
mod log_levels;
mod product;
mod signals;
mod sql_answers;
mod sql_bad_input;
mod sql_shell;
mod sql_usage;
mod stream;
mod usage;
