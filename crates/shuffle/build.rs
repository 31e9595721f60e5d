//! Generates the protobuf messages from `proto/` with protox, so that no `protoc` has to be installed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["celeborn.proto", "internal.proto", "journal.proto"], ["proto"])?;
    prost_build::Config::new()
        .bytes(["."]) // payloads are slices of the received frame, not copies
        .btree_map(["."]) // one value has one encoding
        .compile_fds(files)?;
    Ok(())
}
