//! Hadoop RPC over connections: the server of NameNode and DataNode, and the client by which a DataNode calls.

mod client;
mod groups;
mod server;

pub use client::{CallError, Client};
pub use groups::{Groups, process_user};
pub use server::{Answer, Calls, Incoming, Outcome, RpcServer};
