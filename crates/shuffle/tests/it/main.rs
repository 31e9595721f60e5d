//! The tests of servers and clients over real sockets, one program: each that a test has for itself compiles and links the servers
//! once more.

#![allow(clippy::unwrap_used)] // what helps a test fails it

mod backpressure;
mod client;
mod cluster;
mod dashboard;
mod executors;
mod expired;
mod master;
mod pages;
mod replication;
mod service;
mod supervision;
mod worker;
