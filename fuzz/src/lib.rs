//! What every fuzz target promises: no panic, no hang (libFuzzer's `-timeout`), and no more memory than twice the bytes
//! received plus 64 KiB.

/// Bytes that a decoder may use beside twice what it has received.
const SLACK: u64 = 64 * 1024;

/// Runs a decoder over `received` bytes, and fails if at any moment it holds more memory than it may.
pub fn bounded(received: usize, decode: impl FnOnce()) {
    bounded_by(SLACK, received, decode);
}

/// The same with less to spare than 64 KiB, in which a short input could swell many times unnoticed. What is left is for
/// what does not grow with the input, such as the text of an error.
pub fn bounded_by(slack: u64, received: usize, decode: impl FnOnce()) {
    bounded_times(2, slack, received, decode);
}

/// The same for a decoder that may hold `factor` times what it has received.
pub fn bounded_times(factor: u64, slack: u64, received: usize, decode: impl FnOnce()) {
    assert!(slack <= SLACK);
    let used = allocation_counter::measure(decode);
    let max = factor * received as u64 + slack;
    assert!(
        used.bytes_max <= max,
        "{} bytes held for {received} received, the most is {max}",
        used.bytes_max
    );
}

/// The methods that `dfs_call` calls as a client, by the first byte of a call.
pub const CALLS_OF_CLIENTS: [&str; 63] = [
    "create",
    "addBlock",
    "complete",
    "mkdirs",
    "rename",
    "rename2",
    "delete",
    "abandonBlock",
    "fsync",
    "setPermission",
    "setOwner",
    "setTimes",
    "setReplication",
    "setErasureCodingPolicy",
    "unsetErasureCodingPolicy",
    "enableErasureCodingPolicy",
    "disableErasureCodingPolicy",
    "getBlockLocations",
    "getListing",
    "getFileInfo",
    "getContentSummary",
    "reportBadBlocks",
    "renewLease",
    "setSafeMode",
    "getErasureCodingPolicy",
    "getErasureCodingPolicies",
    "getECTopologyResultForPolicies",
    "addErasureCodingPolicies",
    "removeErasureCodingPolicy",
    "getDatanodeReport",
    "getFsStats",
    "getPreferredBlockSize",
    "isFileClosed",
    "getServerDefaults",
    "getErasureCodingCodecs",
    "getHAServiceState",
    "getFileLinkInfo",
    "getDelegationToken",
    "msync",
    "append",
    "truncate",
    "concat",
    "listOpenFiles",
    "recoverLease",
    "updateBlockForPipeline",
    "updatePipeline",
    "getAdditionalDatanode",
    "setXAttr",
    "getXAttrs",
    "listXAttrs",
    "removeXAttr",
    "modifyAclEntries",
    "removeAclEntries",
    "removeDefaultAcl",
    "removeAcl",
    "setAcl",
    "getAclStatus",
    "setQuota",
    "getQuotaUsage",
    "setStoragePolicy",
    "unsetStoragePolicy",
    "getStoragePolicy",
    "getStoragePolicies",
];

/// Those that it calls as a DataNode, by any other first byte but 255, which lets time pass.
pub const CALLS_OF_DATANODES: [&str; 4] = ["notice", "report", "heartbeat", "register"];
