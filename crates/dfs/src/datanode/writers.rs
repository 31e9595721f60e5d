//! The writers that are served, so that one that comes back ends what is left of the pipeline that broke.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ids::BlockId;

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

    fn open(&self) -> MutexGuard<'_, HashMap<BlockId, Arc<Streams>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Streams {
    fn close(&self) {
        for stream in self.0.lock().unwrap_or_else(PoisonError::into_inner).take().into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Writing<'_> {
    /// Adds a connection that ends with the writer.
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
