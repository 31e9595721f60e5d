use bytes::Bytes;
use prost::Message;

use super::State;
use crate::namenode::Context;
use crate::wire::DecodeError;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::namenode::PathRequest;

/// What a method does to the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Read,
    /// It changes something, and may be carried out again.
    Write,
    /// It changes something, and must not be carried out again: the answer is kept for a client that asks twice.
    Once,
    /// It changes what is learned anew after a restart: also in safe mode, and nobody waits for the journal.
    Soft,
    /// We do not have it yet.
    Unsupported,
}

type Handler = fn(&mut State, &mut Context<'_>, Bytes) -> Result<Vec<u8>, Refusal>;

/// A handler for a method of [`State`] that takes a decoded argument and gives a result to encode.
macro_rules! decoded {
    ($method:ident) => {
        |state, context, argument| {
            let request = decode(argument)?;
            state.$method(context, &request).map(|result| result.encode_to_vec())
        }
    };
}

/// The same, if the result is encoded already, as it is in the record.
macro_rules! encoded {
    ($method:ident) => {
        |state, context, argument| state.$method(context, &decode(argument)?)
    };
}

/// The methods of `ClientProtocol` that we have.
const METHODS: &[(&str, Kind, Handler)] = &[
    ("abandonBlock", Kind::Write, decoded!(abandon_block)),
    ("addBlock", Kind::Write, decoded!(add_block)),
    ("addErasureCodingPolicies", Kind::Once, encoded!(add_policies)),
    ("append", Kind::Once, encoded!(append)),
    ("checkAccess", Kind::Read, decoded!(check_access)),
    ("complete", Kind::Write, decoded!(complete)),
    ("concat", Kind::Once, encoded!(concat)),
    ("create", Kind::Once, encoded!(create)),
    ("delete", Kind::Once, encoded!(delete)),
    ("disableErasureCodingPolicy", Kind::Once, encoded!(disable_policy)),
    ("enableErasureCodingPolicy", Kind::Once, encoded!(enable_policy)),
    ("fsync", Kind::Write, decoded!(fsync)),
    ("getAdditionalDatanode", Kind::Read, decoded!(additional_datanode)),
    ("getAclStatus", Kind::Read, decoded!(acl_status)),
    ("getBatchedListing", Kind::Read, decoded!(batched_listing)),
    ("getBlockLocations", Kind::Read, decoded!(block_locations)),
    ("getContentSummary", Kind::Read, decoded!(content_summary)),
    ("getDatanodeReport", Kind::Read, decoded!(datanode_report)),
    ("getDatanodeStorageReport", Kind::Read, decoded!(datanode_storage_report)),
    ("getDelegationToken", Kind::Read, decoded!(nothing)),
    ("getECTopologyResultForPolicies", Kind::Read, decoded!(topology_result)),
    ("getEnclosingRoot", Kind::Read, decoded!(enclosing_root)),
    ("getErasureCodingCodecs", Kind::Read, decoded!(codecs)),
    ("getErasureCodingPolicies", Kind::Read, decoded!(policies)),
    ("getErasureCodingPolicy", Kind::Read, decoded!(policy)),
    ("getFileInfo", Kind::Read, decoded!(file_info)),
    ("getFileLinkInfo", Kind::Read, decoded!(file_info)),
    ("getFsECBlockGroupStats", Kind::Read, decoded!(group_stats)),
    ("getFsReplicatedBlockStats", Kind::Read, decoded!(replicated_stats)),
    ("getFsStats", Kind::Read, decoded!(fs_stats)),
    ("getHAServiceState", Kind::Read, decoded!(ha_state)),
    ("getListing", Kind::Read, decoded!(listing)),
    ("getPreferredBlockSize", Kind::Read, decoded!(preferred_block_size)),
    ("getQuotaUsage", Kind::Read, decoded!(quota_usage)),
    ("getServerDefaults", Kind::Read, decoded!(server_defaults)),
    ("getSlowDatanodeReport", Kind::Read, decoded!(slow_datanodes)),
    ("getXAttrs", Kind::Read, decoded!(get_xattrs)),
    ("getStoragePolicies", Kind::Read, decoded!(storage_policies)),
    ("getStoragePolicy", Kind::Read, decoded!(storage_policy)),
    ("isFileClosed", Kind::Read, decoded!(is_file_closed)),
    ("listCorruptFileBlocks", Kind::Read, decoded!(list_corrupt_files)),
    ("listOpenFiles", Kind::Read, decoded!(list_open_files)),
    ("listXAttrs", Kind::Read, decoded!(list_xattrs)),
    ("mkdirs", Kind::Write, decoded!(mkdirs)),
    ("modifyAclEntries", Kind::Write, decoded!(modify_acl)),
    ("msync", Kind::Read, decoded!(nothing)),
    ("recoverLease", Kind::Write, decoded!(recover_lease)),
    ("removeAcl", Kind::Write, decoded!(remove_acl)),
    ("removeAclEntries", Kind::Write, decoded!(remove_acl_entries)),
    ("removeDefaultAcl", Kind::Write, decoded!(remove_default_acl)),
    ("removeErasureCodingPolicy", Kind::Once, encoded!(remove_policy)),
    ("removeXAttr", Kind::Once, encoded!(remove_xattr)),
    ("rename", Kind::Once, encoded!(rename)),
    ("rename2", Kind::Once, encoded!(rename_or_replace)),
    ("renewLease", Kind::Soft, decoded!(renew_lease)),
    ("reportBadBlocks", Kind::Soft, decoded!(report_bad_blocks)),
    ("rollingUpgrade", Kind::Read, decoded!(rolling_upgrade)),
    ("setAcl", Kind::Write, decoded!(set_acl)),
    ("setBalancerBandwidth", Kind::Soft, decoded!(set_balancer_bandwidth)),
    ("setErasureCodingPolicy", Kind::Once, encoded!(set_policy)),
    ("setOwner", Kind::Write, decoded!(set_owner)),
    ("setPermission", Kind::Write, decoded!(set_permission)),
    ("setQuota", Kind::Write, decoded!(set_quota)),
    ("setReplication", Kind::Write, decoded!(set_replication)),
    ("setSafeMode", Kind::Soft, decoded!(set_safe_mode)),
    ("setStoragePolicy", Kind::Write, decoded!(set_storage_policy)),
    ("setTimes", Kind::Write, decoded!(set_times)),
    ("setXAttr", Kind::Once, encoded!(set_xattr)),
    ("truncate", Kind::Write, decoded!(truncate)),
    ("unsetErasureCodingPolicy", Kind::Once, encoded!(unset_policy)),
    ("unsetStoragePolicy", Kind::Write, decoded!(unset_storage_policy)),
    ("updateBlockForPipeline", Kind::Write, decoded!(stamp_for_pipeline)),
    ("updatePipeline", Kind::Once, encoded!(update_pipeline)),
];

/// Methods that make more names, files or blocks.
const GROWING: [&str; 6] = ["addBlock", "create", "mkdirs", "modifyAclEntries", "setAcl", "setXAttr"];

/// Our own methods, which DataNodes call.
const CLUSTER_METHODS: &[(&str, Kind, Handler)] = &[
    ("heartbeat", Kind::Soft, decoded!(heartbeat)),
    ("notice", Kind::Soft, decoded!(take_notices)),
    ("register", Kind::Soft, decoded!(register)),
    ("report", Kind::Soft, decoded!(take_report)),
];

/// The methods of `NamenodeProtocol` that we have, which a balancer calls.
const BALANCER_METHODS: &[(&str, Kind, Handler)] = &[
    ("getBlockKeys", Kind::Read, decoded!(block_keys)),
    ("getBlocks", Kind::Read, decoded!(blocks_to_balance)),
    ("isRollingUpgrade", Kind::Read, decoded!(is_rolling_upgrade)),
    ("isUpgradeFinalized", Kind::Read, decoded!(is_upgrade_finalized)),
    ("versionRequest", Kind::Read, decoded!(version)),
];

/// Those of secondary and standby NameNodes, which there are none of.
const UNSUPPORTED_OF_NAMENODES: &[&str] = &[
    "endCheckpoint",
    "errorReport",
    "getEditLogManifest",
    "getMostRecentCheckpointTxId",
    "getMostRecentNameNodeFileTxId",
    "getNextSPSPath",
    "getTransactionId",
    "registerSubordinateNamenode",
    "rollEditLog",
    "startCheckpoint",
];

/// Methods of HDFS that we know and do not have.
const UNSUPPORTED: &[&str] = &[
    "addCacheDirective",
    "addCachePool",
    "allowSnapshot",
    "cancelDelegationToken",
    "createEncryptionZone",
    "createSnapshot",
    "createSymlink",
    "deleteSnapshot",
    "disallowSnapshot",
    "finalizeUpgrade",
    "getCurrentEditLogTxid",
    "getDataEncryptionKey",
    "getEZForPath",
    "getEditsFromTxid",
    "getLinkTarget",
    "getLocatedFileInfo",
    "getSnapshotDiffReport",
    "getSnapshotDiffReportListing",
    "getSnapshotListing",
    "getSnapshottableDirListing",
    "listCacheDirectives",
    "listCachePools",
    "listEncryptionZones",
    "listReencryptionStatus",
    "modifyCacheDirective",
    "modifyCachePool",
    "reencryptEncryptionZone",
    "removeCacheDirective",
    "removeCachePool",
    "renameSnapshot",
    "renewDelegationToken",
    "restoreFailedStorage",
    "satisfyStoragePolicy",
    "upgradeStatus",
];

fn decode<M: Message + Default>(argument: Bytes) -> Result<M, Refusal> {
    let what = "the argument";
    Ok(M::decode(argument).map_err(|source| DecodeError::Protobuf { what, source })?)
}

fn entry(methods: &'static [(&str, Kind, Handler)], method: &str) -> Option<(Kind, Handler)> {
    methods.iter().find(|(name, ..)| *name == method).map(|(_, kind, handler)| (*kind, *handler))
}

/// What a method of the client's protocol does; none if it is unknown.
pub fn kind_of(method: &str) -> Option<Kind> {
    let is_unsupported = || UNSUPPORTED.contains(&method).then_some(Kind::Unsupported);
    entry(METHODS, method).map(|(kind, _)| kind).or_else(is_unsupported)
}

/// Words for a change and the path that its argument begins with, as HDFS says what safe mode refuses.
fn what_is_refused(method: &str, argument: Bytes) -> String {
    let words = match method {
        "append" => "append to file",
        "addBlock" => "get additional block for ",
        "complete" => "complete file ",
        "concat" => "concat ",
        // HDFS has no space there, and its tests look for that.
        "create" => "create file",
        "delete" => "delete ",
        "fsync" => "fsync file ",
        "mkdirs" => "create directory ",
        "recoverLease" => "recover the lease of ",
        "modifyAclEntries" => "modify ACL entries on ",
        "removeAcl" => "remove ACL on ",
        "removeAclEntries" => "remove ACL entries on ",
        "removeDefaultAcl" => "remove default ACL entries on ",
        "removeXAttr" => "remove XAttr entry on ",
        "rename" | "rename2" => "rename ",
        "setAcl" => "set ACL on ",
        "setErasureCodingPolicy" => "set erasure coding policy on ",
        "setOwner" => "set owner for ",
        "setPermission" => "set permission for ",
        "setQuota" => "set quota on ",
        "setReplication" => "set replication for ",
        "setStoragePolicy" => "set storage policy for ",
        "setTimes" => "set times ",
        "setXAttr" => "set XAttr on ",
        "truncate" => "truncate for ",
        "unsetStoragePolicy" => "unset storage policy for ",
        "unsetErasureCodingPolicy" => "unset erasure coding policy on ",
        other => return other.to_owned(),
    };
    let path = PathRequest::decode(argument).map(|request| request.src).unwrap_or_default();
    format!("{words}{path}")
}

impl State {
    /// Carries out a call of a client.
    ///
    /// # Errors
    /// What the client gets to know. Nothing has changed then.
    pub fn call(
        &mut self,
        context: &mut Context<'_>,
        method: &str,
        argument: Bytes,
    ) -> Result<Vec<u8>, Refusal> {
        let Some((kind, handler)) = entry(METHODS, method) else {
            return Err(if UNSUPPORTED.contains(&method) {
                Refusal::unsupported(method)
            } else {
                Refusal::new(
                    Exception::NoSuchMethod,
                    format!("Unknown method {method} called on ClientProtocol"),
                )
            });
        };
        if kind == Kind::Once
            && let Some(answer) = context.caller.and_then(|caller| self.retry_cache.get(&caller))
        {
            return Ok(answer.into());
        }
        if matches!(kind, Kind::Write | Kind::Once) && self.safe_mode.is_on() {
            return Err(self.safe_mode_refusal(&what_is_refused(method, argument), context.now.steady_ms));
        }
        if !self.may_grow && GROWING.contains(&method) {
            // As HDFS says it of too many objects (`dfs.namenode.max.objects`).
            let message = "the NameNode has no memory for more files and blocks: delete some, or start it with more --memory";
            return Err(Refusal::new(Exception::Io, message.to_owned()));
        }
        let before = self.sequence;
        let result = handler(self, context, argument);
        assert!(result.is_ok() || self.sequence == before, "what is refused changes nothing");
        result
    }

    /// Carries out a call of a balancer, which changes nothing.
    ///
    /// # Errors
    /// What the balancer gets to know.
    pub fn balancer_call(
        &mut self,
        context: &mut Context<'_>,
        method: &str,
        argument: Bytes,
    ) -> Result<Vec<u8>, Refusal> {
        if UNSUPPORTED_OF_NAMENODES.contains(&method) {
            return Err(Refusal::unsupported(method));
        }
        let Some((_, handler)) = entry(BALANCER_METHODS, method) else {
            let message = format!("Unknown method {method} called on NamenodeProtocol");
            return Err(Refusal::new(Exception::NoSuchMethod, message));
        };
        handler(self, context, argument)
    }

    /// Carries out a call of a DataNode.
    ///
    /// # Errors
    /// What the DataNode gets to know.
    pub fn cluster_call(
        &mut self,
        context: &mut Context<'_>,
        method: &str,
        argument: Bytes,
    ) -> Result<Vec<u8>, Refusal> {
        let Some((_, handler)) = entry(CLUSTER_METHODS, method) else {
            return Err(Refusal::new(Exception::NoSuchMethod, format!("Unknown method {method}")));
        };
        handler(self, context, argument)
    }
}
