//! An object store that fails, loses answers and hangs when a test says so.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::pending;
use futures::stream::{BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// Request to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Put,
    Get,
    List,
    Remove,
    BeginParts,
    Part,
    Complete,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Answered,
    /// It is not carried out, and fails.
    Fails,
    /// It is carried out, and the answer is lost.
    LosesAnswer,
    /// It is carried out, its answer is lost, and the client sends it again by itself.
    IsSentTwice,
    /// It is carried out, and never answered.
    Hangs,
    /// It is refused for want of rights.
    IsDenied,
    /// Nobody knows such a request.
    IsUnknown,
    /// Disregard of its condition.
    IsUnconditional,
}

type Decide = Box<dyn FnMut(Request, &Path) -> Fate + Send>;

/// A store in memory, whose requests meet the fate that is decided for each.
pub struct FlakyStore {
    inner: Arc<InMemory>,
    decide: Arc<Mutex<Decide>>,
}

impl FlakyStore {
    pub fn new(decide: impl FnMut(Request, &Path) -> Fate + Send + 'static) -> Arc<Self> {
        Self::over(Arc::new(InMemory::new()), decide)
    }

    pub fn over(
        inner: Arc<InMemory>,
        decide: impl FnMut(Request, &Path) -> Fate + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { inner, decide: Arc::new(Mutex::new(Box::new(decide))) })
    }

    fn fate(&self, request: Request, path: &Path) -> Fate {
        (self.decide.lock().unwrap())(request, path)
    }
}

fn failed(text: &'static str) -> Error {
    Error::Generic { store: "flaky", source: text.into() }
}

/// The answer that comes of a request's own.
async fn met<T>(fate: Fate, answer: impl Future<Output = Result<T>>) -> Result<T> {
    match fate {
        Fate::Answered | Fate::IsSentTwice | Fate::IsUnconditional => answer.await,
        Fate::Fails => Err(failed("it fails")),
        Fate::LosesAnswer => {
            let _ = answer.await;
            Err(failed("the connection was closed"))
        }
        Fate::Hangs => {
            let _ = answer.await;
            pending().await
        }
        Fate::IsDenied => Err(Error::PermissionDenied { path: "x".to_owned(), source: "no".into() }),
        Fate::IsUnknown => {
            Err(Error::NotImplemented { operation: "put".to_owned(), implementer: "flaky".to_owned() })
        }
    }
}

#[async_trait]
impl ObjectStore for FlakyStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let fate = self.fate(Request::Put, path);
        let mut options = options;
        match (fate, &options.mode) {
            (Fate::IsUnconditional, _) => options.mode = PutMode::Overwrite,
            (Fate::IsSentTwice, PutMode::Create) => {
                self.inner.put_opts(path, payload.clone(), options.clone()).await?;
            }
            _ => {}
        }
        met(fate, self.inner.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let fate = self.fate(Request::BeginParts, path);
        let inner = met(fate, self.inner.put_multipart_opts(path, options)).await?;
        Ok(Box::new(FlakyUpload { inner, path: path.clone(), decide: Arc::clone(&self.decide) }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        met(self.fate(Request::Get, path), self.inner.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, decide) = (Arc::clone(&self.inner), Arc::clone(&self.decide));
        let remove = move |path: Result<Path>| {
            let (inner, decide) = (Arc::clone(&inner), Arc::clone(&decide));
            async move {
                let path = path?;
                let fate = (decide.lock().unwrap())(Request::Remove, &path);
                let mut gone = inner.delete_stream(futures::stream::iter([Ok(path)]).boxed());
                met(fate, async move { gone.next().await.unwrap() }).await
            }
        };
        paths.then(remove).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let fate = self.fate(Request::List, prefix.unwrap_or(&Path::default()));
        met(fate, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        panic!("nothing is copied")
    }
}

struct FlakyUpload {
    inner: Box<dyn MultipartUpload>,
    path: Path,
    decide: Arc<Mutex<Decide>>,
}

impl fmt::Debug for FlakyUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlakyUpload").finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for FlakyUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let fate = (self.decide.lock().unwrap())(Request::Part, &self.path);
        let sent = self.inner.put_part(payload);
        Box::pin(met(fate, sent))
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fate = (self.decide.lock().unwrap())(Request::Complete, &self.path);
        met(fate, self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

impl fmt::Debug for FlakyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlakyStore").finish_non_exhaustive()
    }
}

impl fmt::Display for FlakyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FlakyStore")
    }
}
