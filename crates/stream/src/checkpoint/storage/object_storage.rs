use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as ObjectPath;
use object_store::{GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig};
use tokio::runtime::{Builder, Runtime};
use url::Url;

use super::upload::Upload;
use super::{CheckpointAddress, Patience, Storage, Unfinished};
use crate::error::{Error, ErrorKind, Result};

/// Object by which it is tried whether the store creates one only if it is absent. It stays.
const CONDITION_PATH: &str = "yeoul/condition";
/// Content of that object.
const CONDITION_CONTENT: &[u8] =
    b"Created only if it is absent: a store that creates this twice cannot hold checkpoints.\n";
/// Epochs between two times at which old objects are looked for: each takes several listings.
const PRUNE_INTERVAL: u64 = 16;

/// A prefix of an object store. Requests that fail, and whose answers do not come, are sent again, within limits.
///
/// An object is created only if it is absent (`If-None-Match: *` of S3, a rename of HDFS that overwrites nothing); whether
/// the store does that is tried before a query is taken over. If the answer to such a request is lost, or says that an object is
/// there after a request before it was lost, the object is read, and its content tells whose it is.
#[derive(Clone)]
pub struct ObjectStorage {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) io: Arc<StoreRuntime>,
    pub(super) patience: Patience,
    prefix: ObjectPath,
    address: String,
}

/// Why a request came to nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// The store, or its client, says so.
    Answer(object_store::Error),
    /// There was no answer within this time. What was asked for may be done, or come to be.
    Silence(Duration),
}

impl ObjectStorage {
    /// The prefix of an address, in the store that it names.
    ///
    /// # Errors
    /// As [`yeoul_stores::open_with`]; `Invalid` for a path that no object can have.
    pub fn open(url: &Url, patience: Patience) -> Result<Self> {
        let io = StoreRuntime::start()?;
        let store = {
            // Clients have tasks of their own.
            let _entered = io.runtime().enter();
            yeoul_stores::open_with(url, retries())?
        };
        let prefix = ObjectPath::from_url_path(url.path()).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("'{url}' is no path of objects")).with_source(error)
        })?;
        let address = CheckpointAddress::Store(url.clone()).to_string();
        Ok(Self { store, io, patience, prefix, address })
    }

    /// A prefix of a store, which errors name by its address.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: ObjectPath,
        address: String,
        patience: Patience,
    ) -> Result<Self> {
        Ok(Self { store, io: StoreRuntime::start()?, patience, prefix, address })
    }

    pub(super) fn path(&self, path: &str) -> ObjectPath {
        path.split('/').filter(|part| !part.is_empty()).fold(self.prefix.clone(), |at, part| at.join(part))
    }

    /// Sends a request until it succeeds, or will not.
    pub(super) fn request<T, F>(&self, verb: &str, path: &str, send: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut pauses = self.patience.pauses();
        loop {
            let failure = match self.io.run(send()) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            match pauses.next() {
                Some(pause) if failure.may_pass() => thread::sleep(pause),
                _ => return Err(self.error(verb, path, failure)),
            }
        }
    }

    /// Waits for an answer, but not for ever.
    pub(super) async fn within<T>(
        &self,
        answer: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        within(self.patience.answer, answer).await
    }

    /// Sends one request to create an object.
    fn put_absent(&self, path: &str, bytes: &Bytes) -> Result<(), Failure> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let (path, payload) = (self.path(path), PutPayload::from_bytes(bytes.clone()));
        let put = self.within(self.store.put_opts(&path, payload, options));
        self.io.run(put).map(drop)
    }

    pub(super) fn error(&self, verb: &str, path: &str, failure: Failure) -> Error {
        use object_store::Error as Store;
        let name = self.display(path);
        let failure = match failure {
            Failure::Silence(time) => {
                let text = format!("cannot {verb} '{name}': no answer within {} s", time.as_secs_f64());
                return Error::new(ErrorKind::Unavailable, text).with_hint(GO_ON);
            }
            Failure::Answer(error) => error,
        };
        let (kind, hint) = match &failure {
            Store::NotFound { .. } => {
                (ErrorKind::NotFound, "the bucket or directory of --checkpoint has to be there")
            }
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
                (ErrorKind::Denied, "a checkpoint needs the rights to read, write, list and remove there")
            }
            Store::NotImplemented { .. } | Store::NotSupported { .. } | Store::InvalidPath { .. } => {
                (ErrorKind::Invalid, "name another place with --checkpoint")
            }
            _ => (ErrorKind::Unavailable, GO_ON),
        };
        Error::new(kind, format!("cannot {verb} '{name}': {failure}")).with_hint(hint).with_source(failure)
    }

    /// The error of a store that would let two processes have one query.
    fn unconditional(&self, why: &str) -> Error {
        let text = format!("'{}' cannot hold checkpoints: {why}", self.display(""));
        Error::new(ErrorKind::Invalid, text).with_hint(
            "without that two processes could have the query at the same time; name a store that has it (S3 and HDFS do), or a directory",
        )
    }
}

/// Times that the store's client sends a request again by itself, some seconds long: parts of a large object are sent again by it alone,
/// and [`Patience`] has the rest.
fn retries() -> RetryConfig {
    RetryConfig { max_retries: 4, retry_timeout: Duration::from_secs(60), ..RetryConfig::default() }
}

/// Advice for a store that cannot be reached.
const GO_ON: &str = "try again once the store answers: a query goes on from its last checkpoint";

impl Failure {
    /// True if another try may succeed.
    fn may_pass(&self) -> bool {
        use object_store::Error as Store;
        matches!(self, Self::Silence(_) | Self::Answer(Store::Generic { .. } | Store::JoinError { .. }))
    }

    /// True if the store says that there is such an object.
    fn is_there(&self) -> bool {
        use object_store::Error as Store;
        matches!(
            self,
            Self::Answer(
                Store::AlreadyExists { .. } | Store::Precondition { .. } | Store::NotModified { .. }
            )
        )
    }

    fn is_not_found(&self) -> bool {
        matches!(self, Self::Answer(object_store::Error::NotFound { .. }))
    }

    fn is_unknown_request(&self) -> bool {
        use object_store::Error as Store;
        matches!(self, Self::Answer(Store::NotImplemented { .. } | Store::NotSupported { .. }))
    }
}

pub(super) async fn within<T>(
    time: Duration,
    answer: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(time, answer).await {
        Ok(answer) => answer.map_err(Failure::Answer),
        Err(_) => Err(Failure::Silence(time)),
    }
}

impl Storage for ObjectStorage {
    fn child(&self, name: &str) -> Arc<dyn Storage> {
        let prefix = self.prefix.clone().join(name);
        Arc::new(Self { prefix, address: format!("{}/{name}", self.address), ..self.clone() })
    }

    fn name(&self) -> String {
        self.prefix.filename().unwrap_or_default().to_owned()
    }

    fn display(&self, path: &str) -> String {
        if path.is_empty() { self.address.clone() } else { format!("{}/{path}", self.address) }
    }

    fn prepare(&self, _: &[&str]) -> Result<()> {
        let bytes = Bytes::from_static(CONDITION_CONTENT);
        let (mut pauses, mut created) = (self.patience.at_first().pauses(), 0);
        loop {
            match self.put_absent(CONDITION_PATH, &bytes) {
                Ok(()) if created == 0 => created = 1,
                Ok(()) => {
                    return Err(self.unconditional("it creates an object that is there already once more"));
                }
                Err(failure) if failure.is_there() => return Ok(()),
                Err(failure) if failure.is_unknown_request() => {
                    return Err(self.unconditional("it does not create an object only if it is absent"));
                }
                Err(failure) => match pauses.next() {
                    Some(pause) if failure.may_pass() => thread::sleep(pause),
                    _ => return Err(self.error("create", CONDITION_PATH, failure)),
                },
            }
        }
    }

    fn make_folder(&self) -> Result<()> {
        // Objects come with theirs.
        Ok(())
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let object = self.path(path);
        let read = || async {
            match self.within(self.store.get(&object)).await {
                Ok(found) => self.content(found).await.map(Some),
                Err(failure) if failure.is_not_found() => Ok(None),
                Err(failure) => Err(failure),
            }
        };
        self.request("read", path, read)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = self.path(folder);
        let list = || self.within(self.store.list_with_delimiter(Some(&prefix)));
        let found = self.request("list", folder, list)?;
        let names = found.objects.iter().filter_map(|object| object.location.filename().map(str::to_owned));
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    fn folders(&self) -> Result<Vec<String>> {
        let list = || self.within(self.store.list_with_delimiter(Some(&self.prefix)));
        let found = self.request("list", "", list)?;
        let names = found.common_prefixes.iter().filter_map(|prefix| prefix.filename().map(str::to_owned));
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        let bytes = Bytes::copy_from_slice(bytes);
        let mut pauses = self.patience.pauses();
        loop {
            let failure = match self.put_absent(path, &bytes) {
                Ok(()) => return Ok(true),
                Err(failure) => failure,
            };
            if !failure.is_there() && !failure.may_pass() {
                return Err(self.error("create", path, failure));
            }
            // It may be there by a request of ours whose answer was lost: the client sends some again by itself.
            match self.read(path) {
                Ok(Some(found)) => return Ok(found == bytes),
                // Whoever created it has come further since, and removed it.
                Ok(None) if failure.is_there() => return Ok(false),
                Ok(None) | Err(_) => {}
            }
            match pauses.next() {
                Some(pause) => thread::sleep(pause),
                None => return Err(self.error("create", path, failure)),
            }
        }
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let (object, bytes) = (self.path(path), Bytes::copy_from_slice(bytes));
        let put = || self.within(self.store.put(&object, PutPayload::from_bytes(bytes.clone())));
        self.request("write", path, put).map(drop)
    }

    fn begin(&self, path: &str) -> Result<Box<dyn Unfinished>> {
        Ok(Box::new(Upload::new(self.clone(), path)))
    }

    fn remove(&self, folder: &str, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let folder_path = self.path(folder);
        let paths: Vec<ObjectPath> =
            names.iter().map(|name| folder_path.clone().join(name.as_str())).collect();
        let remove = || {
            let paths = futures::stream::iter(paths.clone().into_iter().map(Ok)).boxed();
            let gone = self.store.delete_stream(paths).map(|removed| match removed {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                removed => removed.map(drop),
            });
            self.within(gone.try_collect::<()>())
        };
        self.request("remove old objects from", folder, remove)
    }

    fn prune_interval(&self) -> u64 {
        PRUNE_INTERVAL
    }
}

impl ObjectStorage {
    async fn content(&self, found: GetResult) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let mut pieces = found.into_stream();
        // A large object takes its time, as long as there is more of it.
        while let Some(piece) = self.within(pieces.try_next()).await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

impl fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStorage").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The thread on which the clients of a store live; whoever asks waits.
pub(super) struct StoreRuntime(Option<Runtime>);

impl StoreRuntime {
    fn start() -> Result<Arc<Self>> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("stream-store").enable_all().build()?;
        Ok(Arc::new(Self(Some(runtime))))
    }

    pub fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    /// Waits for an answer.
    pub fn run<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime().block_on(answer)
    }
}

impl Drop for StoreRuntime {
    fn drop(&mut self) {
        // A request that hangs does not hold the process.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
