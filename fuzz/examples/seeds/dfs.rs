//! Valid inputs for the decoders of the file system.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use yeoul_dfs::wire::checksum::Chunking;
use yeoul_dfs::wire::packet::Header;
use yeoul_dfs::wire::proto::attributes;
use yeoul_dfs::wire::proto::journal::record::Change;
use yeoul_dfs::wire::proto::journal::{self, Record};
use yeoul_dfs::wire::proto::rpc::{CallHeader, ConnectionContext, RequestHeader, Sasl};
use yeoul_dfs::wire::proto::shared::{
    DatanodeId, DatanodeInfo, ErasureCodingPolicy, ExtendedBlock, LocatedBlock, Permission,
};
use yeoul_dfs::wire::proto::transfer::{
    BaseHeader, BlockChecksum, BlockGroupChecksum, Checksum, ChecksumOptions, ClientHeader, CopyBlock,
    DatanodeInfos, PipelineAck, ReadBlock, ReplaceBlock, Response, WriteBlock,
};
use yeoul_dfs::wire::proto::{cluster, namenode};
use yeoul_dfs::wire::rpc_frame::{self, CALL_CONTEXT, CALL_SASL, Preamble, Request, Status};
use yeoul_dfs::wire::transfer_op::{self, Operation, STAGE_SETUP_CREATE};
use yeoul_dfs::wire::{meta_file, protocol};
use yeoul_fuzz::{CALLS_OF_CLIENTS, CALLS_OF_DATANODES};

use crate::write;

const FILE_BYTES: u64 = 1 << 20;

pub fn write_seeds() -> std::io::Result<()> {
    rpc()?;
    transfer()?;
    for (index, (offset, sequence, data, sync)) in
        [(0, 0, 700, false), (1 << 40, 77, 64_512, true), (700, 2, 0, false), (0, -1, 0, false)]
            .into_iter()
            .enumerate()
    {
        let header = Header { offset, sequence, is_last: index == 2, data, sync };
        let mut bytes = BytesMut::from(&512_u32.to_be_bytes()[..]);
        header.encode(Chunking::default().checksum_bytes(data as u64) as usize, &mut bytes);
        write("dfs_packet", index, &bytes)?;
    }
    for (index, (length, cut, stripe)) in
        [(0_usize, 0, 0), (1300, 1, 0), (9000, 100, 4)].into_iter().enumerate()
    {
        let data: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
        let mut bytes = meta_file::encode(Chunking::default()).to_vec();
        bytes.extend([cut, stripe]);
        Chunking::default().compute(&data, &mut bytes);
        write("dfs_meta_file", index, &bytes)?;
    }
    for (index, change) in changes().into_iter().enumerate() {
        let caller = Some(journal::Caller { client_id: vec![7; 16].into(), call_id: -5 });
        let record = Record { time_ms: 5, caller, answer: vec![8, 1].into(), change: Some(change) };
        write("dfs_record", index, &record.encode_to_vec())?;
    }
    calls()
}

fn rpc() -> std::io::Result<()> {
    let header = |call_id| RequestHeader {
        rpc_kind: Some(rpc_frame::KIND_PROTOBUF),
        rpc_op: Some(0),
        call_id,
        client_id: vec![5; 16].into(),
        retry_count: Some(-1),
    };
    let context = ConnectionContext { protocol: Some(protocol::CLIENT.to_owned()), ..Default::default() };
    let negotiate = Sasl { version: Some(0), state: 1, token: None };
    let method = CallHeader {
        method: "mkdirs".to_owned(),
        protocol: protocol::CLIENT.to_owned(),
        version: protocol::VERSION,
    };
    let frames = [
        rpc_frame::framed_message(&header(CALL_CONTEXT), &context),
        rpc_frame::framed_message(&header(CALL_SASL), &negotiate),
        Request::encode(&header(7), &method, &mkdirs("/a/b")),
        rpc_frame::success(&header(7), &[8, 1]),
        rpc_frame::failure(&rpc_frame::response_header(&header(7), Status::Error)),
    ];
    let mut stream = BytesMut::new();
    for (index, frame) in frames.iter().enumerate() {
        stream.put_slice(frame);
        write("dfs_rpc", index, &[&[6][..], &frame[..]].concat())?;
        write("dfs_rpc", 100 + index, &[&[6][..], &frame[4..]].concat())?;
    }
    write("dfs_rpc", 200, &[&[40][..], &stream[..]].concat())?;
    write("dfs_rpc", 201, &Preamble::encode())
}

fn block(id: i64) -> ExtendedBlock {
    let (id, length) = (id.cast_unsigned(), Some(FILE_BYTES));
    ExtendedBlock { pool: "BP-1".to_owned(), id, stamp: 1001, length }
}

fn node(number: usize) -> DatanodeInfo {
    let text = |text: &str| format!("{text}{number}");
    let id = DatanodeId {
        ip: text("10.0.0."),
        host: text("host-"),
        uuid: text("dn-"),
        transfer_port: 9866,
        ..DatanodeId::default()
    };
    DatanodeInfo { id, ..DatanodeInfo::default() }
}

fn transfer() -> std::io::Result<()> {
    let base = || BaseHeader { block: block(1_073_741_825), ..BaseHeader::default() };
    let header = || ClientHeader { base: base(), client_name: "client".to_owned() };
    let checksum = Checksum { kind: 2, bytes_per_checksum: 512 };
    let composite = Some(ChecksumOptions { kind: Some(2), stripe_length: Some(1 << 20) });
    let write_block = WriteBlock {
        header: header(),
        targets: vec![node(1), node(2)],
        stage: STAGE_SETUP_CREATE,
        pipeline_size: 3,
        requested_checksum: checksum,
        target_storage_types: vec![1, 1],
        target_pinnings: vec![false, false],
        target_storage_ids: vec!["DS-1".to_owned(), "DS-2".to_owned()],
        ..WriteBlock::default()
    };
    let read = ReadBlock { header: header(), offset: 5, length: 700, send_checksums: Some(true) };
    let replace = ReplaceBlock {
        header: base(),
        delete_hint: "dn-1".to_owned(),
        source: node(2),
        storage_type: Some(1),
        storage_id: None,
    };
    let of_group = BlockGroupChecksum {
        header: base(),
        datanodes: DatanodeInfos { datanodes: (0..9).map(node).collect() },
        policy: ErasureCodingPolicy { id: 1, ..ErasureCodingPolicy::default() },
        indices: (0..9).collect(),
        requested_bytes: 7 << 20,
        options: composite,
        ..BlockGroupChecksum::default()
    };
    let acknowledgement =
        PipelineAck { sequence: 9, replies: vec![0, 0, 1], flags: vec![0, 0, 1], ..Default::default() };
    let refused = transfer_op::refusal(transfer_op::Status::ErrorInvalid, "no");
    let seeds = [
        transfer_op::encode(Operation::Write, &write_block),
        transfer_op::encode(Operation::Read, &read),
        transfer_op::encode(Operation::BlockChecksum, &BlockChecksum { header: base(), options: composite }),
        transfer_op::encode(Operation::BlockGroupChecksum, &of_group),
        transfer_op::encode(Operation::Replace, &replace),
        transfer_op::encode(Operation::Copy, &CopyBlock { header: base() }),
        transfer_op::encode(Operation::Unsupported(86), &acknowledgement),
        transfer_op::encode(Operation::Unsupported(87), &refused),
        transfer_op::encode(Operation::Unsupported(88), &Response::default()),
    ];
    for (index, seed) in seeds.iter().enumerate() {
        write("dfs_transfer", index, seed)?;
    }
    Ok(())
}

fn changes() -> Vec<Change> {
    let text = |text: &str| text.to_owned();
    let block = journal::Block {
        id: 1_073_741_825,
        stamp: 1001,
        length: FILE_BYTES,
        is_committed: true,
        is_flushed: true,
        is_truncated: false,
    };
    let directories = ["b", "c"].map(|name| journal::NewDirectory {
        id: 16_387,
        name: name.into(),
        mode: 0o755,
        acl: vec![acl_entry()],
    });
    let parents = journal::AddDirectories {
        parent: 16_385,
        owner: text("root"),
        group: text("supergroup"),
        directories: directories.to_vec(),
    };
    let file =
        journal::File { replication: 3, block_size: 128 << 20, blocks: vec![block], holder: text("client") };
    vec![
        Change::Format(journal::Format { cluster: text("CID-1"), pool: text("BP-1"), ..Default::default() }),
        Change::AddDirectories(parents.clone()),
        Change::CreateFile(journal::CreateFile {
            parents: Some(parents),
            name: "d".into(),
            id: 16_390,
            holder: text("client"),
            ..Default::default()
        }),
        Change::AddBlock(journal::AddBlock { file: 16_390, previous: Some(block), block: Some(block) }),
        Change::CloseFile(journal::CloseFile { file: 16_390, last: Some(block) }),
        Change::Rename(journal::Rename { inode: 16_390, parent: 16_385, name: "e".into(), replaced: 0 }),
        Change::SetAttributes(journal::SetAttributes {
            inode: 16_390,
            owner: Some(text("alice")),
            mode: Some(0o644),
            ..Default::default()
        }),
        Change::ReplaceLayout(journal::ReplaceLayout {
            file: 16_390,
            policy: 1,
            replication: 1,
            blocks: vec![block; 3],
        }),
        Change::Append(journal::Append { file: 16_390, holder: text("client"), within_last: true }),
        Change::Truncate(journal::Truncate {
            file: 16_390,
            blocks: 1,
            last_length: Some(5),
            holder: text("client"),
        }),
        Change::Concat(journal::Concat { target: 16_390, sources: vec![16_391] }),
        Change::SetXattr(journal::SetXAttr {
            inode: 16_390,
            xattr: Some(attributes::XAttr { namespace: 0, name: text("a"), value: Some(vec![1; 20].into()) }),
            is_removed: false,
        }),
        Change::SetAcl(journal::SetAcl { inode: 16_390, mode: 0o640, entries: vec![acl_entry()] }),
        Change::SetQuota(journal::SetQuota { inode: 16_385, names: Some(10), space: Some(1 << 30) }),
        Change::AddPolicies(journal::AddPolicies {
            policies: vec![journal::add_policies::Policy { id: 64, name: text("RS-12-4-128k") }],
        }),
        Change::SetPolicyState(journal::SetPolicyState { policy: 64, is_enabled: false, is_removed: true }),
        Change::Inode(journal::Inode {
            id: 16_390,
            name: "d".into(),
            file: Some(file),
            ..Default::default()
        }),
        Change::Answered(journal::Answered { answer: vec![1; 60].into(), ..Default::default() }),
        Change::Counters(journal::Counters { cluster: text("CID-1"), term: 3, ..Default::default() }),
    ]
}

fn acl_entry() -> attributes::AclEntry {
    attributes::AclEntry { kind: 0, scope: 1, permissions: 5, name: Some("bob".into()) }
}

fn mkdirs(src: &str) -> namenode::MkdirsRequest {
    let masked = Permission { mode: 0o755 };
    namenode::MkdirsRequest { src: src.to_owned(), masked, create_parent: true, ..Default::default() }
}

/// A call as `dfs_call` reads it.
fn call(name: &str, argument: &impl Message) -> Vec<u8> {
    let clients = CALLS_OF_CLIENTS.iter().position(|known| *known == name);
    let datanodes = || CALLS_OF_DATANODES.iter().position(|known| *known == name);
    // The first byte above those of clients that leaves the right rest.
    let method = clients.or_else(|| {
        let wanted = datanodes()?;
        (CALLS_OF_CLIENTS.len()..255).find(|method| method % CALLS_OF_DATANODES.len() == wanted)
    });
    let method = u8::try_from(method.expect("it is a method")).expect("there are few of them");
    let argument = argument.encode_to_vec();
    let length = u16::try_from(argument.len()).expect("it is short");
    [&[method][..], &length.to_be_bytes(), &argument].concat()
}

/// A whole life of a file: made, written, reported, closed, renamed, replaced and deleted; with three copies, and coded.
fn calls() -> std::io::Result<()> {
    const TIME: [u8; 3] = [255, 0, 0];
    let text = |text: &str| text.to_owned();
    for (index, (policy, id)) in
        [("", 1_073_741_825), ("RS-3-2-1024k", i64::MIN + 16)].into_iter().enumerate()
    {
        let is_coded = !policy.is_empty();
        let mut input = call("mkdirs", &mkdirs("/a/b"));
        if is_coded {
            input.extend(call(
                "enableErasureCodingPolicy",
                &namenode::PolicyNameRequest { name: text(policy) },
            ));
            let request = namenode::PolicyRequest { src: text("/a"), policy: Some(text(policy)) };
            input.extend(call("setErasureCodingPolicy", &request));
        }
        let create = namenode::CreateRequest {
            src: text("/a/b/f"),
            masked: Permission { mode: 0o644 },
            client_name: text("client"),
            flags: 1,
            create_parent: true,
            replication: 3,
            block_size: 128 << 20,
            ..Default::default()
        };
        input.extend(call("create", &create));
        let add = namenode::AddBlockRequest {
            src: create.src.clone(),
            client_name: create.client_name.clone(),
            ..Default::default()
        };
        input.extend(call("addBlock", &add));
        for number in 0..if is_coded { 5 } else { 3 } {
            let replica = cluster::Replica {
                id: id + if is_coded { i64::from(number) } else { 0 },
                stamp: 1001,
                length: FILE_BYTES,
                state: cluster::ReplicaState::Finalized.into(),
            };
            let storage = format!("DS-{number}");
            let notice = cluster::Notice { storage, replica: Some(replica), ..Default::default() };
            let request = cluster::NoticeRequest { uuid: format!("dn-{number}"), notices: vec![notice] };
            input.extend(call("notice", &request));
            let report = cluster::ReportRequest {
                uuid: format!("dn-{number}"),
                storage: format!("DS-{number}"),
                is_first: true,
                is_last: true,
                replicas: vec![replica],
            };
            input.extend(call("report", &report));
        }
        let complete = namenode::CompleteRequest {
            src: create.src.clone(),
            client_name: create.client_name.clone(),
            last: Some(block(id)),
            file_id: None,
        };
        input.extend(call("complete", &complete));
        input.extend(TIME);
        let append = namenode::AppendRequest {
            src: create.src.clone(),
            client_name: create.client_name.clone(),
            flags: Some(if is_coded { 0x24 } else { 4 }),
        };
        input.extend(call("append", &append));
        input.extend(call("complete", &complete));
        let truncate = namenode::TruncateRequest {
            src: create.src.clone(),
            length: FILE_BYTES - 1,
            client_name: create.client_name.clone(),
        };
        input.extend(call("truncate", &truncate));
        let bad = LocatedBlock { block: block(id), locations: vec![node(0)], ..Default::default() };
        input.extend(call("reportBadBlocks", &namenode::ReportBadBlocksRequest { blocks: vec![bad] }));
        input.extend(call(
            "setReplication",
            &namenode::SetReplicationRequest { src: text("/a/b/f"), replication: 2 },
        ));
        let owner =
            namenode::SetOwnerRequest { src: text("/a/b/f"), owner: Some(text("alice")), group: None };
        input.extend(call("setOwner", &owner));
        let range = namenode::BlockLocationsRequest { src: text("/a/b/f"), offset: 0, length: 10 };
        input.extend(call("getBlockLocations", &range));
        let listing =
            namenode::ListingRequest { src: text("/a/b"), start_after: Bytes::new(), need_location: true };
        input.extend(call("getListing", &listing));
        let beat = cluster::HeartbeatRequest { uuid: text("dn-0"), ..Default::default() };
        input.extend(call("heartbeat", &beat));
        input.extend(TIME);
        let rename = namenode::RenameRequest { src: text("/a/b/f"), dst: text("/a/g"), ..Default::default() };
        input.extend(call("rename", &rename));
        input.extend(call("create", &namenode::CreateRequest { src: text("/a/g"), flags: 3, ..create }));
        write("dfs_call", 2 * index, &input)?;
        input.extend(call("delete", &namenode::DeleteRequest { src: text("/a"), recursive: true }));
        write("dfs_call", 2 * index + 1, &input)?;
    }
    Ok(())
}
