//! Pushing batches until they are taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use super::{InUse, Tasks};
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, LocationId, MapId, Mode, PartitionId, WorkerId};
use crate::net::{Payload, RequestError};
use crate::wire::batch::{BATCH_HEADER_LEN, BatchHeader, ByteOrder};
use crate::wire::packed::Location;
use crate::wire::{Header, Status};

/// A payload below this is copied behind its header: one more part for the kernel would cost as much.
const COPIED_BELOW: usize = 4 << 10;

/// A batch that is being pushed.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub partition: PartitionId,
    /// The header, and the payload if it is short.
    front: Bytes,
    /// The payload if it is long.
    rest: Bytes,
}

impl Batch {
    pub fn new(partition: PartitionId, header: &BatchHeader, payload: Bytes) -> Self {
        let copied = if payload.len() < COPIED_BELOW { payload.len() } else { 0 };
        let mut front = BytesMut::with_capacity(BATCH_HEADER_LEN + copied);
        header.encode(ByteOrder::Little, &mut front);
        front.put_slice(&payload[..copied]);
        Self { partition, front: front.freeze(), rest: payload.slice(copied..) }
    }

    /// Bytes as they are stored.
    pub fn len(&self) -> usize {
        self.front.len() + self.rest.len()
    }
}

/// A worker's answer to a push.
pub(crate) enum Verdict {
    Taken,
    /// Taken, but the next one should go elsewhere.
    TakenMoveOn,
    /// Not taken, because the location gets no more: try a newer one.
    Split,
    /// Not taken, and why: try a newer location, and these workers no more.
    Failed(String, Vec<WorkerId>),
    MapEnded,
}

pub(crate) fn verdict(answer: Result<Bytes, RequestError>, location: &Location) -> Verdict {
    let primary = || vec![location.worker.clone()];
    let peer = || location.peer.iter().cloned().collect();
    let body = match answer {
        Ok(body) => body,
        Err(error) => {
            let avoid = match &error {
                RequestError::Failed { text, .. } => match Status::from_text(text) {
                    Some(Status::PushDataWriteFailPrimary) => primary(),
                    Some(
                        Status::PushDataWriteFailReplica
                        | Status::PushDataCreateConnectionFailReplica
                        | Status::PushDataConnectionExceptionReplica
                        | Status::PushDataTimeoutReplica,
                    ) => peer(),
                    _ => Vec::new(),
                },
                _ => primary(),
            };
            return Verdict::Failed(error.to_string(), avoid);
        }
    };
    match body.first().map_or(Some(Status::Success), |code| Status::from_code(i32::from(*code))) {
        Some(
            Status::Success
            | Status::PushDataSuccessPrimaryCongested
            | Status::PushDataSuccessReplicaCongested,
        ) => Verdict::Taken,
        Some(Status::SoftSplit) => Verdict::TakenMoveOn,
        Some(Status::MapEnded) => Verdict::MapEnded,
        Some(Status::HardSplit) => Verdict::Split,
        other => Verdict::Failed(format!("unexpected answer {other:?}"), Vec::new()),
    }
}

type Request = dyn Future<Output = Result<Bytes, RequestError>> + Send;

/// A push that goes on when its writer stops waiting: the worker may yet take it, and until it ends the shuffle's id is
/// not free.
struct OnItsWay {
    /// Until it has ended.
    request: Option<(Pin<Box<Request>>, InUse)>,
}

impl Future for OnItsWay {
    type Output = Result<Bytes, RequestError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (request, _) = self.request.as_mut().expect("nobody waits for it once more");
        let answer = ready!(request.as_mut().poll(context));
        self.request = None;
        Poll::Ready(answer)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        if let (Some((request, in_use)), Ok(runtime)) = (self.request.take(), Handle::try_current()) {
            runtime.spawn(async move {
                let _ = request.await;
                drop(in_use);
            });
        }
    }
}

fn map_ended(map: MapId, attempt: AttemptId) -> Error {
    Error::new(Kind::Conflict, format!("map {map} has ended with another attempt than {attempt}"))
}

impl Tasks {
    /// Pushes one batch until a worker takes it, to new locations if need be. `reasons` are why it was moved before:
    /// each counts against `revives_max`.
    ///
    /// # Errors
    /// `Unavailable` if no worker takes it; `Conflict` if the map has ended with another attempt or the shuffle was
    /// unregistered.
    pub(super) async fn push(
        self: &Arc<Self>,
        batch: &Batch,
        map: MapId,
        attempt: AttemptId,
        mut reasons: Vec<String>,
    ) -> Result<()> {
        loop {
            // The permit is kept until there is a new location, if one is needed: pushes that wait for it go there.
            let (location, _place) = self.place(batch.partition).await?;
            let answer = self.push_to(&location, &[location.id], std::slice::from_ref(batch)).await?;
            let (reason, avoid, is_split) = match verdict(answer, &location) {
                Verdict::Taken => return Ok(()),
                Verdict::TakenMoveOn => {
                    self.move_on(location);
                    return Ok(());
                }
                Verdict::MapEnded => return Err(map_ended(map, attempt)),
                Verdict::Split => ("hard split".to_owned(), Vec::new(), true),
                Verdict::Failed(reason, avoid) => (reason, avoid, false),
            };
            let epoch = location.id.epoch;
            let revived = if reasons.len() < self.limits.revives_max {
                self.source.revive(batch.partition, epoch, &avoid).await
            } else if is_split && self.source.has_moved_on(batch.partition, epoch).await {
                Ok(false)
            } else {
                reasons.push(reason);
                return Err(self.not_taken(batch, Kind::Unavailable, &reasons));
            };
            match revived {
                // A split counts for the batch that made the new location: one among many does not run out of tries
                // because the others fill location after location. A failure counts for each batch that met it, and may
                // have taken the whole timeout: otherwise they would go on until each had made its last location.
                Ok(false) if is_split => {}
                Ok(_) => reasons.push(reason),
                Err(error) => {
                    reasons.extend([reason, error.to_string()]);
                    return Err(self.not_taken(batch, error.kind(), &reasons).with_source(error));
                }
            }
        }
    }

    /// Pushes several batches at once to the worker that they all go to now; if it does not take them, each on its own.
    pub(super) async fn push_merged(
        self: &Arc<Self>,
        batches: &[Batch],
        map: MapId,
        attempt: AttemptId,
    ) -> Result<()> {
        let mut reasons = Vec::new();
        if let Some((location, ids, place)) = self.common_place(batches).await? {
            match verdict(self.push_to(&location, &ids, batches).await?, &location) {
                Verdict::Taken | Verdict::TakenMoveOn => return Ok(()),
                Verdict::MapEnded => return Err(map_ended(map, attempt)),
                // With no worker to avoid, each batch gets the same answer again, and acts on it.
                Verdict::Split => {}
                Verdict::Failed(_, avoid) if avoid.is_empty() => {}
                Verdict::Failed(reason, _) if self.limits.revives_max == 0 => {
                    return Err(self.not_taken(&batches[0], Kind::Unavailable, &[reason]));
                }
                Verdict::Failed(reason, avoid) => {
                    self.move_away(&ids, &avoid).await;
                    reasons.push(reason);
                }
            }
            drop(place); // each batch needs one of its own
        }
        for batch in batches {
            self.push(batch, map, attempt, reasons.clone()).await?;
        }
        Ok(())
    }

    fn not_taken(&self, batch: &Batch, kind: Kind, reasons: &[String]) -> Error {
        let (partition, reasons) = (batch.partition, reasons.join("; "));
        let text =
            format!("no worker takes a batch of partition {partition} of shuffle {}: {reasons}", self.key);
        Error::new(kind, text)
    }

    /// The location for a batch of the partition, and a permit of its worker's window. The wait for it may be long if
    /// the worker is silent; by then the partition may have moved on, or had better move on without a try.
    async fn place(self: &Arc<Self>, partition: PartitionId) -> Result<(Location, OwnedSemaphorePermit)> {
        loop {
            let location = self.source.current(partition);
            let place =
                self.window(&location.worker).acquire_owned().await.expect("no window is ever closed");
            let epoch = location.id.epoch;
            let (has_moved, is_shunned) = self.source.standing(&location)?;
            if has_moved || is_shunned && self.source.revive(partition, epoch, &[]).await.is_ok() {
                continue;
            }
            return Ok((location, place));
        }
    }

    /// The same for several batches, if they go to the same workers: one of their locations, and all of their ids.
    /// `None` if a batch is to be pushed on its own, or has to move first.
    async fn common_place(
        &self,
        batches: &[Batch],
    ) -> Result<Option<(Location, Vec<LocationId>, OwnedSemaphorePermit)>> {
        let current = || self.source.currents(batches.iter().map(|batch| batch.partition));
        let mut locations = current();
        loop {
            let pair = |location: &Location| (location.worker.clone(), location.peer.clone());
            let Some(first) = locations.first().filter(|_| batches.len() > 1).cloned() else {
                return Ok(None);
            };
            if locations.iter().any(|location| pair(location) != pair(&first)) {
                return Ok(None);
            }
            let place = self.window(&first.worker).acquire_owned().await.expect("no window is ever closed");
            let since = std::mem::replace(&mut locations, current());
            let (_, is_shunned) = self.source.standing(&first)?;
            if is_shunned {
                return Ok(None);
            }
            if since == locations {
                return Ok(Some((first, locations.iter().map(|location| location.id).collect(), place)));
            }
        }
    }

    /// Makes new locations for those that were tried together on a worker to avoid: otherwise the batches would wait
    /// for that worker again, one after the other.
    async fn move_away(self: &Arc<Self>, ids: &[LocationId], avoid: &[WorkerId]) {
        for id in ids {
            if self.source.revive(id.partition, id.epoch, avoid).await.is_err() {
                // There is no other worker, but this one may take the batches yet; their own pushes find out.
                return;
            }
        }
    }

    async fn push_to(
        &self,
        location: &Location,
        ids: &[LocationId],
        batches: &[Batch],
    ) -> Result<Result<Bytes, RequestError>> {
        let (request_id, mode, shuffle) = (0, Mode::Primary, self.key.clone());
        let header = match ids {
            [location] => Header::PushData { request_id, mode, shuffle, location: *location },
            _ => {
                let mut end = 0;
                let offsets = batches.iter().map(|batch| {
                    let begin = end;
                    end += u32::try_from(batch.len()).expect("merged batches are small");
                    begin
                });
                let offsets = offsets.collect();
                Header::PushMergedData { request_id, mode, shuffle, locations: ids.to_vec(), offsets }
            }
        };
        let address = location.worker.address(location.worker.push_port);
        let payload = Payload::parts(
            batches.iter().flat_map(|batch| [batch.front.clone(), batch.rest.clone()]).collect(),
        );
        let (client, within) = (self.workers.client.clone(), self.limits.push_max);
        let request = async move { client.request(&address, header, payload, within).await };
        let on_its_way = OnItsWay { request: Some((Box::pin(request), self.source.enter()?)) };
        Ok(on_its_way.await)
    }

    /// Makes a new location while batches still go to the old one, unless one is being made: each of these batches asks
    /// for it.
    fn move_on(self: &Arc<Self>, location: Location) {
        if self.source.is_reviving(location.id.partition) {
            return;
        }
        let tasks = self.clone();
        self.spawn(async move {
            // If it fails, batches go on to the old location, which still takes them.
            let _ = tasks.source.revive(location.id.partition, location.id.epoch, &[]).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LocationId;

    #[test]
    fn a_failure_turns_away_from_the_worker_that_it_is_about() {
        let worker = |port: u16| WorkerId {
            host: "h".into(),
            rpc_port: port,
            push_port: 1,
            fetch_port: 2,
            replicate_port: 3,
        };
        let (primary, replica) = ([worker(10)], [worker(20)]);
        let id = LocationId::new(0, 0);
        let location =
            Location { id, mode: Mode::Primary, worker: primary[0].clone(), peer: Some(replica[0].clone()) };
        let address = || "h:1".to_owned();
        let avoided = |answer| match verdict(answer, &location) {
            Verdict::Failed(_, avoid) => avoid,
            _ => panic!("it is a failure"),
        };
        let told =
            |text: &str| avoided(Err(RequestError::Failed { address: address(), text: text.to_owned() }));
        assert_eq!(told("PUSH_DATA_WRITE_FAIL_PRIMARY: no disk"), primary);
        for status in [
            "PUSH_DATA_WRITE_FAIL_REPLICA",
            "PUSH_DATA_CREATE_CONNECTION_FAIL_REPLICA",
            "PUSH_DATA_CONNECTION_EXCEPTION_REPLICA",
            "PUSH_DATA_TIMEOUT_REPLICA",
        ] {
            assert_eq!(told(&format!("{status}: gone")), replica, "{status}");
        }
        for other in
            ["PUSH_DATA_FAIL_PARTITION_NOT_FOUND: what", "PUSH_DATA_FAIL_NON_CRITICAL_CAUSE_REPLICA", "?"]
        {
            assert_eq!(told(other), [], "{other}");
        }
        let silent = RequestError::TimedOut { address: address(), after: std::time::Duration::ZERO };
        let lost = RequestError::Lost { address: address(), reason: "closed".into() };
        assert_eq!([avoided(Err(silent)), avoided(Err(lost))], [primary.clone(), primary]);
        // A status that is no answer to a push does not mean that it was taken.
        for status in [Status::RequestFailed.byte(), Status::WorkerShutdown.byte(), 52, 255] {
            assert_eq!(avoided(Ok(Bytes::copy_from_slice(&[status]))), [], "{status}");
        }
        let taken: [&[u8]; 3] = [&[], &[0], &[Status::PushDataSuccessReplicaCongested as u8]];
        for answer in taken {
            assert!(matches!(verdict(Ok(Bytes::copy_from_slice(answer)), &location), Verdict::Taken));
        }
    }
}
