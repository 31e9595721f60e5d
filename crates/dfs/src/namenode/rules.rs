/// What decisions depend on and operators may set.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Copies of a block if the client does not say (`dfs.replication`).
    pub replication: u16,
    /// Bytes of a block if the client does not say (`dfs.blocksize`).
    pub block_size: u64,
    /// The least bytes of a block (`dfs.namenode.fs-limits.min-block-size`).
    pub block_size_min: u64,
    /// True if inodes may have ACLs (`dfs.namenode.acls.enabled`).
    pub acls_enabled: bool,
    /// True if the client's umask counts only where there is no default ACL (`dfs.namenode.posix.acl.inheritance.enabled`).
    pub posix_acl_inheritance: bool,
    /// True if inodes may have extended attributes (`dfs.namenode.xattrs.enabled`).
    pub xattrs_enabled: bool,
    /// Extended attributes of an inode (`dfs.namenode.fs-limits.max-xattrs-per-inode`).
    pub xattrs_max: usize,
    /// Bytes of the name and the value of an extended attribute (`dfs.namenode.fs-limits.max-xattr-size`).
    pub xattr_bytes_max: usize,
    /// True if operators may add erasure coding policies of their own (`dfs.namenode.ec.userdefined.policy.allowed`).
    pub may_add_policies: bool,
    /// Bytes of a cell of such a policy (`dfs.namenode.ec.policies.max.cellsize`).
    pub cell_bytes_max: u64,
    /// The user who may do everything; empty for the one whose process this is.
    pub superuser: String,
    /// The group whose members may do everything (`dfs.permissions.superusergroup`).
    pub supergroup: String,
    /// Milliseconds after which a silent DataNode is named to no client any more.
    pub silent_ms_max: u64,
    /// Milliseconds after which what a silent DataNode has is made anew elsewhere.
    pub repair_after_ms: u64,
    /// Copies of a block that are to be on other DataNodes while one may be away (`dfs.namenode.maintenance.replication.min`).
    pub away_copies_min: usize,
    /// Repairs of any size that one DataNode works at (`dfs.namenode.replication.max-streams`): of small ones there may be more.
    pub repair_streams_max: usize,
    /// The same for blocks of which one loss more takes bytes (`dfs.namenode.replication.max-streams-hard-limit`).
    pub repair_streams_hard_max: usize,
    /// Milliseconds without a sign of its writer after which a file is taken from it (`dfs.namenode.lease-hard-limit-sec`).
    pub lease_ms_max: u64,
    /// Minutes for which clients' trash is kept; 0 for no trash (`fs.trash.interval`).
    pub trash_minutes: u64,
    /// Minutes between checkpoints of the trash; 0 for as many as the trash is kept (`fs.trash.checkpoint.interval`).
    pub trash_checkpoint_minutes: u64,
    /// Milliseconds for which safe mode waits for the last blocks (`dfs.namenode.safemode.extension`).
    pub safe_mode_extension_ms: u64,
    /// DataNodes that have to be there before safe mode ends (`dfs.namenode.safemode.min.datanodes`).
    pub safe_mode_datanodes_min: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            replication: 3,
            block_size: 128 << 20,
            block_size_min: 1 << 20,
            acls_enabled: true,
            posix_acl_inheritance: true,
            xattrs_enabled: true,
            xattrs_max: 32,
            xattr_bytes_max: 16 << 10,
            may_add_policies: true,
            cell_bytes_max: 4 << 20,
            superuser: String::new(),
            supergroup: "supergroup".to_owned(),
            silent_ms_max: 3_000,
            repair_after_ms: 10_000,
            away_copies_min: 1,
            repair_streams_max: 2,
            repair_streams_hard_max: 4,
            lease_ms_max: 1_200_000,
            trash_minutes: 0,
            trash_checkpoint_minutes: 0,
            safe_mode_extension_ms: 30_000,
            safe_mode_datanodes_min: 0,
        }
    }
}
