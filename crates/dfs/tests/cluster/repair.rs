//! Goal: what a cluster loses it makes again, byte by byte, and what is damaged is replaced. Method: servers in this process with
//! short times, whose DataNodes end, whose files are changed, and whose disk fails when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;
use yeoul_dfs::client::{FileSystem, NewFile, Options as ClientOptions};
use yeoul_dfs::wire::checksum::Chunking;
use yeoul_dfs::wire::packet::Header;
use yeoul_dfs::wire::proto::shared::ExtendedBlock;
use yeoul_dfs::wire::proto::transfer::{BaseHeader, ClientHeader, WriteBlock};
use yeoul_dfs::wire::transfer_op::{self, Operation};
use yeoul_dfs::{datanode, namenode};
use yeoul_disk::{Fault, FaultyDisk, Operation as DiskOperation, RealDisk};

/// Three data units and two parity units, in cells of 1 MiB.
const POLICY: &str = "RS-3-2-1024k";
const DATANODES: usize = 7;
/// How long what is to happen may take on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Servers, each with a directory of its own.
struct Servers {
    dir: tempfile::TempDir,
    namenode: Option<namenode::Handle>,
    /// Where the NameNode is, also when it is started again.
    address: SocketAddr,
    datanodes: Vec<Option<datanode::Handle>>,
    /// The disk of the first DataNode, which has two volumes.
    disk: Arc<FaultyDisk>,
    files: FileSystem,
}

impl Servers {
    /// Starts them; DataNodes check their replicas at so many bytes per second.
    async fn start(scan_bytes_per_second: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let namenode = namenode::Server::start(namenode_options(dir.path(), 0)).await.unwrap();
        let address = namenode.address();
        let disk = FaultyDisk::over(Arc::new(RealDisk));
        let mut datanodes = Vec::new();
        for number in 0..DATANODES {
            let name = dir.path().join(format!("datanode{number}"));
            let dirs = if number == 0 { vec![name.join("a"), name.join("b")] } else { vec![name] };
            let own = datanode::Options {
                host: Some("127.0.0.1".to_owned()),
                port: 0,
                ipc_port: 0,
                heartbeat: Duration::from_millis(200),
                scan_bytes_per_second,
                scan_period: Some(Duration::from_millis(500)),
                http_port: Some(0),
                ..datanode::Options::new(address.to_string(), dirs)
            };
            let own = if number == 0 { datanode::Options { disk: disk.clone(), ..own } } else { own };
            datanodes.push(Some(datanode::Server::start(own).await.unwrap()));
        }
        let client = ClientOptions {
            default_fs: Some(format!("hdfs://{address}")),
            replication: Some(3),
            block_size: Some(2 << 20),
            ..ClientOptions::default()
        };
        let files = FileSystem::connect(client, None).await.unwrap();
        let own = Self { dir, namenode: Some(namenode), address, datanodes, disk, files };
        own.wait_until("the DataNodes register", async || {
            own.files.report().await.unwrap().datanodes.len() == DATANODES
        })
        .await;
        own.files.make_directory("/coded", true).await.unwrap();
        own.files.enable_policy(POLICY, true).await.unwrap();
        own.files.set_policy("/coded", Some(POLICY.to_owned())).await.unwrap();
        own
    }

    async fn wait_until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let began = Instant::now();
        while !is_so().await {
            assert!(began.elapsed() < WAIT_MAX, "{what}: not within {WAIT_MAX:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn write(&self, path: &str, content: &[u8]) {
        let how = NewFile { mode: 0o644, may_replace: false };
        let mut writer = self.files.create(path, how).await.unwrap();
        for piece in content.chunks(1 << 20) {
            writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        writer.close().await.unwrap();
    }

    async fn read(&self, path: &str) -> Vec<u8> {
        let mut read = Vec::new();
        let reader = self.files.open(path).await.unwrap();
        let all = reader.read_all(|bytes| {
            read.extend_from_slice(bytes);
            Ok(())
        });
        all.await.unwrap();
        read
    }

    /// The files of whole replicas with their checksums on the DataNodes that are there, by name.
    fn files(&self) -> BTreeMap<String, Vec<PathBuf>> {
        let there = (0..DATANODES).filter(|number| self.datanodes[*number].is_some());
        let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for path in there.flat_map(|number| whole(&self.dir.path().join(format!("datanode{number}")))) {
            found.entry(path.file_name().unwrap().to_str().unwrap().to_owned()).or_default().push(path);
        }
        found
    }

    async fn kill(&mut self, number: usize) {
        self.datanodes[number].take().unwrap().stop().await;
    }

    async fn stop(self) {
        for datanode in self.datanodes.into_iter().flatten() {
            datanode.stop().await;
        }
        self.namenode.unwrap().stop().await;
    }
}

fn namenode_options(dir: &Path, port: u16) -> namenode::Options {
    let mut options = namenode::Options::new(dir.join("namenode"));
    options.port = port;
    (options.rules.silent_ms_max, options.rules.repair_after_ms) = (1_000, 2_000);
    options.rules.block_size_min = 0;
    options
}

/// Replicas that a DataNode knows to be damaged, as its page says.
fn damaged(datanode: &datanode::Handle) -> u64 {
    let mut stream = TcpStream::connect(datanode.http_address().unwrap()).unwrap();
    stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, rest) = answer.split_once("\"damaged\":").unwrap();
    rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// The files of whole replicas below a folder; one without its checksums is none yet.
fn whole(dir: &Path) -> Vec<PathBuf> {
    let (mut todo, mut found) = (vec![dir.to_owned()], Vec::new());
    while let Some(folder) = todo.pop() {
        // It may go while it is looked at.
        for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap();
            if path.is_dir() {
                todo.extend(Some(path).filter(|_| !["rbw", "tmp"].contains(&name.as_str())));
            } else if name.starts_with("blk_") {
                found.push(path);
            }
        }
    }
    found
}

/// Bytes that no other seed gives.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_datanode_had_is_made_again_byte_by_byte() {
    let mut servers = Servers::start(0).await;
    // A group and a half, whose last cells are short, and two blocks.
    let (coded, copied) = (content(1, (6 << 20) + (3 << 19) + 777), content(2, (3 << 20) + 5));
    servers.write("/coded/file", &coded).await;
    servers.write("/copied", &copied).await;
    let before = servers.files();
    let files_of = |number: usize| whole(&servers.dir.path().join(format!("datanode{number}")));
    let units_of = |number: &usize| {
        let files = files_of(*number);
        files.iter().filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("blk_-")).count()
    };
    let number = (0..DATANODES).max_by_key(units_of).unwrap();
    assert!(units_of(&number) >= 2, "there is a unit to be made");
    let lost_files = files_of(number);
    let lost: BTreeMap<String, Vec<u8>> = lost_files
        .iter()
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap()))
        .collect();
    servers.kill(number).await;
    let there = servers.files();
    let is_there = |name: &String| there.get(name).is_some_and(|paths| paths.len() == before[name].len());
    assert!(!lost.keys().any(is_there), "they are lost");
    servers
        .wait_until("what is lost is there again", async || {
            let there = servers.files();
            lost.keys().all(|name| there.get(name).map(Vec::len) == Some(before[name].len()))
        })
        .await;
    for (name, paths) in servers.files() {
        let Some(expected) = lost.get(&name) else { continue };
        for path in paths {
            assert!(std::fs::read(&path).unwrap() == *expected, "{} is not what was lost", path.display());
        }
    }
    assert!(servers.read("/coded/file").await == coded);
    assert!(servers.read("/copied").await == copied);
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_check_finds_damaged_is_replaced_without_a_reader() {
    let servers = Servers::start(256 << 20).await;
    let (coded, copied) = (content(3, (4 << 20) + 777), content(4, 1 << 20));
    servers.write("/coded/file", &coded).await;
    servers.write("/copied", &copied).await;
    let files = servers.files();
    let data: Vec<_> = files.iter().filter(|(name, _)| !name.ends_with(".meta")).collect();
    assert_eq!(data.len(), 6, "five units and a block: {data:?}");
    let mut damaged = BTreeMap::new();
    for (at, (name, paths)) in data.iter().enumerate() {
        // Two units of the group and one copy: as much as can be lost.
        let (path, whole) = (&paths[0], std::fs::read(&paths[0]).unwrap());
        match (at, name.starts_with("blk_-")) {
            (0, true) => std::fs::remove_file(path).unwrap(),
            (1, true) => flip(path, whole.len() / 2),
            (_, false) => flip(path, 3),
            _ => continue,
        }
        damaged.insert((*name).clone(), (paths.len(), whole));
    }
    assert_eq!(damaged.len(), 3);
    servers
        .wait_until("what is damaged is replaced", async || {
            let there = servers.files();
            damaged.iter().all(|(name, (count, whole))| {
                let paths = there.get(name).cloned().unwrap_or_default();
                paths.len() == *count
                    && paths.iter().all(|path| std::fs::read(path).is_ok_and(|is| is == *whole))
            })
        })
        .await;
    assert!(servers.read("/coded/file").await == coded);
    assert!(servers.read("/copied").await == copied);
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_is_found_while_the_namenode_is_away_is_told_when_it_is_back() {
    let mut servers = Servers::start(256 << 20).await;
    let copied = content(5, 1 << 20);
    servers.write("/copied", &copied).await;
    servers.namenode.take().unwrap().stop().await;
    let files = servers.files();
    let (_, paths) = files.iter().find(|(name, _)| !name.ends_with(".meta")).unwrap();
    flip(&paths[1], 700_000);
    let number = (0..DATANODES)
        .find(|number| paths[1].starts_with(servers.dir.path().join(format!("datanode{number}"))));
    let datanode = servers.datanodes[number.unwrap()].as_ref().unwrap();
    servers.wait_until("the damage is found", async || damaged(datanode) == 1).await;
    assert!(std::fs::read(&paths[1]).unwrap() != copied, "nobody replaces it now");
    let options = namenode_options(servers.dir.path(), servers.address.port());
    let namenode = namenode::Server::start(options).await.unwrap();
    servers
        .wait_until("what is damaged is replaced", async || {
            let files = servers.files();
            let there: Vec<_> = files.iter().filter(|(name, _)| !name.ends_with(".meta")).collect();
            let is_right = |path: &PathBuf| std::fs::read(path).is_ok_and(|is| is == copied);
            there.len() == 1 && there[0].1.len() == 3 && there[0].1.iter().all(is_right)
        })
        .await;
    servers.wait_until("it is gone", async || damaged(datanode) == 0).await;
    servers.namenode = Some(namenode);
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_source_of_a_repair_is_replaced_too() {
    let mut servers = Servers::start(0).await;
    let coded = content(6, 3 << 20);
    servers.write("/coded/file", &coded).await;
    let files = servers.files();
    let data: Vec<_> = files.iter().filter(|(name, _)| !name.ends_with(".meta")).collect();
    assert_eq!(data.len(), 5);
    let whole: BTreeMap<_, _> =
        data.iter().map(|(name, paths)| ((*name).clone(), std::fs::read(&paths[0]).unwrap())).collect();
    let first = |unit: usize| {
        let content = &coded[unit << 20..(unit + 1) << 20];
        data.iter().find(|(name, _)| whole[*name] == content).unwrap().1[0].clone()
    };
    // Data units are read first, so the damage is met, behind the first slice.
    flip(&first(1), 900_000);
    let lost = first(0);
    let number =
        (0..DATANODES).find(|number| lost.starts_with(servers.dir.path().join(format!("datanode{number}"))));
    servers.kill(number.unwrap()).await;
    servers
        .wait_until("both units are made", async || {
            let there = servers.files();
            whole.iter().all(|(name, whole)| {
                let paths = there.get(name).cloned().unwrap_or_default();
                paths.len() == 1 && std::fs::read(&paths[0]).is_ok_and(|is| is == *whole)
            })
        })
        .await;
    assert!(servers.read("/coded/file").await == coded);
    servers.stop().await;
}

/// Changes a bit of a file.
fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_retires_the_volume_and_its_datanode_goes_on() {
    let servers = Servers::start(0).await;
    let coded: Vec<_> = (0..6).map(|seed| content(10 + seed, (2 << 20) + 777)).collect();
    for (number, content) in coded.iter().enumerate() {
        servers.write(&format!("/coded/{number}"), content).await;
    }
    let volumes = ["a", "b"].map(|name| servers.dir.path().join("datanode0").join(name));
    let volume = volumes.iter().max_by_key(|volume| whole(volume).len()).unwrap().clone();
    let names = |paths: Vec<PathBuf>| -> BTreeSet<String> {
        paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let on_it = names(whole(&volume));
    assert!(!on_it.is_empty(), "there is something to be made again");
    let version = std::fs::read_to_string(volume.join("current/VERSION")).unwrap();
    let value = |key: &str| {
        version.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap().to_owned()
    };
    let fault = servers.disk.inject(Fault::fails(DiskOperation::Sync, Errno::IO).times(1));
    let address = servers.datanodes[0].as_ref().unwrap().address();
    let (pool, storage) = (value("blockpoolID"), value("storageID"));
    tokio::task::spawn_blocking(move || write_synced(address, pool, storage)).await.unwrap();
    assert_eq!(fault.happened(), 1);
    servers
        .wait_until("what the volume had is on others", async || {
            let others = servers.files().into_values().flatten().filter(|path| !path.starts_with(&volume));
            on_it.is_subset(&names(others.collect()))
        })
        .await;
    let report = servers.files.report().await.unwrap();
    assert_eq!(report.datanodes.len(), DATANODES, "the DataNode is there");
    for (number, content) in coded.iter().enumerate() {
        assert!(servers.read(&format!("/coded/{number}")).await == *content);
    }
    servers.write("/coded/later", &coded[0]).await;
    assert_eq!(names(whole(&volume)).difference(&on_it).count(), 0, "nothing new comes to the volume");
    servers.stop().await;
}

/// Writes a block to a DataNode that is to be on its disk, and fails.
fn write_synced(address: SocketAddr, pool: String, storage: String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let block = ExtendedBlock { pool, id: 7, stamp: 1001, length: Some(0) };
    let base = BaseHeader { block, token: None };
    let request = WriteBlock {
        header: ClientHeader { base, client_name: "tester".to_owned() },
        stage: 6,
        pipeline_size: 1,
        requested_checksum: Chunking::default().to_message(),
        storage_id: Some(storage),
        ..WriteBlock::default()
    };
    stream.write_all(&transfer_op::encode(Operation::Write, &request)).unwrap();
    let (data, mut checksums, mut head) = (content(20, 1000), Vec::new(), BytesMut::new());
    Chunking::default().compute(&data, &mut checksums);
    Header { offset: 0, sequence: 0, is_last: false, data: data.len(), sync: true }
        .encode(checksums.len(), &mut head);
    stream.write_all(&[&head[..], &checksums, &data].concat()).unwrap();
    // The connection ends: what is not on the disk is not acknowledged.
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
}
