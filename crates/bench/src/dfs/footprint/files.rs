use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::interval;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_dfs::client::FileSystem;
use yeoul_dfs::rpc::Client;
use yeoul_dfs::wire::proto::cluster::{
    Answer, HeartbeatRequest, HeartbeatResponse, Notice, NoticeRequest, RegisterRequest, RegisterResponse,
    Replica, ReplicaState, ReportRequest, Storage,
};
use yeoul_dfs::wire::proto::namenode as calls;
use yeoul_dfs::wire::proto::shared::{ExtendedBlock, Permission};
use yeoul_dfs::wire::protocol;

/// DataNodes that are none: as many as a block has copies.
const DATANODES: usize = 3;
/// Clients at a time.
const CLIENTS: u64 = 32;
/// Files of a directory, made by one client.
const FILES_PER_DIRECTORY: u64 = 500;
/// Bytes of each file.
const FILE_BYTES: u64 = 1 << 20;
/// How often a DataNode shows that it is there.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Bytes that each of them says it has.
const CAPACITY: u64 = 1 << 50;

/// Files of one block that a NameNode is to have.
pub struct Files<'a> {
    /// `host:port` of the NameNode.
    pub namenode: &'a str,
    /// How many.
    pub count: u64,
}

impl Files<'_> {
    /// Makes them, as clients and DataNodes would.
    ///
    /// # Errors
    /// What the NameNode says.
    pub async fn make(self) -> Result<()> {
        let user = FileSystem::user_of_process().await;
        let mut beating = JoinSet::new();
        for number in 0..DATANODES {
            let mut datanode = FakeDatanode::register(self.namenode, &user, number).await?;
            beating.spawn(async move { datanode.beat().await });
        }
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (namenode, user, count) = (self.namenode.to_owned(), user.clone(), self.count);
            clients.spawn(async move {
                let mut maker = Maker::connect(&namenode, &user).await?;
                let directories = count.div_ceil(FILES_PER_DIRECTORY);
                for directory in (0..directories).filter(|directory| directory % CLIENTS == client) {
                    let files = FILES_PER_DIRECTORY.min(count - directory * FILES_PER_DIRECTORY);
                    maker.fill(directory, files).await?;
                }
                Ok::<_, Error>(())
            });
        }
        loop {
            let ended = tokio::select! {
                ended = clients.join_next() => ended,
                Some(ended) = beating.join_next() => Some(ended),
            };
            let Some(ended) = ended else { return Ok(()) };
            ended.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))??;
        }
    }
}

async fn connect(namenode: &str, user: &str, protocol: &'static str) -> Result<Client> {
    // Unique among the connections of this process, as a call's number is within one.
    static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
    let mut client_id = [0; 16];
    client_id[..8].copy_from_slice(&CONNECTIONS.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    client_id[8..12].copy_from_slice(&std::process::id().to_be_bytes());
    Ok(Client::connect(namenode, user, protocol, client_id).await?)
}

/// What registers as a DataNode and keeps nothing.
struct FakeDatanode {
    client: Client,
    number: usize,
}

fn uuid(number: usize) -> String {
    format!("bench-{number}")
}

fn storage(number: usize) -> String {
    format!("DS-bench-{number}")
}

impl FakeDatanode {
    async fn register(namenode: &str, user: &str, number: usize) -> Result<Self> {
        let mut client = connect(namenode, user, protocol::CLUSTER).await?;
        let own = Storage {
            uuid: storage(number),
            kind: 1,
            capacity: CAPACITY,
            used: 0,
            remaining: CAPACITY,
            failed: false,
        };
        let mut request = RegisterRequest {
            layout_version: protocol::LAYOUT_VERSION,
            features: protocol::FEATURES,
            uuid: uuid(number),
            host: uuid(number),
            ip: format!("127.1.0.{}", number + 1),
            transfer_port: 1,
            ipc_port: 1,
            storages: vec![own],
            ..RegisterRequest::default()
        };
        // The first time it learns to which pool it belongs.
        let told: RegisterResponse = client.call("register", &request).await?;
        request.pool = told.pool;
        let _: RegisterResponse = client.call("register", &request).await?;
        for (is_first, is_last) in [(true, false), (false, true)] {
            let (uuid, storage) = (uuid(number), storage(number));
            let report = ReportRequest { uuid, storage, is_first, is_last, replicas: Vec::new() };
            let _: Answer = client.call("report", &report).await?;
        }
        Ok(Self { client, number })
    }

    /// Shows that it is there, until that fails.
    async fn beat(&mut self) -> Result<()> {
        let mut ticks = interval(HEARTBEAT);
        loop {
            ticks.tick().await;
            let own = Storage {
                uuid: storage(self.number),
                kind: 1,
                capacity: CAPACITY,
                used: 0,
                remaining: CAPACITY,
                failed: false,
            };
            let uuid = uuid(self.number);
            let request = HeartbeatRequest { uuid, storages: vec![own], ..HeartbeatRequest::default() };
            let _: HeartbeatResponse = self.client.call("heartbeat", &request).await?;
        }
    }
}

/// A client that makes files, and what its DataNodes say of them.
struct Maker {
    calls: Client,
    notices: Client,
}

impl Maker {
    async fn connect(namenode: &str, user: &str) -> Result<Self> {
        let calls = connect(namenode, user, protocol::CLIENT).await?;
        Ok(Self { calls, notices: connect(namenode, user, protocol::CLUSTER).await? })
    }

    /// Makes the files of a directory.
    async fn fill(&mut self, directory: u64, files: u64) -> Result<()> {
        let mut written = Vec::new();
        for number in 0..files {
            let path = format!("/bench/directory-{directory:05}/part-{number:05}.parquet");
            let (file, block) = self.begin(&path).await?;
            written.push((path, file, block));
        }
        for datanode in 0..DATANODES {
            let notices = written.iter().map(|(_, _, block)| notice(datanode, block)).collect();
            let request = NoticeRequest { uuid: uuid(datanode), notices };
            let _: Answer = self.notices.call("notice", &request).await?;
        }
        for (src, file, block) in written {
            let last = Some(ExtendedBlock { length: Some(FILE_BYTES), ..block });
            let client_name = "bench".to_owned();
            let request = calls::CompleteRequest { src, client_name, last, file_id: Some(file) };
            let completed: calls::BoolResponse = self.calls.call("complete", &request).await?;
            if !completed.result {
                return Err(Error::new(ErrorKind::Internal, "a file with three replicas is not complete"));
            }
        }
        Ok(())
    }

    /// Creates a file, and adds its block.
    async fn begin(&mut self, path: &str) -> Result<(u64, ExtendedBlock)> {
        let request = calls::CreateRequest {
            src: path.to_owned(),
            masked: Permission { mode: 0o644 },
            client_name: "bench".to_owned(),
            flags: 1,
            create_parent: true,
            replication: 3,
            block_size: 128 << 20,
            ..calls::CreateRequest::default()
        };
        let created: calls::FileInfoResponse = self.calls.call("create", &request).await?;
        let file = created.status.and_then(|status| status.id);
        let file = file.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a new file has no number"))?;
        let request = calls::AddBlockRequest {
            src: path.to_owned(),
            client_name: "bench".to_owned(),
            file_id: Some(file),
            ..calls::AddBlockRequest::default()
        };
        let added: calls::AddBlockResponse = self.calls.call("addBlock", &request).await?;
        Ok((file, added.block.block))
    }
}

fn notice(datanode: usize, block: &ExtendedBlock) -> Notice {
    let replica = Replica {
        id: block.id.cast_signed(),
        stamp: block.stamp,
        length: FILE_BYTES,
        state: ReplicaState::Finalized.into(),
    };
    Notice { storage: storage(datanode), replica: Some(replica), ..Notice::default() }
}
