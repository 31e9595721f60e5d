//! The messages of `proto/`, as prost generates them.
#![allow(missing_docs, clippy::all)]

pub mod rpc {
    include!(concat!(env!("OUT_DIR"), "/yeoul.dfs.rpc.rs"));
}
pub mod shared {
    include!(concat!(env!("OUT_DIR"), "/yeoul.dfs.shared.rs"));
}
pub mod namenode {
    include!(concat!(env!("OUT_DIR"), "/yeoul.dfs.namenode.rs"));
}
pub mod transfer {
    include!(concat!(env!("OUT_DIR"), "/yeoul.dfs.transfer.rs"));
}
pub mod cluster {
    include!(concat!(env!("OUT_DIR"), "/yeoul.dfs.cluster.rs"));
}
pub mod attributes {
    include!(concat!(env!("OUT_DIR"), "/yeoul.dfs.attributes.rs"));
}
pub mod journal {
    include!(concat!(env!("OUT_DIR"), "/yeoul.dfs.journal.rs"));
}
