//! Goal: `yeoul dfs` works for people and scripts as Hadoop's shell does. Method: a cluster in a process of its own, the verbs
//! in others; stdout, stderr and the exit code are compared with what stands here.

#![allow(clippy::unwrap_used)] // what helps a test fails it

#[allow(dead_code)] // it serves the other verbs, too
#[path = "../cli/harness.rs"]
mod harness;
mod refusals;
mod server;
mod verbs;
