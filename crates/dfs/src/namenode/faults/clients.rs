//! Simulated clients: each works in a directory of its own, so that what it was told says what must be there.

use std::collections::BTreeMap;

use prost::Message as _;

use crate::wire::proto::namenode as calls;
use crate::wire::proto::shared::{DatanodeId, DatanodeInfo, ExtendedBlock, LocatedBlock, Permission};

/// The policy of the files whose number is odd.
pub const POLICY: &str = "RS-3-2-1024k";
/// Bytes of a block of whole replicas, and of a unit of a group: two cells.
pub const BLOCK_MAX: u64 = 100;
pub const UNIT_MAX: u64 = 2 << 20;

/// Bits of a request to append.
const APPEND: u32 = 4;
const NEW_BLOCK: u32 = 0x20;

/// A file as a client was told it is: its blocks with their lengths.
pub type Blocks = Vec<(i64, u64)>;

/// True for the name of a new file that is to be coded.
fn is_striped(name: &str) -> bool {
    name.ends_with(['1', '3', '5', '7', '9'])
}

/// A client with at most one call under way.
#[derive(Debug)]
pub struct Client {
    pub number: usize,
    /// Closed files by name, as acknowledged.
    pub files: BTreeMap<String, Blocks>,
    next_name: u64,
    next_call: i32,
    /// Bytes of the block that it writes that it was told are kept.
    pub promised: u64,
    /// What it is doing.
    pub work: Work,
    /// The call that has no answer yet, to be sent again as it was.
    pub pending: Option<Call>,
}

/// What a client is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    Idle,
    Creating {
        name: String,
    },
    Adding {
        name: String,
        file: u64,
        blocks: Vec<ExtendedBlock>,
        excluded: Vec<usize>,
    },
    Abandoning {
        name: String,
        file: u64,
        blocks: Vec<ExtendedBlock>,
        excluded: Vec<usize>,
    },
    /// A node of its pipeline has failed, and it goes on with those that are left: it asks for a stamp.
    Stamping {
        name: String,
        file: u64,
        blocks: Vec<ExtendedBlock>,
        left: Vec<Place>,
    },
    /// It says where it goes on, with the stamp that the last block gets by that.
    Updating {
        name: String,
        file: u64,
        blocks: Vec<ExtendedBlock>,
        left: Vec<Place>,
        stamp: u64,
    },
    /// It has written a part of a block, and has that kept.
    Flushing {
        name: String,
        file: u64,
        blocks: Vec<ExtendedBlock>,
        located: Box<LocatedBlock>,
        flushed: u64,
        /// It is gone as soon as it has been told.
        dies: bool,
    },
    /// It is gone: of its last block, if it has begun one, `flushed` bytes were promised and `sent` were written. Somebody else asks
    /// for the file, or whether the NameNode has closed it.
    Gone {
        name: String,
        blocks: Vec<ExtendedBlock>,
        flushed: u64,
        sent: u64,
        is_asked_for: bool,
    },
    /// Its file is closed, and somebody else looks what it is.
    Looking {
        name: String,
        blocks: Vec<ExtendedBlock>,
        flushed: u64,
        sent: u64,
    },
    Completing {
        name: String,
        file: u64,
        blocks: Vec<ExtendedBlock>,
    },
    /// It writes to a closed file again: within its last block, or behind it.
    Appending {
        name: String,
    },
    /// It makes a closed file shorter: these blocks stay, the last one perhaps cut.
    Truncating {
        name: String,
        blocks: Vec<ExtendedBlock>,
    },
    /// It gives the blocks of files to another one.
    Joining {
        to: String,
        from: Vec<String>,
    },
    Renaming {
        from: String,
        to: String,
    },
    Replacing {
        from: String,
        to: String,
    },
    Deleting {
        name: String,
    },
}

/// A unit of a block, 0 for a replica, and the node that it is written to.
pub type Place = (u8, usize);

/// A call as it is sent, and sent again.
#[derive(Clone, Debug)]
pub struct Call {
    pub id: i32,
    pub method: &'static str,
    pub argument: Vec<u8>,
}

impl Client {
    pub fn new(number: usize) -> Self {
        let (files, work) = (BTreeMap::new(), Work::Idle);
        Self { number, files, next_name: 0, next_call: 0, promised: 0, work, pending: None }
    }

    pub fn name(&self) -> String {
        format!("client-{}", self.number)
    }

    pub fn path(&self, name: &str) -> String {
        format!("/c{}/{name}", self.number)
    }

    /// Begins something new, if it is idle, and makes the call of what it is doing.
    pub fn prepare(&mut self, random: &mut fastrand::Rng) {
        if self.pending.is_some() {
            return;
        }
        if self.work == Work::Idle {
            self.work = self.begin(random);
        }
        let (method, argument) = self.next_request(random);
        self.next_call += 1;
        self.pending = Some(Call { id: self.next_call, method, argument });
    }

    fn begin(&mut self, random: &mut fastrand::Rng) -> Work {
        let some = |random: &mut fastrand::Rng, files: &BTreeMap<String, Blocks>| {
            let at = random.usize(..files.len().max(1));
            files.keys().nth(at).cloned()
        };
        self.next_name += 1;
        let new = format!("f{}", self.next_name);
        match (random.u8(..14), some(random, &self.files)) {
            (10, Some(name)) if !self.files[&name].is_empty() => Work::Appending { name },
            (8 | 11, Some(name)) => match self.truncated(&name, random) {
                Some(blocks) => Work::Truncating { name, blocks },
                None => Work::Creating { name: new },
            },
            (9 | 12 | 13, Some(to)) => match self.joined_to(&to) {
                from if from.is_empty() => Work::Creating { name: new },
                from => Work::Joining { to, from },
            },
            (0, Some(from)) => Work::Renaming { from, to: new },
            (1, Some(from)) => match some(random, &self.files).filter(|to| *to != from) {
                Some(to) => Work::Replacing { from, to },
                None => Work::Creating { name: new },
            },
            (2 | 3, Some(name)) => Work::Deleting { name },
            _ => Work::Creating { name: new },
        }
    }

    /// Blocks that a file is to have that is made shorter; none if it cannot be.
    fn truncated(&self, name: &str, random: &mut fastrand::Rng) -> Option<Vec<ExtendedBlock>> {
        let block = |(id, length): &(i64, u64)| ExtendedBlock {
            id: id.cast_unsigned(),
            length: Some(*length),
            ..ExtendedBlock::default()
        };
        let blocks = self.files[name].iter().filter(|(id, _)| *id > 0);
        let mut blocks: Vec<ExtendedBlock> = blocks.map(block).collect();
        blocks.truncate(random.usize(1..=blocks.len().max(1)));
        let last = blocks.last_mut()?;
        last.length = Some(random.u64(1..=last.length()));
        Some(blocks)
    }

    /// Files whose blocks another one may get: of the same form, and not without blocks.
    fn joined_to(&self, to: &str) -> Vec<String> {
        let form = |blocks: &Blocks| blocks.first().map(|(id, _)| *id < 0);
        let of = form(&self.files[to]);
        let fitting = self.files.iter().filter(|(name, blocks)| {
            // A name may have been given to a file of another form.
            *name != to && of.is_some() && form(blocks) == of && self.files[to].len() + blocks.len() < 8
        });
        fitting.map(|(name, _)| name.clone()).take(1).collect()
    }

    fn next_request(&self, random: &mut fastrand::Rng) -> (&'static str, Vec<u8>) {
        let client_name = self.name();
        match &self.work {
            Work::Idle => unreachable!("it has begun something"),
            Work::Creating { name } => {
                let is_striped = is_striped(name);
                let request = calls::CreateRequest {
                    src: self.path(name),
                    masked: Permission { mode: 0o644 },
                    client_name,
                    flags: 1,
                    create_parent: true,
                    replication: 3,
                    block_size: if is_striped { UNIT_MAX } else { BLOCK_MAX },
                    policy: is_striped.then(|| POLICY.to_owned()),
                    ..calls::CreateRequest::default()
                };
                ("create", request.encode_to_vec())
            }
            Work::Adding { name, file, blocks, excluded } => {
                let info = |node: &usize| DatanodeInfo {
                    id: DatanodeId { uuid: format!("dn-{node}"), ..DatanodeId::default() },
                    ..DatanodeInfo::default()
                };
                let request = calls::AddBlockRequest {
                    src: self.path(name),
                    client_name,
                    // One that appends behind a full block was told of none.
                    previous: blocks.last().filter(|last| last.stamp > 0).cloned(),
                    excluded: excluded.iter().map(info).collect(),
                    file_id: Some(*file),
                    ..calls::AddBlockRequest::default()
                };
                ("addBlock", request.encode_to_vec())
            }
            Work::Abandoning { name, file, blocks, .. } => {
                let request = calls::AbandonBlockRequest {
                    block: blocks.last().expect("it abandons one").clone(),
                    src: self.path(name),
                    holder: client_name,
                    file_id: Some(*file),
                };
                ("abandonBlock", request.encode_to_vec())
            }
            Work::Stamping { blocks, .. } => {
                let block = blocks.last().expect("it writes one").clone();
                ("updateBlockForPipeline", calls::UpdateBlockRequest { block, client_name }.encode_to_vec())
            }
            Work::Updating { blocks, left, stamp, .. } => {
                let old = blocks.last().expect("it writes one").clone();
                let new = ExtendedBlock { stamp: *stamp, ..old.clone() };
                let request = update_pipeline(client_name, old, new, left);
                ("updatePipeline", request.encode_to_vec())
            }
            Work::Flushing { name, file, flushed, .. } => {
                let length = random.bool().then(|| flushed.cast_signed());
                let request = calls::FsyncRequest {
                    src: self.path(name),
                    client_name,
                    last_block_length: length,
                    file_id: Some(*file),
                };
                ("fsync", request.encode_to_vec())
            }
            Work::Gone { name, is_asked_for: true, .. } => {
                let request =
                    calls::RecoverLeaseRequest { src: self.path(name), client_name: "other".to_owned() };
                ("recoverLease", request.encode_to_vec())
            }
            Work::Gone { name, .. } => {
                ("isFileClosed", calls::PathRequest { src: self.path(name) }.encode_to_vec())
            }
            Work::Looking { name, .. } => {
                let request =
                    calls::BlockLocationsRequest { src: self.path(name), offset: 0, length: u64::MAX };
                ("getBlockLocations", request.encode_to_vec())
            }
            Work::Completing { name, file, blocks } => {
                let request = calls::CompleteRequest {
                    src: self.path(name),
                    client_name,
                    last: blocks.last().cloned(),
                    file_id: Some(*file),
                };
                ("complete", request.encode_to_vec())
            }
            Work::Appending { name } => {
                let is_coded = self.files[name].iter().any(|(id, _)| *id < 0);
                let flags = Some(if is_coded || random.u8(..4) == 0 { APPEND | NEW_BLOCK } else { APPEND });
                ("append", calls::AppendRequest { src: self.path(name), client_name, flags }.encode_to_vec())
            }
            Work::Truncating { name, blocks } => {
                let length = blocks.iter().map(ExtendedBlock::length).sum();
                let src = self.path(name);
                ("truncate", calls::TruncateRequest { src, length, client_name }.encode_to_vec())
            }
            Work::Joining { to, from } => {
                let sources = from.iter().map(|name| self.path(name)).collect();
                ("concat", calls::ConcatRequest { target: self.path(to), sources }.encode_to_vec())
            }
            Work::Renaming { from, to } => {
                let (src, dst) = (self.path(from), self.path(to));
                let request = calls::RenameRequest { src, dst, overwrite: None, move_to_trash: None };
                ("rename", request.encode_to_vec())
            }
            Work::Replacing { from, to } => {
                let (src, dst) = (self.path(from), self.path(to));
                let request = calls::RenameRequest { src, dst, overwrite: Some(true), move_to_trash: None };
                ("rename2", request.encode_to_vec())
            }
            Work::Deleting { name } => {
                // Sometimes as a directory, which makes no difference.
                let request = calls::DeleteRequest { src: self.path(name), recursive: random.bool() };
                ("delete", request.encode_to_vec())
            }
        }
    }

    /// The blocks, with their lengths, that it has been told of and not told the NameNode to drop: they must not go.
    pub fn needed(&self) -> impl Iterator<Item = (i64, u64)> {
        let open = match &self.work {
            Work::Adding { blocks, .. } | Work::Completing { blocks, .. } => blocks.as_slice(),
            Work::Abandoning { blocks, .. }
            | Work::Stamping { blocks, .. }
            | Work::Flushing { blocks, .. }
            | Work::Gone { blocks, .. }
            | Work::Looking { blocks, .. }
            | Work::Updating { blocks, .. } => &blocks[..blocks.len() - 1],
            _ => &[],
        };
        // What is being replaced or deleted may go as soon as the call has been carried out.
        let doomed = match &self.work {
            Work::Replacing { to, .. } => Some(to),
            Work::Deleting { name } | Work::Truncating { name, .. } => Some(name),
            _ => None,
        };
        let kept = self.files.iter().filter(move |(name, _)| Some(*name) != doomed);
        let kept = kept.flat_map(|(_, blocks)| blocks.iter().copied());
        kept.chain(open.iter().map(|block| (block.id.cast_signed(), block.length())))
    }

    /// Takes the answer to the call that is under way. What a writer was given is returned, for it to write there.
    pub fn answered(&mut self, result: &[u8]) -> Option<LocatedBlock> {
        self.pending = None;
        let is_true = || calls::BoolResponse::decode(result).expect("it is one").result;
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Idle => unreachable!("it has called"),
            Work::Creating { name } => {
                let status =
                    calls::FileInfoResponse::decode(result).expect("it is one").status.expect("it was made");
                let file = status.id.expect("it has one");
                self.work = Work::Adding { name, file, blocks: Vec::new(), excluded: Vec::new() };
            }
            Work::Adding { name, file, blocks, excluded } => {
                let located = calls::AddBlockResponse::decode(result).expect("it is one").block;
                self.work = Work::Adding { name, file, blocks, excluded };
                return Some(located);
            }
            Work::Abandoning { name, file, mut blocks, excluded } => {
                blocks.pop();
                self.work = Work::Adding { name, file, blocks, excluded };
            }
            Work::Stamping { name, file, blocks, left } => {
                let given = calls::UpdateBlockResponse::decode(result).expect("it is one").block.block;
                self.work = Work::Updating { name, file, blocks, left, stamp: given.stamp };
            }
            Work::Updating { name, file, mut blocks, left, stamp } => {
                let old = blocks.pop().expect("it writes one");
                self.work = Work::Adding { name, file, blocks, excluded: Vec::new() };
                return Some(located(ExtendedBlock { stamp, ..old }, &left));
            }
            Work::Flushing { name, blocks, located, flushed, dies: true, .. } => {
                let (sent, is_asked_for) = (located.block.length(), flushed % 2 == 0);
                self.work = Work::Gone { name, blocks, flushed, sent, is_asked_for };
            }
            Work::Flushing { name, file, mut blocks, located, flushed, .. } => {
                blocks.pop();
                self.promised = flushed;
                self.work = Work::Adding { name, file, blocks, excluded: Vec::new() };
                return Some(*located);
            }
            Work::Gone { name, blocks, flushed, sent, is_asked_for } => {
                self.work = if is_true() {
                    Work::Looking { name, blocks, flushed, sent }
                } else {
                    Work::Gone { name, blocks, flushed, sent, is_asked_for }
                };
            }
            Work::Looking { name, blocks, flushed, sent } => {
                let located = calls::BlockLocationsResponse::decode(result).expect("it is one");
                self.found(name, &blocks, flushed..=sent, &located.locations.expect("it is a file").blocks);
            }
            Work::Completing { name, file, blocks } => {
                if is_true() {
                    let blocks =
                        blocks.iter().map(|block| (block.id.cast_signed(), block.length())).collect();
                    self.files.insert(name, blocks);
                } else {
                    self.work = Work::Completing { name, file, blocks };
                }
            }
            Work::Appending { name } => self.append(name, result),
            Work::Truncating { name, blocks } => {
                let last = blocks.last().expect("one stays").length();
                self.files.remove(&name);
                // Either way somebody looks what it is: its last block may have another stamp.
                self.work = if is_true() {
                    Work::Looking { name, blocks, flushed: last, sent: last }
                } else {
                    Work::Gone { name, blocks, flushed: last, sent: last, is_asked_for: last % 2 == 0 }
                };
            }
            Work::Joining { to, from } => {
                for name in from {
                    let blocks = self.files.remove(&name).expect("it was there");
                    self.files.get_mut(&to).expect("it was there").extend(blocks);
                }
            }
            Work::Renaming { from, to } => {
                assert!(is_true(), "{}: {from} was moved to {to}, and the answer says not", self.name());
                let blocks = self.files.remove(&from).expect("it was there");
                self.files.insert(to, blocks);
            }
            Work::Replacing { from, to } => {
                let blocks = self.files.remove(&from).expect("it was there");
                self.files.insert(to, blocks);
            }
            Work::Deleting { name } => {
                assert!(is_true(), "{}: {name} was deleted, and the answer says not", self.name());
                self.files.remove(&name);
            }
        }
        None
    }

    /// Goes on with a closed file: within its last block, if it was told where that is, else behind it.
    fn append(&mut self, name: String, result: &[u8]) {
        let answer = calls::AppendResponse::decode(result).expect("it is one");
        let file = answer.status.and_then(|status| status.id).expect("it has one");
        let block = |(id, length)| ExtendedBlock {
            id: i64::cast_unsigned(id),
            length: Some(length),
            ..<_>::default()
        };
        let mut blocks: Vec<ExtendedBlock> =
            self.files.remove(&name).expect("it was there").into_iter().map(block).collect();
        self.work = match answer.block {
            Some(last) => {
                let known = blocks.last_mut().expect("it has one");
                assert_eq!(
                    (known.id, known.length),
                    (last.block.id, last.block.length),
                    "it is as it was left"
                );
                *known = last.block.clone();
                if last.locations.is_empty() {
                    Work::Adding { name, file, blocks, excluded: Vec::new() }
                } else {
                    self.promised = known.length();
                    let node = |node: &DatanodeInfo| (0, node.id.uuid[3..].parse().expect("a number"));
                    let left = last.locations.iter().map(node).collect();
                    Work::Stamping { name, file, blocks, left }
                }
            }
            None => Work::Adding { name, file, blocks, excluded: Vec::new() },
        };
    }

    /// Takes what has become of a file whose writer was gone: all that was promised, and nothing that was never written.
    fn found(
        &mut self,
        name: String,
        blocks: &[ExtendedBlock],
        promised: std::ops::RangeInclusive<u64>,
        located: &[LocatedBlock],
    ) {
        let of = |block: &ExtendedBlock| (block.id.cast_signed(), block.length());
        let found: Blocks = located.iter().map(|one| of(&one.block)).collect();
        let (last, before) = blocks.split_last().expect("it has begun one");
        let before: Blocks = before.iter().map(of).collect();
        assert_eq!(found[..before.len()], before, "{name}: what had ended stays");
        match &found[before.len()..] {
            [] => assert_eq!(*promised.start(), 0, "{name}: {} is gone", last.id.cast_signed()),
            [(id, length)] => {
                let is_right = *id == last.id.cast_signed() && promised.contains(length) && *length > 0;
                assert!(is_right, "{name}: {id} has {length} bytes, and {promised:?} were written");
            }
            _ => panic!("{name}: {found:?}, and it wrote {blocks:?}"),
        }
        self.files.insert(name, found);
    }

    /// The last block, of which bytes were promised, and how many; none if nothing was.
    pub fn promised_of_last(&self) -> Option<(&ExtendedBlock, u64)> {
        match &self.work {
            Work::Gone { blocks, flushed, .. } => {
                Some((blocks.last()?, *flushed)).filter(|(_, flushed)| *flushed > 0)
            }
            _ => None,
        }
    }

    /// Goes on after it has written a block to all of its nodes, or found one of them gone: with those that are `left`, if it can, or
    /// with another block.
    pub fn wrote(
        &mut self,
        block: ExtendedBlock,
        broken: Option<usize>,
        left: Vec<Place>,
        random: &mut fastrand::Rng,
    ) {
        let Work::Adding { name, file, mut blocks, mut excluded } = self.work.clone() else {
            unreachable!("it was adding a block")
        };
        blocks.push(block);
        self.work = match broken {
            Some(_) if !left.is_empty() && (self.promised > 0 || random.bool()) => {
                Work::Stamping { name, file, blocks, left }
            }
            // It cannot go on, and was told that a part is kept.
            Some(_) if self.promised > 0 => {
                let sent = blocks.last().expect("it wrote one").length();
                Work::Gone { name, blocks, flushed: self.promised, sent, is_asked_for: random.bool() }
            }
            Some(node) => {
                excluded.push(node);
                Work::Abandoning { name, file, blocks, excluded }
            }
            None if blocks.len() < 3 && random.bool() => {
                Work::Adding { name, file, blocks, excluded: Vec::new() }
            }
            None => Work::Completing { name, file, blocks },
        };
    }
}

fn update_pipeline(
    client_name: String,
    old: ExtendedBlock,
    new: ExtendedBlock,
    left: &[Place],
) -> calls::UpdatePipelineRequest {
    // Of a group each unit has its place in the request, be it lost or not.
    let is_striped = old.id.cast_signed() < 0;
    let units = left.iter().map(|(unit, _)| unit + 1).max().filter(|_| is_striped);
    let in_unit = |unit: u8| left.iter().find(|(of, _)| *of == unit).map(|(_, node)| *node);
    let nodes: Vec<Option<usize>> = match units {
        Some(units) => (0..units).map(in_unit).collect(),
        None => left.iter().map(|(_, node)| Some(*node)).collect(),
    };
    let id = |node: &Option<usize>| DatanodeId {
        uuid: node.map_or("null".to_owned(), |node| format!("dn-{node}")),
        ..DatanodeId::default()
    };
    let storage = |node: &Option<usize>| node.map_or("null".to_owned(), |node| format!("DS-{node}"));
    let (ids, storage_ids) = (nodes.iter().map(id).collect(), nodes.iter().map(storage).collect());
    calls::UpdatePipelineRequest { client_name, old, new, nodes: ids, storage_ids }
}

/// A block on the nodes with which its writer goes on.
fn located(block: ExtendedBlock, left: &[Place]) -> LocatedBlock {
    let info = |(_, node): &Place| DatanodeInfo {
        id: DatanodeId { uuid: format!("dn-{node}"), ..DatanodeId::default() },
        ..DatanodeInfo::default()
    };
    let is_striped = block.id.cast_signed() < 0;
    LocatedBlock {
        block,
        locations: left.iter().map(info).collect(),
        indices: is_striped.then(|| left.iter().map(|(unit, _)| *unit).collect()),
        ..LocatedBlock::default()
    }
}
