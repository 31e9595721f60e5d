//! Turns requests of clients and workers into decisions, and decisions into answers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use yeoul_base::failpoint;

use super::authentication::Authentication;
use super::messages;
use super::server::{DriverMeters, Shared};
use super::state::{SlotRefusal, Unregistered};
use crate::ids::ShuffleId;
use crate::net::{Body, ConnectionId, Reply, Service};
use crate::report::Phase;
use crate::wire::handshake::Handshake;
use crate::wire::message::{Message, MessageType, Typed};
use crate::wire::rpc::{self, Answer, Call, Request};
use crate::wire::{DecodeError, Head, Header, Received, Status, internal, proto, received};
use crate::{Error, Result};

/// How long a watch without orders stays open, so that a worker notices a master that vanished silently.
const WATCH_MAX: Duration = Duration::from_secs(20);

/// How long a request waits for workers to delete what stands in its way: some milliseconds, unless a disk hangs. Below the
/// 30 s after which Sail gives up.
const DELETION_MAX: Duration = Duration::from_secs(10);

/// The service on the master's RPC port.
pub(super) struct MasterService {
    shared: Arc<Shared>,
    authentication: Authentication,
}

impl MasterService {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, authentication: Authentication::default() }
    }

    async fn answer(&self, connection: ConnectionId, message: &Message) -> Result<Answer> {
        let shared = &self.shared;
        Ok(match message.kind {
            MessageType::HEARTBEAT_FROM_APPLICATION => {
                let request = message.parse::<received::HeartbeatFromApplication>()?;
                let pulse = messages::pulse(&request)?;
                shared.meters.drivers.add(&request)?;
                let health = shared.decide(|state, now| state.application_heartbeat(now, pulse)).await?;
                match health {
                    _ if !request.should_response => Message::ONE_WAY_RESPONSE.into(),
                    Some(health) => Answer::of(&messages::health(&health)),
                    None => Answer::of(&proto::HeartbeatFromApplicationResponse {
                        status: Status::RequestFailed.code(),
                        ..proto::HeartbeatFromApplicationResponse::default()
                    }),
                }
            }
            MessageType::CHECK_QUOTA => {
                message.parse::<received::CheckQuota>()?;
                Answer::of(&proto::CheckQuotaResponse { available: true, reason: String::new() })
            }
            MessageType::CHECK_WORKERS_AVAILABLE => {
                message.parse::<received::CheckWorkersAvailable>()?;
                let available = shared.read(|state| state.has_available_worker());
                Answer::of(&proto::CheckWorkersAvailableResponse { available })
            }
            MessageType::REQUEST_SLOTS => self.request_slots(connection, &message.parse()?).await?,
            MessageType::UNREGISTER_SHUFFLE => {
                let request = message.parse::<received::UnregisterShuffle>()?;
                self.unregister(&request.app_id, vec![messages::shuffle_id(request.shuffle_id)?]).await?;
                Answer::of(&proto::UnregisterShuffleResponse { status: Status::Success.code() })
            }
            MessageType::BATCH_UNREGISTER_SHUFFLES => {
                let request = message.parse::<received::BatchUnregisterShuffles>()?;
                let shuffles =
                    messages::shuffle_ids(&request, received::BatchUnregisterShuffles::SHUFFLE_IDS)?;
                let shuffle_ids = shuffles.iter().map(|shuffle| shuffle.0).collect();
                self.unregister(&request.app_id, shuffles).await?;
                Answer::of(&proto::BatchUnregisterShufflesResponse {
                    status: Status::Success.code(),
                    shuffle_ids,
                })
            }
            MessageType::APPLICATION_LOST => {
                let request = message.parse::<received::ApplicationLost>()?;
                let application = messages::application_id(&request.app_id)?;
                shared.decide(|state, now| state.remove_application(now, &application)).await?;
                Answer::of(&proto::ApplicationLostResponse { status: Status::Success.code() })
            }
            MessageType::REPORT_WORKER_FAILURE => {
                let request = message.parse::<received::ReportWorkerUnavailable>()?;
                let workers = messages::workers(&request, received::ReportWorkerUnavailable::UNAVAILABLE)?;
                shared.change(|state| state.workers_reported_failed(&workers));
                Message::ONE_WAY_RESPONSE.into()
            }
            MessageType::REGISTER_APPLICATION_INFO => {
                self.register_application(connection, &message.parse()?).await?
            }
            MessageType::REVISE_LOST_SHUFFLES => self.revise_shuffles(&message.parse()?).await?,
            // Clients before 0.3 returned slots one by one; we do not count slots.
            MessageType::RELEASE_SLOTS => {
                Answer::of(&proto::ReleaseSlotsResponse { status: Status::Success.code() })
            }
            MessageType::WORKER_REGISTER => self.register_worker(connection, &message.parse()?).await?,
            MessageType::WORKER_HEARTBEAT => self.worker_heartbeat(connection, &message.parse()?).await?,
            MessageType::WORKER_LEAVE => self.worker_leaves(&message.parse()?).await?,
            kind => return Err(unknown(kind).into()),
        })
    }

    async fn request_slots(
        &self,
        connection: ConnectionId,
        request: &Received<received::RequestSlots>,
    ) -> Result<Answer> {
        let wanted = messages::slot_request(connection.number(), request)?;
        self.shared.may_grow().inspect_err(|error| self.say_full(&request.application_id, error))?;
        let random = self.shared.random();
        let started = std::time::Instant::now();
        let ask = || {
            self.shared.decide(|state, now| {
                failpoint("master-request-slots");
                state.request_slots(now, random, wanted.clone())
            })
        };
        let mut granted = ask().await;
        if matches!(granted, Ok(Err(SlotRefusal::NoWorker | SlotRefusal::TooFewWorkers))) {
            self.shared.wait_while(DELETION_MAX, |state| state.awaits_deletion(&wanted)).await;
            granted = ask().await;
        }
        self.shared.meters.offer_slots.record(started.elapsed());
        let response = match granted? {
            Ok(grant) => messages::slots(&grant, request.packed),
            Err(refusal) => {
                self.shared.meters.failed_slots.add(1);
                let (application, shuffle) = (&request.application_id, request.shuffle_id);
                tracing::warn!(%application, shuffle, %refusal, "no slots");
                let status = match refusal {
                    SlotRefusal::NoWorker | SlotRefusal::NoTags => Status::WorkerExcluded,
                    SlotRefusal::TooFewWorkers => Status::SlotNotAvailable,
                    SlotRefusal::Refused(_) => Status::RequestFailed,
                };
                proto::RequestSlotsResponse {
                    status: status.code(),
                    ..proto::RequestSlotsResponse::default()
                }
            }
        };
        Ok(Answer::of(&response))
    }

    fn say_full(&self, application: &str, error: &Error) {
        let hint = error.hint();
        tracing::warn!(application, %error, hint, "nothing new is taken");
    }

    async fn unregister(&self, application: &str, shuffles: Vec<ShuffleId>) -> Result<()> {
        let application = messages::application_id(application)?;
        self.shared.decide(|state, now| state.unregister_shuffles(now, &application, &shuffles)).await?;
        Ok(())
    }

    async fn register_application(
        &self,
        connection: ConnectionId,
        request: &Received<received::RegisterApplicationInfo>,
    ) -> Result<Answer> {
        let registration = messages::application_registration(connection.number(), request)?;
        self.shared.may_grow().inspect_err(|error| self.say_full(&request.app_id, error))?;
        let application = registration.application.clone();
        let registered =
            self.shared.decide(|state, now| state.register_application(now, registration)).await?;
        match registered {
            Ok(0) => {}
            Ok(removed) => {
                tracing::info!(%application, removed, "came back: the shuffles of its earlier life are removed");
                // Its first shuffle would find few workers.
                self.shared.wait_while(DELETION_MAX, |state| state.is_deleting_of(&application)).await;
            }
            Err(refusal) => tracing::warn!(%application, %refusal, "an application is not taken"),
        }
        Ok(Message::ONE_WAY_RESPONSE.into())
    }

    async fn revise_shuffles(&self, request: &Received<received::ReviseLostShuffles>) -> Result<Answer> {
        let application = messages::application_id(&request.app_id)?;
        let shuffles = messages::shuffle_ids(request, received::ReviseLostShuffles::LOST_SHUFFLES)?;
        self.shared.may_grow().inspect_err(|error| self.say_full(&request.app_id, error))?;
        let revised =
            self.shared.decide(|state, now| state.revise_shuffles(now, &application, &shuffles)).await?;
        let message = revised.err().map_or_else(String::new, |refusal| refusal.to_string());
        Ok(Answer::of(&proto::ReviseLostShufflesResponse { success: revised.is_ok(), message }))
    }

    async fn register_worker(
        &self,
        connection: ConnectionId,
        request: &Received<received::WorkerRegister>,
    ) -> Result<Answer> {
        let registration = messages::registration(request)?;
        let worker = registration.worker.clone();
        let registered = self
            .shared
            .decide(|state, now| state.register_worker(now, connection.number(), registration))
            .await?;
        let heartbeat = self.shared.options.worker_heartbeat;
        let mut response = internal::WorkerRegistered {
            heartbeat_interval_ms: i64::try_from(heartbeat.as_millis()).unwrap_or(i64::MAX),
            ..internal::WorkerRegistered::default()
        };
        if registered {
            tracing::info!(%worker, "a worker registered");
            response.status = Status::Success.code();
        } else {
            response.status = Status::RequestFailed.code();
            response.message = "the master's limit on workers is reached".to_owned();
        }
        Ok(Answer::of(&response))
    }

    async fn worker_heartbeat(
        &self,
        connection: ConnectionId,
        request: &Received<received::WorkerHeartbeat>,
    ) -> Result<Answer> {
        let worker = messages::worker(request.worker.as_ref())?;
        let report = messages::report(request.part(received::WorkerHeartbeat::REPORT)?)?;
        let incarnation = request.incarnation;
        let heard = self
            .shared
            .decide(|state, now| {
                state.worker_heartbeat(now, connection.number(), &worker, incarnation, report)
            })
            .await?;
        self.shared.worker_reported();
        Ok(Answer::of(&internal::WorkerHeartbeatReply { status: status(heard).code() }))
    }

    async fn worker_leaves(&self, request: &Received<received::WorkerLeave>) -> Result<Answer> {
        let worker = messages::worker(request.worker.as_ref())?;
        let phase = Phase::from(request.phase());
        let (incarnation, gone) = (request.incarnation, request.gone);
        let left = self
            .shared
            .decide(|state, now| state.worker_leaves(now, &worker, incarnation, phase, gone))
            .await?;
        let what = match (phase, gone) {
            (Phase::Decommissioning, false) => "is decommissioned: it takes nothing new",
            (Phase::Decommissioning, true) => "has left for good",
            (_, false) => "is stopping",
            (_, true) => "has stopped",
        };
        tracing::info!(%worker, "a worker {what}");
        Ok(Answer::of(&internal::WorkerLeaveReply { status: status(left).code() }))
    }
}

impl Service for MasterService {
    async fn call(&self, head: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        // Drivers send themselves one-way messages, some of which reach us; other frames do not belong here.
        let Header::RpcRequest { .. } = head.header else { return Ok(()) };
        let mut measured = self.shared.meters.rpc.begin();
        let memory = self.shared.memory_for(reply.connection().number(), body.remaining()).await;
        let memory = match memory {
            Ok(memory) => memory,
            Err(error) => {
                reply.fail(error.to_string());
                return Ok(());
            }
        };
        let bytes = body.whole().await?;
        measured.arrived();
        let request = match Request::decode(bytes.clone()) {
            Ok(request) => request,
            Err(error) => {
                if let Some(step) = Handshake::decode(bytes) {
                    self.authentication.answer(step, reply);
                    return Ok(());
                }
                reply.fail(format!("not a request: {error}"));
                return Ok(());
            }
        };
        let message = match request.call {
            Call::CheckExistence(name) => {
                reply.answer(&Answer::Exists(name == rpc::MASTER));
                return Ok(());
            }
            Call::Foreign(class) => {
                reply.fail(format!("no request of class {class} is served here"));
                return Ok(());
            }
            Call::Message(_) if request.endpoint != rpc::MASTER => {
                reply.fail(format!("there is no endpoint {:.64} here", request.endpoint));
                return Ok(());
            }
            Call::Message(message) => message,
        };
        if message.kind == MessageType::WORKER_WATCH {
            drop(memory); // it waits for long, and is small
            match message.parse() {
                Ok(watch) => drop(tokio::spawn(watch_orders(self.shared.clone(), watch, reply))),
                Err(error) => reply.fail(error.to_string()),
            }
            return Ok(());
        }
        match self.answer(reply.connection(), &message).await {
            Ok(answer) => reply.answer(&answer),
            Err(error) => reply.fail(format!("{}: {error}", rpc::describe(message.kind))),
        }
        drop(memory);
        Ok(())
    }

    fn closed(&self, connection: ConnectionId) {
        self.shared.link_lost(connection.number());
    }
}

impl DriverMeters {
    /// Adds what a driver tells.
    fn add(&self, heartbeat: &Received<received::HeartbeatFromApplication>) -> Result<()> {
        type Heartbeat = received::HeartbeatFromApplication;
        let counted = |count: i64| u64::try_from(count).unwrap_or(0);
        self.applications.add(counted(heartbeat.application_count));
        self.shuffles.add(counted(heartbeat.shuffle_count));
        for fallback in heartbeat.messages(Heartbeat::SHUFFLE_FALLBACK_COUNTS) {
            self.shuffle_fallbacks.add(counted(fallback?.value));
        }
        for fallback in heartbeat.messages(Heartbeat::APPLICATION_FALLBACK_COUNTS) {
            self.application_fallbacks.add(counted(fallback?.value));
        }
        Ok(())
    }
}

/// Answers a watch when there are orders, or when it has been open for long enough.
async fn watch_orders(shared: Arc<Shared>, watch: Received<received::WorkerWatch>, reply: Reply) {
    let worker = match messages::worker(watch.worker.as_ref()) {
        Ok(worker) => worker,
        Err(error) => return reply.fail(error.to_string()),
    };
    let connection = reply.connection().number();
    let deadline = tokio::time::Instant::now() + WATCH_MAX;
    let bell = shared.bell(&worker);
    let mut response = internal::WorkerOrders { sequence: watch.seen, ..internal::WorkerOrders::default() };
    loop {
        let rung = bell.notified();
        let orders = match shared.worker_orders(connection, &worker, watch.incarnation, watch.seen).await {
            Ok(orders) => orders,
            Err(error) => return reply.fail(error.to_string()),
        };
        match orders {
            Err(Unregistered) => {
                response.status = Status::WorkerUnknown.code();
                break;
            }
            Ok(Some(batch)) => {
                response = messages::orders(&batch);
                break;
            }
            Ok(None) => {}
        }
        let waited = tokio::time::timeout_at(deadline, rung).await;
        if waited.is_err() || reply.is_closed() {
            break;
        }
    }
    reply.answer(&Answer::of(&response));
}

fn status<T>(registered: Result<T, Unregistered>) -> Status {
    if registered.is_ok() { Status::Success } else { Status::WorkerUnknown }
}

fn unknown(kind: MessageType) -> DecodeError {
    let problem = crate::wire::Problem::Unexpected(kind.0.into());
    DecodeError { field: "message type", offset: 0, problem }
}

/// Compile-time check of the numeric values, on which workers rely.
const _: () = {
    assert!(internal::WorkerRegistered::TYPE.0 == internal::WorkerRegister::TYPE.0 + 1);
    assert!(internal::WorkerOrders::TYPE.0 == internal::WorkerWatch::TYPE.0 + 1);
};
