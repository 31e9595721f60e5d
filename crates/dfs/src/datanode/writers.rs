//! The writers that are served, so that one that comes back ends what is left of the pipeline that broke.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::debug;

use super::packets::write_message;
use crate::ids::BlockId;
use crate::wire::packet::SEQUENCE_OUT_OF_BAND;
use crate::wire::proto::transfer::PipelineAck;
use crate::wire::transfer_op::Status;

/// The writers of a DataNode, by block.
#[derive(Debug, Default)]
pub struct Writers {
    open: Mutex<HashMap<BlockId, Arc<Streams>>>,
    ended: Condvar,
}

/// The connections of a writer; none once it is told to end.
#[derive(Debug, Default)]
struct Streams(Mutex<Option<Vec<TcpStream>>>);

/// A writer that is served, until this is dropped.
#[derive(Debug)]
pub struct Writing<'a> {
    writers: &'a Writers,
    id: BlockId,
    streams: Arc<Streams>,
}

impl Writers {
    /// Begins to serve a writer.
    pub fn begin(&self, id: BlockId) -> Writing<'_> {
        let streams = Arc::new(Streams(Mutex::new(Some(Vec::new()))));
        self.open().insert(id, Arc::clone(&streams));
        Writing { writers: self, id, streams }
    }

    /// Ends the writer of a block, if there is one, by closing its connections: false if it does not end in time.
    #[must_use]
    pub fn stop(&self, id: BlockId, within: Duration) -> bool {
        let open = self.open();
        let Some(streams) = open.get(&id).cloned() else { return true };
        streams.close();
        let is_there = |open: &mut HashMap<BlockId, Arc<Streams>>| {
            open.get(&id).is_some_and(|now| Arc::ptr_eq(now, &streams))
        };
        let waited = self.ended.wait_timeout_while(open, within, is_there);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Ends all writers by closing their connections: they go on with other DataNodes.
    pub fn evict_all(&self) {
        self.open().values().for_each(|streams| streams.close());
    }

    /// Tells all writers that this DataNode ends and may be there again soon, and waits until they have closed their connections.
    ///
    /// A writer that has other DataNodes goes on without this one. One that has only this one, as each unit of a group, waits for it
    /// for as long as it is told to (`dfs.client.datanode-restart.timeout`).
    pub fn announce_restart(&self, within: Duration) {
        let open = self.open();
        open.values().for_each(|streams| streams.announce_restart(within));
        let ended = self.ended.wait_timeout_while(open, within, |open| !open.is_empty());
        drop(ended);
    }

    fn open(&self) -> MutexGuard<'_, HashMap<BlockId, Arc<Streams>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Streams {
    fn announce_restart(&self, within: Duration) {
        let replies = vec![Status::Restarting as i32];
        let ack = PipelineAck { sequence: SEQUENCE_OUT_OF_BAND, replies, ..PipelineAck::default() };
        let streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The connection to the writer is the first one.
        if let Some(mut above) = streams.as_ref().and_then(|streams| streams.first()) {
            let said = above.set_write_timeout(Some(within)).and_then(|()| write_message(&mut above, &ack));
            if let Err(error) = said {
                debug!(%error, "a writer does not hear that this DataNode ends");
            }
        }
    }

    fn close(&self) {
        for stream in self.0.lock().unwrap_or_else(PoisonError::into_inner).take().into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Writing<'_> {
    /// Adds a connection that ends with the writer: first that to the writer, or to the node above.
    ///
    /// # Errors
    /// The writer has been told to end.
    pub fn add(&self, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        match &mut *self.streams.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(streams) => streams.push(stream),
            None => return Err(io::Error::other("the writer is back with another pipeline")),
        }
        Ok(())
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut open = self.writers.open();
        if open.get(&self.id).is_some_and(|now| Arc::ptr_eq(now, &self.streams)) {
            open.remove(&self.id);
        }
        self.writers.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_writer_is_ended_by_its_connections_and_waited_for() {
        let (writers, id) = (Writers::default(), BlockId(7));
        assert!(writers.stop(id, Duration::ZERO), "there is none");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut stream = listener.accept().unwrap().0;
        std::thread::scope(|scope| {
            let writing = writers.begin(id);
            writing.add(&stream).unwrap();
            scope.spawn(move || {
                assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");
                drop(writing);
            });
            assert!(writers.stop(id, Duration::from_secs(20)));
        });
        let writing = writers.begin(id);
        assert!(!writers.stop(id, Duration::from_millis(1)), "it does not end");
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(writing.add(&other).is_err(), "it is to end");
        let next = writers.begin(id);
        drop(writing);
        assert!(!writers.stop(id, Duration::from_millis(1)), "the next one is another");
        drop(next);
        assert!(writers.stop(id, Duration::ZERO));
    }
}
