//! The tests of a cluster in this process, one program: each that a test has for itself compiles and links the engine once more.

#![allow(clippy::unwrap_used)] // what helps a test fails it

mod started;
mod statements;
mod wrong_answers;
