//! Acknowledgements of a pipeline: each node waits for those of the node below, and puts its own before them.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::Receiver;

use super::packets::{Reader, read_message, write_message};
use super::replicas::Visible;
use super::store::{NewReplica, Store};
use crate::ids::{BlockId, GenerationStamp};
use crate::wire::packet::{SEQUENCE_HEARTBEAT, SEQUENCE_OUT_OF_BAND};
use crate::wire::proto::transfer::PipelineAck;
use crate::wire::transfer_op::Status;

/// A packet that this node is done with.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Number of the packet.
    pub sequence: i64,
    /// What this node says of it.
    pub status: Status,
    /// What can be read once the whole pipeline has it.
    pub visible: Option<Visible>,
    /// The packet ends the block.
    pub is_last: bool,
}

/// Sends an acknowledgement for each packet that comes through `done`, in order, until the last one.
///
/// # Errors
/// The node above, or below, is gone.
pub fn respond(
    store: &Store,
    (id, stamp): (BlockId, GenerationStamp),
    mut above: TcpStream,
    below: Option<TcpStream>,
    done: &Receiver<Done>,
) -> io::Result<()> {
    let mut below = below.map(Reader::new);
    // Packets to show that the writer is there may be answered in between.
    let mut pending: VecDeque<Done> = VecDeque::new();
    while let Ok(packet) = done.recv() {
        pending.push_back(packet);
        while let Some(packet) = pending.pop_front() {
            let Answer { sequence, replies, is_whole } = answer(packet, below.as_mut())?;
            let is_good = is_whole && packet.status == Status::Success;
            if let (Some(visible), true) = (packet.visible, is_good) {
                NewReplica::show(store, id, stamp, visible);
            }
            let ack = PipelineAck { sequence, replies, ..PipelineAck::default() };
            write_message(&mut above, &ack)?;
            if !is_good {
                // The writer knows whom to leave out: nothing more comes from here.
                let _ = above.shutdown(Shutdown::Both);
                // One that stands still is not to hold up what is still passed on to it.
                if let Some(below) = &below {
                    let _ = below.get_ref().shutdown(Shutdown::Both);
                }
                return Err(io::Error::other("the pipeline broke"));
            }
            if packet.is_last {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What goes to the node above.
struct Answer {
    sequence: i64,
    /// What this node says, and those below.
    replies: Vec<i32>,
    /// All below have the packet.
    is_whole: bool,
}

/// What this node and those below say of a packet, and whether all below have it.
///
/// A node below that is gone is blamed with exactly two replies: the writer takes the last one that is no success. One that
/// found its bytes damaged had them from here, so this node says nothing and ends. What one below says of itself, that it ends, is
/// passed on.
fn answer(packet: Done, below: Option<&mut Reader>) -> io::Result<Answer> {
    let (own, sequence) = (packet.status as i32, packet.sequence);
    let Some(below) = below else { return Ok(Answer { sequence, replies: vec![own], is_whole: true }) };
    let broken = Answer { sequence, replies: vec![own, Status::Error as i32], is_whole: false };
    let ack = loop {
        match read_message::<PipelineAck>(below, "an acknowledgement") {
            Ok(ack) if ack.sequence == SEQUENCE_HEARTBEAT && packet.sequence != SEQUENCE_HEARTBEAT => {}
            Ok(ack) if ack.sequence == packet.sequence => break ack,
            Ok(ack) if ack.sequence == SEQUENCE_OUT_OF_BAND => {
                let replies = std::iter::once(Status::Success as i32).chain(ack.replies).collect();
                return Ok(Answer { sequence: SEQUENCE_OUT_OF_BAND, replies, is_whole: false });
            }
            Ok(_) | Err(_) => return Ok(broken),
        }
    };
    if ack.replies.first() == Some(&(Status::ErrorChecksum as i32)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the node below got damaged bytes from here"));
    }
    let is_whole = ack.replies.iter().all(|reply| *reply == Status::Success as i32);
    Ok(Answer { sequence, replies: std::iter::once(own).chain(ack.replies).collect(), is_whole })
}
