use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use yeoul_journal::{Journal, Kept, Promise};
use yeoul_net::supervise::{DecisionLock, must_not_panic};

use super::clock::Clock;
use super::namespace::User;
use super::refused::RefusedDatanodes;
use super::state::{Kind, State, kind_of};
use super::topology::Racks;
use super::{Context, HostsFiles, Now, Topology};
use crate::memory::{Memory, TableCharge};
use crate::rpc::{Answer, Calls, Groups, Incoming, Outcome};
use crate::wire::exception::Exception;
use crate::wire::proto::cluster::RegisterRequest;
use crate::wire::proto::journal::Record;
use crate::wire::proto::namenode::{
    GroupsResponse, MetaSaveRequest, RollEditsResponse, SaveNamespaceResponse, UserRequest,
};
use crate::wire::{Refusal, protocol};

/// Bytes that one call may add to the tables: names of a path, inodes, and a block with its targets.
const GROWTH_BYTES: u64 = 64 << 10;

/// How long after a block was refused for lack of DataNodes it is tried again.
const DATANODES_TRIED_AGAIN: Duration = Duration::from_millis(250);

/// Bytes of the name of a file that an operator has written.
const FILE_NAME_BYTES_MAX: usize = 255;

/// What one lock is around: the state, the chance that its decisions take, and the journal, which has the order of the
/// decisions.
pub struct Decisions {
    /// The state.
    pub state: State,
    /// Where chance comes from.
    pub random: fastrand::Rng,
    /// Where the records go.
    pub journal: Box<dyn Journal<Record>>,
    memory: Memory,
    tables: TableCharge,
}

impl Decisions {
    /// Decisions of a state, whose tables are charged to `memory`.
    pub fn new(
        state: State,
        random: fastrand::Rng,
        journal: Box<dyn Journal<Record>>,
        memory: Memory,
    ) -> Self {
        let tables = memory.tables();
        let mut decisions = Self { state, random, journal, memory, tables };
        decisions.charge_tables();
        decisions
    }

    /// Charges what the tables have now, and tells the state whether they may grow.
    fn charge_tables(&mut self) {
        self.tables.set(self.state.bytes());
        self.state.set_may_grow(self.memory.has_room_in_tables(GROWTH_BYTES));
    }

    /// Gives the journal what has been decided; resolves when it is on disk. The number is that of the last record.
    pub fn keep(&mut self) -> (u64, Kept) {
        self.charge_tables();
        let records = self.state.take_records();
        (self.state.sequence(), self.journal.append(&records, Promise::Synced))
    }
}

/// The calls of clients and DataNodes: each is decided under the lock, and answered once the journal has what it changed.
#[derive(Clone)]
pub struct Service {
    decisions: Arc<DecisionLock<Decisions>>,
    clock: Clock,
    refused: Arc<Mutex<RefusedDatanodes>>,
    groups: Groups,
    /// Where operators' reports go.
    reports: Arc<Path>,
    /// The files that name hosts.
    hosts: HostsFiles,
    /// The racks of DataNodes that do not say theirs.
    racks: Racks,
    /// An image is being written.
    writes_image: Arc<AtomicBool>,
}

impl Service {
    /// A service of this state. What operators have written goes to the folder `reports`.
    pub fn new(decisions: Decisions, clock: Clock, groups: Groups, reports: PathBuf) -> Self {
        let decisions = Arc::new(DecisionLock::new("the NameNode's state", decisions));
        let (refused, writes_image) = (Arc::default(), Arc::default());
        let hosts = HostsFiles::default();
        let racks = Racks::new(Topology::default());
        Self { decisions, clock, refused, groups, reports: reports.into(), hosts, racks, writes_image }
    }

    /// The same service with racks of DataNodes that do not say theirs.
    #[must_use]
    pub fn with_racks(self, racks: Racks) -> Self {
        Self { racks, ..self }
    }

    /// The same service with files that name hosts.
    #[must_use]
    pub fn with_hosts(self, hosts: HostsFiles) -> Self {
        Self { hosts, ..self }
    }

    /// What is wrong with the journal, if changes are not kept at the moment.
    pub fn fault(&self) -> Option<String> {
        self.decisions.lock().journal.fault()
    }

    /// Answers for the groups of a user (`hdfs groups`).
    fn groups_of_user(&self, call: &Incoming) -> Answer {
        if call.method != "getGroupsForUser" {
            return Answer::Now(Err(Refusal::unsupported(&call.method)));
        }
        let request = match UserRequest::decode(call.argument.clone()) {
            Ok(request) => request,
            Err(error) => {
                return Answer::Now(Err(Refusal::new(Exception::HadoopIllegalArgument, error.to_string())));
            }
        };
        let known = self.groups.clone();
        Answer::Later(Box::pin(async move {
            Ok(GroupsResponse { groups: known.of(&request.user).await }.encode_to_vec())
        }))
    }

    /// Has the groups of users asked for anew, for connections from now on.
    fn refresh_groups(&self, call: &Incoming) -> Outcome {
        if call.method != "refreshUserToGroupsMappings" {
            return Err(Refusal::unsupported(&call.method));
        }
        let is_superuser = self.decisions.lock().state.is_superuser(&call.user, &call.groups);
        let user = User { name: call.user.to_string(), groups: call.groups.to_vec(), is_superuser };
        user.check_superuser("refreshUserToGroupsMappings")?;
        self.groups.forget_all();
        Ok(Vec::new())
    }

    /// A user by name, with the groups that this host knows.
    pub async fn user(&self, name: &str) -> User {
        let groups = self.groups.of(name).await;
        let is_superuser = self.decisions.lock().state.is_superuser(name, &groups);
        User { name: name.to_owned(), groups, is_superuser }
    }

    /// DataNodes that ask to be registered and are refused.
    pub fn refused_datanodes(&self) -> usize {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.count(self.clock.now().steady_ms)
    }

    /// Notes how the registration of a DataNode went, and logs a refusal once for each reason: it asks again each second.
    fn note_registration(&self, ip: &str, argument: Bytes, refusal: Option<&Refusal>) {
        let uuid = RegisterRequest::decode(argument).map(|request| request.uuid).unwrap_or_default();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match refusal {
            None => refused.admit(&uuid),
            Some(Refusal { message, .. }) => {
                if refused.refuse(&uuid, message, self.clock.now().steady_ms) {
                    warn!(from = ip, datanode = uuid, why = message, "a DataNode is refused");
                }
            }
        }
    }

    /// Registers a DataNode, once its rack is known if it does not say it.
    fn register(&self, call: Incoming) -> Answer {
        let request = match RegisterRequest::decode(call.argument.clone()) {
            // One without a pool only asks for it.
            Ok(request) if self.racks.are_known() && request.rack.is_empty() && !request.pool.is_empty() => {
                request
            }
            _ => return self.register_on_rack(call),
        };
        let own = self.clone();
        Answer::Later(Box::pin(async move {
            let rack = own.racks.of(&request.ip, &request.host).await.unwrap_or_default();
            let argument = RegisterRequest { rack, ..request }.encode_to_vec().into();
            match own.register_on_rack(Incoming { argument, ..call }) {
                Answer::Now(outcome) => outcome,
                Answer::Later(outcome) => outcome.await,
            }
        }))
    }

    /// Registers a DataNode on the rack that it names, or on the default one.
    fn register_on_rack(&self, call: Incoming) -> Answer {
        let (ip, argument) = (Arc::clone(&call.ip), call.argument.clone());
        let answer = self.decide(call, true);
        let refusal = match &answer {
            Answer::Now(Err(refusal)) => Some(refusal),
            Answer::Now(Ok(_)) | Answer::Later(_) => None,
        };
        self.note_registration(&ip, argument, refusal);
        answer
    }

    /// Decides a call that needs DataNodes, once they are there if they may be soon.
    fn decide_with_datanodes(&self, call: Incoming) -> Answer {
        match self.decide(call.clone(), false) {
            Answer::Now(outcome) if self.is_to_wait(&outcome) => {
                Answer::Later(Box::pin(self.clone().decide_later(call)))
            }
            answer => answer,
        }
    }

    /// Decides a call once its DataNodes are there, for as long as they may be on their way to a NameNode that has just started.
    async fn decide_later(self, call: Incoming) -> Outcome {
        loop {
            tokio::time::sleep(DATANODES_TRIED_AGAIN).await;
            let outcome = match self.decide(call.clone(), false) {
                Answer::Now(outcome) => outcome,
                Answer::Later(outcome) => outcome.await,
            };
            if !self.is_to_wait(&outcome) {
                return outcome;
            }
        }
    }

    /// True for a call that finds too few DataNodes because the NameNode has only just started.
    fn is_to_wait(&self, outcome: &Outcome) -> bool {
        outcome.as_ref().is_err_and(|refusal| refusal.exception == Exception::TooFewDatanodes)
            && self.decisions.lock().state.awaits_datanodes(self.clock.now().steady_ms)
    }

    /// Looks at the clock, and begins an image if the journal has grown enough.
    pub fn tick(&self) {
        let now = self.clock.now();
        let mut decisions = self.decisions.lock();
        let Decisions { state, random, .. } = &mut *decisions;
        let before = state.sequence();
        state.tick(now, random);
        if state.sequence() == before {
            decisions.charge_tables();
        } else {
            self.keep_in_background(&mut decisions);
        }
        if decisions.journal.wants_snapshot() {
            // One that an operator has asked for does as well.
            drop(self.begin_image(&mut decisions));
        }
    }

    /// Begins an image; none if one is being written.
    fn begin_image(&self, decisions: &mut Decisions) -> Option<JoinHandle<()>> {
        if self.writes_image.swap(true, Ordering::SeqCst) {
            return None;
        }
        // All records so far are in the image, and the journal has them.
        let (_, kept) = decisions.keep();
        let image = decisions.state.image();
        let snapshot = decisions.journal.begin_snapshot();
        drop(kept);
        info!(inodes = image.inodes(), "writing an image");
        let writes_image = Arc::clone(&self.writes_image);
        Some(tokio::task::spawn_blocking(move || {
            must_not_panic("NameNode", "image", || snapshot.write(image.records()));
            writes_image.store(false, Ordering::SeqCst);
        }))
    }

    fn caller(&self, call: &Incoming) -> User {
        let is_superuser = self.decisions.lock().state.is_superuser(&call.user, &call.groups);
        User { name: call.user.to_string(), groups: call.groups.to_vec(), is_superuser }
    }

    /// Reads the files that name hosts again (`hdfs dfsadmin -refreshNodes`). If one cannot be read, all stays as it was. Racks are asked
    /// for again when DataNodes register.
    fn refresh_nodes(&self, call: &Incoming) -> Answer {
        if let Err(refusal) = self.caller(call).check_superuser("refreshNodes") {
            return Answer::Now(Err(refusal));
        }
        let own = self.clone();
        Answer::Later(Box::pin(async move {
            let hosts = own.hosts.read().await;
            let hosts = hosts.map_err(|error| Refusal::new(Exception::Io, error.to_string()))?;
            own.racks.forget_all();
            own.decisions.lock().state.set_hosts(hosts, own.clock.now());
            Ok(Vec::new())
        }))
    }

    /// Writes an image (`hdfs dfsadmin -saveNamespace`), and answers when it is on disk.
    fn save_namespace(&self, call: &Incoming) -> Answer {
        let user = self.caller(call);
        let mut decisions = self.decisions.lock();
        if let Err(refusal) = decisions.state.check_may_save(&user) {
            return Answer::Now(Err(refusal));
        }
        let Some(image) = self.begin_image(&mut decisions) else {
            let message = "an image is being written already: try again when it is there";
            return Answer::Now(Err(Refusal::new(Exception::Io, message)));
        };
        drop(decisions);
        let decisions = Arc::clone(&self.decisions);
        Answer::Later(Box::pin(async move {
            let has_ended = image.await.is_ok();
            if !has_ended || decisions.lock().journal.failed_snapshots() > 0 {
                let message = "the image could not be written: the NameNode's log says why";
                return Err(Refusal::new(Exception::Io, message));
            }
            Ok(SaveNamespaceResponse { saved: Some(true) }.encode_to_vec())
        }))
    }

    /// Has the journal go on in a new file (`hdfs dfsadmin -rollEdits`), and answers with the number of its first record when those before are
    /// on disk.
    fn roll_edits(&self, call: &Incoming) -> Answer {
        let user = self.caller(call);
        let mut decisions = self.decisions.lock();
        if let Err(refusal) = decisions.state.check_may_roll(&user, self.clock.now()) {
            return Answer::Now(Err(refusal));
        }
        // What was decided before is in the files before.
        drop(decisions.keep());
        let begun = decisions.journal.begin_segment();
        drop(decisions);
        Answer::Later(Box::pin(async move {
            let first = begun.await.map_err(|error| {
                Refusal::new(Exception::Io, format!("the journal goes on in the file that it had: {error}"))
            })?;
            Ok(RollEditsResponse { new_segment_txid: first }.encode_to_vec())
        }))
    }

    /// Writes what is being mended to a file of the NameNode's machine (`hdfs dfsadmin -metasave`).
    fn metasave(&self, call: &Incoming) -> Answer {
        let request = match MetaSaveRequest::decode(call.argument.clone()) {
            Ok(request) => request,
            Err(error) => {
                return Answer::Now(Err(Refusal::new(Exception::HadoopIllegalArgument, error.to_string())));
            }
        };
        let name = request.filename;
        if let Err(refusal) = self.caller(call).check_superuser("metaSave") {
            return Answer::Now(Err(refusal));
        }
        let is_name = !name.is_empty() && name.len() <= FILE_NAME_BYTES_MAX && !name.starts_with('.');
        if !is_name || name.contains(['/', '\0']) {
            let message = format!("'{name:.100}' is no name of a file in the folder for reports");
            return Answer::Now(Err(Refusal::new(Exception::HadoopIllegalArgument, message)));
        }
        let text = self.read(|state| state.metasave(self.clock.now()));
        let folder = Arc::clone(&self.reports);
        Answer::Later(Box::pin(async move {
            let path = folder.join(name);
            let written = async {
                tokio::fs::create_dir_all(&*folder).await?;
                tokio::fs::write(&path, text).await
            };
            match written.await {
                Ok(()) => Ok(Vec::new()),
                Err(error) => {
                    let message = format!("cannot write '{}': {error}", path.display());
                    Err(Refusal::new(Exception::Io, message))
                }
            }
        }))
    }

    /// Gives the journal what was decided without a call.
    fn keep_in_background(&self, decisions: &mut Decisions) {
        let (sequence, kept) = decisions.keep();
        let decisions = Arc::clone(&self.decisions);
        tokio::spawn(async move {
            match kept.await {
                Ok(()) => decisions.lock().state.note_synced(sequence),
                Err(error) => debug!(%error, "a change could not be kept"),
            }
        });
    }

    /// Asks a method of the client's protocol that only reads, as somebody who may do everything.
    ///
    /// # Errors
    /// What a client would get to know.
    pub fn ask<R: Message + Default>(&self, method: &str, argument: &impl Message) -> Result<R, Refusal> {
        self.ask_as(&User { name: String::new(), groups: Vec::new(), is_superuser: true }, method, argument)
    }

    /// As [`ask`](Self::ask), as a user with their permissions.
    ///
    /// # Errors
    /// What a client of this user would get to know.
    pub fn ask_as<R: Message + Default>(
        &self,
        user: &User,
        method: &str,
        argument: &impl Message,
    ) -> Result<R, Refusal> {
        let now = self.clock.now();
        let mut decisions = self.decisions.lock();
        let Decisions { state, random, .. } = &mut *decisions;
        let mut context = Context { now, user, caller: None, ip: None, random };
        let before = state.sequence();
        let answer = state.call(&mut context, method, argument.encode_to_vec().into())?;
        assert_eq!(state.sequence(), before, "{method} changes nothing");
        R::decode(&*answer).map_err(|error| Refusal::new(Exception::Io, error.to_string()))
    }

    /// Makes a change by a method of the client's protocol, as a user with their permissions. It is on disk a moment later.
    ///
    /// # Errors
    /// What a client of this user would get to know.
    pub fn change_as(&self, user: &User, method: &str, argument: &impl Message) -> Result<(), Refusal> {
        let now = self.clock.now();
        let mut decisions = self.decisions.lock();
        let Decisions { state, random, .. } = &mut *decisions;
        let mut context = Context { now, user, caller: None, ip: None, random };
        let before = state.sequence();
        state.call(&mut context, method, argument.encode_to_vec().into())?;
        if state.sequence() > before {
            self.keep_in_background(&mut decisions);
        }
        Ok(())
    }

    /// Has somebody look at the state.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.decisions.lock().state)
    }

    /// The time.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Answers a balancer. What it is told changes nothing.
    fn answer_balancer(&self, call: Incoming) -> Outcome {
        let user = self.caller(&call);
        let mut decisions = self.decisions.lock();
        let Decisions { state, random, .. } = &mut *decisions;
        let now = self.clock.now();
        let mut context = Context { now, user: &user, caller: None, ip: Some(&call.ip), random };
        state.balancer_call(&mut context, &call.method, call.argument)
    }

    fn decide(&self, call: Incoming, is_ours: bool) -> Answer {
        let now = self.clock.now();
        let mut decisions = self.decisions.lock();
        let Decisions { state, random, .. } = &mut *decisions;
        let user = User {
            name: call.user.to_string(),
            groups: call.groups.to_vec(),
            is_superuser: state.is_superuser(&call.user, &call.groups),
        };
        let mut context = Context { now, user: &user, caller: call.caller, ip: Some(&call.ip), random };
        let before = state.sequence();
        let outcome = if is_ours {
            state.cluster_call(&mut context, &call.method, call.argument)
        } else {
            state.call(&mut context, &call.method, call.argument)
        };
        // A repeated answer, and one that says that all is as it should be already, may depend on records that are on their
        // way.
        let may_depend = !is_ours && matches!(kind_of(&call.method), Some(Kind::Write | Kind::Once));
        if state.sequence() == before && (outcome.is_err() || !may_depend) {
            return Answer::Now(outcome);
        }
        let (sequence, kept) = decisions.keep();
        drop(decisions);
        let decisions = Arc::clone(&self.decisions);
        Answer::Later(Box::pin(async move {
            match kept.await {
                Ok(()) => {
                    decisions.lock().state.note_synced(sequence);
                    outcome
                }
                Err(error) => {
                    // The journal has logged it, once for all changes.
                    debug!(%error, "a change could not be kept");
                    Err(Refusal::new(Exception::Io, format!("the change may not have been kept: {error}")))
                }
            }
        }))
    }
}

impl Calls for Service {
    fn call(&self, call: Incoming) -> Answer {
        match call.protocol.as_str() {
            protocol::USER_MAPPINGS => return self.groups_of_user(&call),
            protocol::REFRESH_USER_MAPPINGS => return Answer::Now(self.refresh_groups(&call)),
            _ => {}
        }
        let is_ours = call.protocol == protocol::CLUSTER;
        match check_protocol(&call, is_ours) {
            Ok(()) => {}
            Err(refusal) => return Answer::Now(Err(refusal)),
        }
        match call.method.as_str() {
            _ if call.protocol == protocol::NAMENODE => Answer::Now(self.answer_balancer(call)),
            "register" if is_ours => self.register(call),
            "addBlock" | "getAdditionalDatanode" | "getBlockLocations" if !is_ours => {
                self.decide_with_datanodes(call)
            }
            "metaSave" if !is_ours => self.metasave(&call),
            "refreshNodes" if !is_ours => self.refresh_nodes(&call),
            "rollEdits" if !is_ours => self.roll_edits(&call),
            "saveNamespace" if !is_ours => self.save_namespace(&call),
            _ => self.decide(call, is_ours),
        }
    }
}

fn check_protocol(call: &Incoming, is_ours: bool) -> Result<(), Refusal> {
    if !is_ours && ![protocol::CLIENT, protocol::NAMENODE].contains(&call.protocol.as_str()) {
        return Err(Refusal::of_protocol(&call.protocol, &call.method));
    }
    if call.version != protocol::VERSION {
        let message =
            format!("{} has version 1 here, and the client speaks version {}", call.protocol, call.version);
        return Err(Refusal::new(Exception::VersionMismatch, message));
    }
    Ok(())
}
