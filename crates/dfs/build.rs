//! Generates the protobuf messages from `proto/` with protox, so that no `protoc` has to be installed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(
        [
            "rpc.proto",
            "namenode.proto",
            "transfer.proto",
            "cluster.proto",
            "journal.proto",
            "attributes.proto",
        ],
        ["proto"],
    )?;
    let mut config = prost_build::Config::new();
    config.bytes(["."]); // payloads are slices of the received frame, not copies
    config.btree_map(["."]); // one value has one encoding
    config.compile_fds(files)?;
    Ok(())
}
