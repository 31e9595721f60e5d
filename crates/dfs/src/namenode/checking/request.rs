use crate::wire::Refusal;
use crate::wire::exception::Exception;

/// Blocks that one request may name.
const BLOCKS_MAX: usize = 1000;

/// A request for a check, as `hdfs fsck` makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRequest {
    /// The user who asks, if the request names one.
    pub user: Option<String>,
    /// Where the check begins.
    pub path: String,
    /// What the check looks at.
    pub subject: Subject,
    /// What the report shows beside the totals.
    pub shown: Shown,
    /// Files that cannot be read are removed (`-delete`).
    pub removes: bool,
    /// What can be read of them is copied to `/lost+found` before (`-move`).
    pub moves: bool,
}

/// What a check looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Files and their blocks.
    Files,
    /// Blocks that cannot be read (`-list-corruptfileblocks`).
    UnreadableBlocks,
    /// Single blocks by their names, such as `blk_1073741825` (`-blockId`).
    Blocks(Vec<String>),
}

/// What the report of a check shows beside the totals, each by the option of `hdfs fsck`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // each is called as the option that it stands for
pub struct Shown {
    pub files: bool,
    pub blocks: bool,
    pub locations: bool,
    pub racks: bool,
    pub replica_details: bool,
    pub upgrade_domains: bool,
    pub maintenance: bool,
    pub open_files: bool,
    pub storage_types: bool,
    pub progress: bool,
}

impl Shown {
    /// True if the places of replicas are shown.
    pub fn has_places(self) -> bool {
        self.locations || self.racks || self.replica_details || self.upgrade_domains
    }
}

impl CheckRequest {
    /// The request of a query's names and values.
    ///
    /// # Errors
    /// `UnsupportedOperation` for an option that is not there, `HadoopIllegalArgument` for an unknown one and for too many blocks;
    /// with the path, for the report.
    pub fn parse(pairs: impl Iterator<Item = (String, String)>) -> Result<Self, (String, Refusal)> {
        let (mut path, mut user, mut subject, mut shown) =
            ("/".to_owned(), None, Subject::Files, Shown::default());
        let (mut refused, mut removes, mut moves) = (None, false, false);
        for (name, value) in pairs {
            match name.as_str() {
                "path" => path = value,
                // HDFS takes the first of a user and its groups.
                "ugi" | "user.name" => user = value.split(',').next().map(str::to_owned),
                "files" => shown.files = true,
                "blocks" => shown.blocks = true,
                "locations" => shown.locations = true,
                "racks" => shown.racks = true,
                "replicadetails" => shown.replica_details = true,
                "upgradedomains" => shown.upgrade_domains = true,
                "maintenance" => shown.maintenance = true,
                "openforwrite" => shown.open_files = true,
                "storagepolicies" => shown.storage_types = true,
                "showprogress" => shown.progress = true,
                // Nothing has snapshots here, so that there is no more to look at.
                "includeSnapshots" => {}
                "listcorruptfileblocks" => subject = Subject::UnreadableBlocks,
                // All are in one answer, so that nobody has to go on from here.
                "startblockafter" => {}
                "blockId" => {
                    let blocks: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
                    if blocks.len() > BLOCKS_MAX {
                        let message = format!("{} blocks are more than {BLOCKS_MAX}", blocks.len());
                        refused = Some(Refusal::new(Exception::HadoopIllegalArgument, message));
                    }
                    subject = Subject::Blocks(blocks);
                }
                "delete" => removes = true,
                "move" => moves = true,
                "replicate" => {
                    let message =
                        "fsck -replicate is not supported by yeoul dfs: what is misplaced moves without it";
                    refused = Some(Refusal::new(Exception::UnsupportedOperation, message));
                }
                other => {
                    let message = format!("the option '{other:.40}' of fsck is unknown");
                    refused = Some(Refusal::new(Exception::HadoopIllegalArgument, message));
                }
            }
        }
        match refused {
            Some(refusal) => Err((path, refusal)),
            None => {
                Ok(Self { user: user.filter(|user| !user.is_empty()), path, subject, shown, removes, moves })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<CheckRequest, (String, Refusal)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        CheckRequest::parse(pairs.iter().map(owned))
    }

    #[test]
    fn a_request_is_what_the_stock_client_sends() {
        let sent =
            [("ugi", "judge,supergroup"), ("files", "1"), ("blocks", "1"), ("racks", "1"), ("path", "/a b")];
        let request = parse(&sent).unwrap();
        assert_eq!((request.user.as_deref(), request.path.as_str()), (Some("judge"), "/a b"));
        assert_eq!(request.subject, Subject::Files);
        assert_eq!(request.shown, Shown { files: true, blocks: true, racks: true, ..Shown::default() });
        assert!(!request.removes && !request.moves);
        let request = parse(&[("move", "1"), ("delete", "1")]).unwrap();
        assert!(request.removes && request.moves);
        let request = parse(&[("ugi", ""), ("blockId", "blk_1 blk_-16_1002 ")]).unwrap();
        assert_eq!((request.user, request.path.as_str()), (None, "/"));
        assert_eq!(request.subject, Subject::Blocks(vec!["blk_1".to_owned(), "blk_-16_1002".to_owned()]));
    }

    #[test]
    fn what_is_not_honoured_is_refused_by_its_name() {
        for (name, exception, words) in [
            ("replicate", Exception::UnsupportedOperation, "fsck -replicate is not supported"),
            ("repair", Exception::HadoopIllegalArgument, "'repair' of fsck is unknown"),
        ] {
            let (path, refusal) = parse(&[(name, "1"), ("path", "/x")]).unwrap_err();
            assert_eq!((path.as_str(), refusal.exception), ("/x", exception));
            assert!(refusal.message.contains(words), "{refusal}");
        }
        let many = "blk_1 ".repeat(1001);
        assert!(parse(&[("blockId", &many)]).is_err() && parse(&[("blockId", &many[6..])]).is_ok());
    }
}
