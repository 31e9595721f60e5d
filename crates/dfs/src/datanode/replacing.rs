//! Takes a replica in the place of another DataNode's, as a balancer asks for it.
//!
//! The balancer names who sends the replica and who is to have it no more. The NameNode hears both, and decides which of the
//! replicas goes.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use tracing::{debug, info};

use super::moves::Moving;
use super::packets::{Reader, invalid, write_message};
use super::peer::{BlockName, PeerAddress, PeerReader};
use super::store::Wanted;
use super::transfer::Transfers;
use crate::ids::{BlockId, GenerationStamp};
use crate::memory::Party;
use crate::wire::proto::transfer::{ReplaceBlock, Response};
use crate::wire::transfer_op::{self, Status};

/// The number of HDFS's storage type DISK.
const STORAGE_DISK: i32 = 1;
/// Bytes of memory of a replica that comes, beside those of the connection that asks for it: a packet and a buffer.
const TAKEN_BYTES: u64 = 768 << 10;
/// Time that a move waits for memory. The balancer tries another one.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(20);
/// How long who sends the replica may be silent: it may wait for its turn. A balancer waits for five minutes.
const SOURCE_SILENT_MAX: Duration = Duration::from_secs(120);
/// Time between two messages to the balancer that the replica is coming, as of HDFS's DataNodes.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// Carries out a replacement: true if the connection can be used again.
pub fn replace(transfers: &Transfers, reader: &mut Reader, request: &ReplaceBlock) -> io::Result<bool> {
    let id = BlockId::from_wire(request.header.block.id);
    let response = match begin(transfers, reader, request) {
        Err((status, message)) => transfer_op::refusal(status, message),
        Ok(_moving) => match take(transfers, reader, request) {
            Ok(bytes) => {
                let from = &request.delete_hint;
                info!(%id, bytes, from, "a replica was moved here");
                Response::default()
            }
            Err(error) => {
                debug!(%id, %error, "a move fails");
                transfer_op::refusal(Status::Error, format!("Error in receive or move replica {id}: {error}"))
            }
        },
    };
    write_message(reader.get_mut(), &response).map(|()| true)
}

/// Looks whether the request can be carried out; why not is the error.
fn begin<'a>(
    transfers: &'a Transfers,
    reader: &Reader,
    request: &ReplaceBlock,
) -> Result<Moving<'a>, (Status, String)> {
    let unsupported =
        |what: &str| (Status::ErrorUnsupported, format!("{what} is not supported by yeoul dfs"));
    if request.source.id.uuid == transfers.store.datanode {
        return Err(unsupported("a move from one storage of a DataNode to another one"));
    }
    if request.storage_type() != STORAGE_DISK {
        return Err(unsupported("a move to a storage that is no disk"));
    }
    transfers.moves.begin().ok_or_else(|| {
        let id = request.header.block.id;
        let from = reader.get_ref().peer_addr().map_or_else(|_| "a peer".to_owned(), |peer| peer.to_string());
        // In HDFS's words: the balancer leaves this DataNode alone for a while.
        let message =
            format!("Not able to receive block {id} from {from} because threads quota is exceeded.");
        (Status::Error, message)
    })
}

/// Takes the replica: its bytes. The NameNode knows of it then.
fn take(transfers: &Transfers, reader: &mut Reader, request: &ReplaceBlock) -> io::Result<u64> {
    let room = transfers.memory.acquire_blocking(&Party::server("moves"), TAKEN_BYTES, MEMORY_WAIT_MAX);
    let _charge = room.ok_or_else(|| io::Error::other("there is no memory for it"))?;
    let block = &request.header.block;
    let (id, stamp) = (BlockId::from_wire(block.id), GenerationStamp(block.stamp));
    let name = BlockName { pool: block.pool.clone(), id, stamp, length: block.length() };
    let source = PeerAddress::new(&request.source.id.ip, request.source.id.transfer_port);
    let mut from = PeerReader::open_copy(&source, &name, SOURCE_SILENT_MAX)?;
    let chunking = from.chunking;
    let storage = request.storage_id();
    let wanted = Wanted { storage, bytes: name.length, chunking, is_copy: true };
    let mut replica = transfers.store.create(&name.pool, (id, stamp), &wanted).map_err(io::Error::other)?;
    let mut progress = Progress { told: Instant::now() };
    while let Some(packet) = from.next_packet()? {
        replica.write(packet.header.offset, packet.data(), packet.checksums())?;
        let bytes = packet.data().len() as u64;
        transfers.moves.throttle.wait(bytes, || progress.tell(reader.get_mut()))?;
    }
    let length = replica.length();
    if length != name.length {
        return Err(invalid(format!("{length} bytes came, and the balancer names {}", name.length)));
    }
    let (storage, whole) = replica.finalize().map_err(io::Error::other)?;
    transfers.tell_moved(&storage, whole, &request.delete_hint);
    Ok(length)
}

/// When the balancer last heard that the replica is coming.
struct Progress {
    told: Instant,
}

impl Progress {
    fn tell(&mut self, to: &mut impl Write) -> io::Result<()> {
        if self.told.elapsed() < PROGRESS_INTERVAL {
            return Ok(());
        }
        self.told = Instant::now();
        write_message(to, &Response { status: Status::InProgress as i32, ..Response::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::sync::Arc;

    use super::super::moves::Moves;
    use super::super::notices::Notices;
    use super::super::packets::read_message;
    use super::super::test_peer::{TestPeer, content, name};
    use super::*;
    use crate::wire::proto::shared::{DatanodeId, DatanodeInfo};
    use crate::wire::transfer_op::Operation;

    /// A DataNode whose NameNode is there, and that takes part in so many moves.
    fn target(moves: Moves) -> (TestPeer, Arc<Notices>) {
        let notices = Arc::new(Notices::default());
        notices.connected();
        let peer = TestPeer::with_moves(99, b"another block", vec![Arc::clone(&notices)], moves);
        (peer, notices)
    }

    fn request(of: &BlockName, source: &PeerAddress) -> ReplaceBlock {
        let (ip, port) = source.0.rsplit_once(':').unwrap();
        let id = DatanodeId {
            ip: ip.to_owned(),
            uuid: "the source".to_owned(),
            transfer_port: port.parse().unwrap(),
            ..DatanodeId::default()
        };
        let source = DatanodeInfo { id, ..DatanodeInfo::default() };
        let delete_hint = "the one that has too much".to_owned();
        ReplaceBlock { header: of.to_header(), delete_hint, source, storage_type: None, storage_id: None }
    }

    /// The last word of a DataNode that is asked to take a replica.
    fn asked(target: &TestPeer, request: &ReplaceBlock) -> Response {
        let mut stream = TcpStream::connect(&target.address.0).unwrap();
        stream.write_all(&transfer_op::encode(Operation::Replace, request)).unwrap();
        read_message(&mut stream, "the response").unwrap()
    }

    /// Takes notices as a NameNode does.
    fn told(notices: &Arc<Notices>) -> std::thread::JoinHandle<(bool, String)> {
        let notices = Arc::clone(notices);
        std::thread::spawn(move || {
            loop {
                if let Some(batch) = notices.take() {
                    let notice = &batch.notices[0];
                    return (notice.is_deleted, notice.delete_hint.clone());
                }
                std::thread::yield_now();
            }
        })
    }

    #[test]
    fn a_replica_comes_whole_and_the_namenode_hears_whose_place_it_takes() {
        let data = content(3, 300_000);
        let source = TestPeer::with(7, &data);
        let (target, notices) = target(Moves::default());
        let told = told(&notices);
        let response = asked(&target, &request(&name(7, data.len()), &source.address));
        assert_eq!(response.status, Status::Success as i32, "{response:?}");
        assert!(target.whole(7) == data);
        assert_eq!(told.join().unwrap(), (false, "the one that has too much".to_owned()));
        assert_eq!((target.transfers.moves.open(), source.transfers.moves.open()), (0, 0));
        let again = asked(&target, &request(&name(7, data.len()), &source.address));
        assert_eq!(again.status, Status::Error as i32, "it has it already");
    }

    #[test]
    fn a_replica_that_is_damaged_or_of_another_length_does_not_stay() {
        let data = content(3, 300_000);
        let source = TestPeer::with(7, &data);
        let (target, _) = target(Moves::default());
        let short = asked(&target, &request(&name(7, data.len() - 1), &source.address));
        assert!(short.message().contains("300000 bytes came"), "{short:?}");
        source.flip(7, 200_000);
        let damaged = asked(&target, &request(&name(7, data.len()), &source.address));
        assert_eq!(damaged.status, Status::Error as i32);
        assert!(!target.transfers.store.has(BlockId(7)) && source.damaged() == 1, "the source knows");
    }

    #[test]
    fn as_many_moves_as_may_be_are_under_way_and_others_are_refused_in_words_of_hdfs() {
        let data = content(3, 1000);
        let source = TestPeer::with(7, &data);
        let (busy, _) = target(Moves::new(1, MIB));
        let begun = busy.transfers.moves.begin().unwrap();
        let refused = asked(&busy, &request(&name(7, data.len()), &source.address));
        assert_eq!(refused.status, Status::Error as i32);
        assert!(refused.message().starts_with("Not able to receive block 7 from 127.0.0.1:"), "{refused:?}");
        assert!(refused.message().ends_with("because threads quota is exceeded."), "{refused:?}");
        drop(begun);
        // The same of who is to send it.
        let full = TestPeer::with_moves(7, &data, Vec::new(), Moves::new(0, MIB));
        let refused = asked(&busy, &request(&name(7, data.len()), &full.address));
        assert!(refused.message().contains("Not able to copy block 7 to 127.0.0.1:"), "{refused:?}");
        let taken = asked(&busy, &request(&name(7, data.len()), &source.address));
        assert_eq!(taken.status, Status::Success as i32, "{taken:?}");
    }

    #[test]
    fn what_is_not_there_is_refused_by_its_name() {
        let (target, _) = target(Moves::default());
        let mut own = request(&name(99, 13), &target.address);
        own.source.id.uuid.clone_from(&target.transfers.store.datanode);
        let refused = asked(&target, &own);
        assert!(
            refused.status == Status::ErrorUnsupported as i32
                && refused.message().contains("from one storage")
        );
        let archive = ReplaceBlock { storage_type: Some(3), ..request(&name(7, 1), &target.address) };
        assert!(asked(&target, &archive).message().contains("no disk"));
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_move_is_as_fast_as_its_slower_side_may_be() {
        let data = content(3, MIB as usize);
        for (sends, takes) in [(MIB, 100 * MIB), (100 * MIB, MIB)] {
            let source = TestPeer::with_moves(7, &data, Vec::new(), Moves::new(1, sends));
            let target = TestPeer::with_moves(8, b"another", Vec::new(), Moves::new(1, takes));
            let began = Instant::now();
            let response = asked(&target, &request(&name(7, data.len()), &source.address));
            assert_eq!(response.status, Status::Success as i32, "{response:?}");
            // All packets but the last one are paid for when it ends.
            assert!(began.elapsed() >= Duration::from_millis(800), "{:?}", began.elapsed());
        }
    }
}
