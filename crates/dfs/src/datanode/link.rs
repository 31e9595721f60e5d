//! What a DataNode tells a NameNode, and what it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tracing::{debug, info, warn};

use super::control::Control;
use super::notices::{NOTICES_PER_CALL_MAX, Notices};
use super::recoverer::Recoverer;
use super::repairer::Repairer;
use super::repairs::Term;
use super::transfer::Transfers;
use crate::error::{Error, Kind, Result};
use crate::ids::{BlockId, GenerationStamp};
use crate::rpc::{CallError, Client};
use crate::wire::proto::cluster::{
    Answer, BlockRef, HeartbeatRequest, HeartbeatResponse, Notice, NoticeRequest, RegisterRequest,
    RegisterResponse, ReportRequest,
};
use crate::wire::protocol;

/// How long a NameNode that is not there is left alone.
const RETRY: Duration = Duration::from_secs(1);
/// Replicas in one part of a report: some 40 bytes each.
const REPLICAS_PER_PART: usize = 10_000;

/// What a DataNode says of itself.
#[derive(Clone, Debug)]
pub struct Own {
    /// The name by which others reach it.
    pub host: String,
    /// The address by which others reach it.
    pub ip: String,
    /// The data port.
    pub transfer_port: u16,
    /// The port for calls.
    pub ipc_port: u16,
    /// The port for pages; 0 if none are served.
    pub info_port: u16,
    /// Where it stands.
    pub rack: String,
    /// The user whose process it is.
    pub user: String,
}

/// The link to one NameNode.
pub struct Link {
    /// The NameNode.
    pub namenode: String,
    /// What the DataNode says of itself.
    pub own: Own,
    /// Its replicas.
    pub transfers: Arc<Transfers>,
    /// What this NameNode has yet to be told.
    pub notices: Arc<Notices>,
    /// What is ordered to be rebuilt or copied.
    pub repairer: Arc<Repairer>,
    /// Replicas whose writers are gone.
    pub recoverer: Arc<Recoverer>,
    /// The highest term of all NameNodes: orders of a lower one are not obeyed.
    pub term: Arc<AtomicU64>,
    /// What operators ask for.
    pub control: Arc<Control>,
    /// How often the DataNode shows that it is there.
    pub heartbeat: Duration,
    /// How often it reports all that it has.
    pub report: Duration,
}

impl Link {
    /// Keeps the link, as long as the DataNode runs.
    pub async fn run(self) {
        let mut told = None;
        loop {
            let ended = self.connected().await;
            self.notices.disconnected();
            if let Err(error) = ended {
                let namenode = &self.namenode;
                let why = error.hint().map_or(error.to_string(), |hint| format!("{error}: {hint}"));
                // A NameNode that comes back may have another reason than the one that it was gone.
                if told.as_ref() == Some(&why) {
                    debug!(namenode, why, "still no link to the NameNode");
                } else {
                    warn!(namenode, why, "no link to the NameNode: it is tried again each second");
                    told = Some(why);
                }
            } else {
                told = None;
            }
            sleep(RETRY).await;
        }
    }

    /// Registers, reports, and then tells what there is to tell until the NameNode is gone (an error) or wants to be told
    /// anew.
    async fn connected(&self) -> Result<()> {
        let client_id = std::array::from_fn(|_| fastrand::u8(..));
        let connecting = Client::connect(&self.namenode, &self.own.user, protocol::CLUSTER, client_id);
        let mut client = connecting.await.map_err(failed)?;
        self.register(&mut client).await?;
        self.notices.connected();
        self.report_all(&mut client).await?;
        info!(namenode = self.namenode, "registered and reported");
        let mut beats = interval(self.heartbeat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reported = Instant::now();
        let mut asked = self.control.reports();
        loop {
            let is_known = tokio::select! {
                _ = beats.tick() => self.beat(&mut client, &mut reported).await?,
                () = self.notices.come() => self.send_notices(&mut client).await?,
            };
            if !is_known {
                return Ok(());
            }
            let asked_now = self.control.reports();
            if reported.elapsed() >= self.report || asked_now != asked {
                asked = asked_now;
                self.report_all(&mut client).await?;
                reported = Instant::now();
            }
        }
    }

    /// Registers. A DataNode that belongs to no pool yet asks for it first, and registers once it can take blocks.
    async fn register(&self, client: &mut Client) -> Result<()> {
        if self.transfers.store.pool().is_empty() {
            self.ask_to_register(client).await?;
        }
        self.ask_to_register(client).await
    }

    async fn ask_to_register(&self, client: &mut Client) -> Result<()> {
        let (store, own) = (&self.transfers.store, &self.own);
        let request = RegisterRequest {
            layout_version: protocol::LAYOUT_VERSION,
            features: protocol::FEATURES,
            uuid: store.datanode.clone(),
            host: own.host.clone(),
            ip: own.ip.clone(),
            transfer_port: own.transfer_port.into(),
            ipc_port: own.ipc_port.into(),
            info_port: own.info_port.into(),
            rack: own.rack.clone(),
            pool: store.pool(),
            storages: store.storages(),
            term: self.term.load(Ordering::Relaxed),
        };
        let response: RegisterResponse = client.call("register", &request).await.map_err(failed)?;
        if response.layout_version != protocol::LAYOUT_VERSION {
            let message =
                format!("the NameNode speaks version {} and the DataNode 1", response.layout_version);
            return Err(Error::new(Kind::Invalid, message));
        }
        self.term.fetch_max(response.term, Ordering::Relaxed);
        self.repairer.repairs().begin_term(Term(response.term));
        let store = Arc::clone(store);
        let joined = tokio::task::spawn_blocking(move || store.join_pool(&response.pool, &response.cluster));
        joined.await.map_err(|error| Error::new(Kind::Internal, error.to_string()))?
    }

    async fn report_all(&self, client: &mut Client) -> Result<()> {
        let uuid = &self.transfers.store.datanode;
        for storage in self.transfers.store.storages() {
            // The round begins before the replicas are looked at: what is finished later comes as a notice.
            let part = |is_first, is_last, replicas| {
                let (uuid, storage) = (uuid.clone(), storage.uuid.clone());
                ReportRequest { uuid, storage, is_first, is_last, replicas }
            };
            let _: Answer = client.call("report", &part(true, false, Vec::new())).await.map_err(failed)?;
            let mut after = None;
            loop {
                let some = self.transfers.store.report(&storage.uuid, after, REPLICAS_PER_PART);
                let Some(last) = some.last() else { break };
                after = Some(BlockId(last.id));
                let _: Answer = client.call("report", &part(false, false, some)).await.map_err(failed)?;
            }
            // Before the round ends, so that the NameNode never takes a damaged replica for a good one that others may leave for.
            let damaged = self.transfers.store.damaged(&storage.uuid);
            for some in damaged.chunks(NOTICES_PER_CALL_MAX) {
                let notices = some.iter().map(|replica| {
                    let (storage, replica) = (storage.uuid.clone(), Some(*replica));
                    Notice { storage, replica, is_corrupt: true, ..Notice::default() }
                });
                let request = NoticeRequest { uuid: uuid.clone(), notices: notices.collect() };
                let _: Answer = client.call("notice", &request).await.map_err(failed)?;
            }
            let _: Answer = client.call("report", &part(false, true, Vec::new())).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Shows that the DataNode is there, and does what it is told: false if the NameNode does not know it.
    async fn beat(&self, client: &mut Client, reported: &mut Instant) -> Result<bool> {
        let store = &self.transfers.store;
        let transfers = u32::try_from(self.transfers.open()).unwrap_or(u32::MAX);
        let request = HeartbeatRequest {
            uuid: store.datanode.clone(),
            storages: store.storages(),
            transfers,
            repairs: self.repairer.repairs().numbers(),
            held: self.recoverer.held(),
        };
        let response: HeartbeatResponse = client.call("heartbeat", &request).await.map_err(failed)?;
        if response.must_register {
            return Ok(false);
        }
        let highest = self.term.fetch_max(response.term, Ordering::Relaxed);
        if response.term < highest {
            warn!(
                namenode = self.namenode,
                term = response.term,
                highest,
                "orders of an old term are not obeyed"
            );
            return Ok(true);
        }
        if response.repair_bytes_per_second > 0 {
            info!(bytes_per_second = response.repair_bytes_per_second, "repairs and moves are paced anew");
            self.repairer.throttle.set_bytes_per_second(response.repair_bytes_per_second);
            self.transfers.moves.throttle.set_bytes_per_second(response.repair_bytes_per_second);
        }
        self.repairer.obey(Term(response.term), response.repairs, &response.cancelled);
        self.recoverer.obey(response.recoveries);
        if !response.delete.is_empty() && !self.delete(client, response.delete).await? {
            return Ok(false);
        }
        if response.must_report {
            self.report_all(client).await?;
            *reported = Instant::now();
        }
        Ok(true)
    }

    /// Deletes replicas, and tells of it before it shows again that it is there: false if the NameNode does not know it.
    async fn delete(&self, client: &mut Client, orders: Vec<BlockRef>) -> Result<bool> {
        let transfers = Arc::clone(&self.transfers);
        let deleting = tokio::task::spawn_blocking(move || {
            for BlockRef { storage, id, stamp } in &orders {
                transfers.delete(storage, BlockId(*id), GenerationStamp(*stamp));
            }
        });
        deleting.await.map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        self.send_notices(client).await
    }

    async fn send_notices(&self, client: &mut Client) -> Result<bool> {
        while let Some(batch) = self.notices.take() {
            let uuid = self.transfers.store.datanode.clone();
            let request = NoticeRequest { uuid, notices: batch.notices.clone() };
            let answer: Answer = client.call("notice", &request).await.map_err(failed)?;
            if answer.must_register {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn failed(error: CallError) -> Error {
    let kind = match &error {
        CallError::Connection { .. } => Kind::Unavailable,
        CallError::Refused { .. } => Kind::Denied,
        CallError::Corrupt { .. } => Kind::Corrupt,
    };
    Error::new(kind, error.to_string()).with_source(error)
}
