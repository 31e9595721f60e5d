use std::ops::Range;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use hdfs_native::client::{FileStatus as Found, IORuntime};
use hdfs_native::file::{FileReader, FileWriter};
use hdfs_native::{ClientBuilder, HdfsError, WriteOptions};
use prost::Message;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::options::authority_of;
use super::refused::of_data;
use super::{Options, RemotePath, Status, Summary};
use crate::error::{Error, Kind, Result};
use crate::rpc::{Client, process_user};
use crate::wire::proto::namenode::{
    BoolResponse, ContentSummaryResponse, DeleteRequest, Empty, FileInfoResponse, ListingRequest,
    ListingResponse, MkdirsRequest, PathRequest, RenameRequest, ServerDefaults, ServerDefaultsResponse,
    SetOwnerRequest, SetPermissionRequest, SetTimesRequest,
};
use crate::wire::proto::shared::Permission;
use crate::wire::protocol;

/// How long bytes of a file may be on their way without one that arrives: longer than a client waits for a DataNode that
/// hangs before it takes another one (60 s).
const STALLED_MAX: Duration = Duration::from_secs(150);

/// A connection to a file system, as one user.
pub struct FileSystem {
    calls: Mutex<Client>,
    data: hdfs_native::Client,
    address: String,
    user: String,
    options: Options,
    /// Path of a file that is being written and is not to stay if that is given up.
    unfinished: std::sync::Mutex<Option<String>>,
}

/// What a new file is like.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewFile {
    /// Bits of owner, group and others.
    pub mode: u16,
    /// A file of that name is replaced.
    pub may_replace: bool,
}

impl FileSystem {
    /// Connects to the NameNode that `path` names, or else the options.
    ///
    /// # Errors
    /// Nothing names a NameNode, or it cannot be reached.
    pub async fn connect(options: Options, path: Option<&RemotePath>) -> Result<Self> {
        let named = path.and_then(RemotePath::authority).map(str::to_owned);
        let address = match (named, &options.default_fs) {
            (Some(address), _) => address,
            (None, Some(default)) => authority_of(default)?,
            (None, None) => {
                let hint = "give --fs hdfs://HOST:PORT, or a path that begins so, or --conf with a core-site.xml \
                            that has fs.defaultFS";
                return Err(Error::new(Kind::Invalid, "nothing names a NameNode").with_hint(hint));
            }
        };
        let user = Self::user_of_process().await;
        let client_id = std::array::from_fn(|_| fastrand::u8(..));
        let calls = Client::connect(&address, &user, protocol::CLIENT, client_id).await?;
        let data = ClientBuilder::new()
            .with_url(format!("hdfs://{address}"))
            .with_io_runtime(IORuntime::Handle(tokio::runtime::Handle::current()))
            .build()
            .map_err(|error| of_data(&address, error))?;
        Ok(Self { calls: Mutex::new(calls), data, address, user, options, unfinished: Default::default() })
    }

    /// The user as whom this process acts: `HADOOP_USER_NAME`, or the one whose process it is.
    pub async fn user_of_process() -> String {
        match std::env::var("HADOOP_USER_NAME") {
            Ok(name) if !name.is_empty() => name,
            _ => process_user().await,
        }
    }

    /// The user as whom everything is done.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// `host:port` of the NameNode.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it was connected with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Calls a method of the NameNode.
    pub(super) async fn call<R: Message + Default>(
        &self,
        method: &str,
        argument: &impl Message,
    ) -> Result<R> {
        Ok(self.calls.lock().await.call(method, argument).await?)
    }

    /// A path as a person gives it, which is on this file system.
    ///
    /// # Errors
    /// `Invalid` for a path of another NameNode, or of something else.
    pub fn path(&self, text: &str) -> Result<RemotePath> {
        let path = RemotePath::parse(text, &self.user)?;
        match path.authority() {
            Some(other) if other != self.address => {
                let message = format!("'{text:.100}' is of another NameNode than {}", self.address);
                Err(Error::new(Kind::Invalid, message).with_hint("one command works on one file system"))
            }
            _ => Ok(path),
        }
    }

    /// The attributes of a path; none if there is nothing.
    ///
    /// # Errors
    /// What the NameNode says.
    pub async fn find(&self, path: &str) -> Result<Option<Status>> {
        let answer: FileInfoResponse =
            self.call("getFileInfo", &PathRequest { src: path.to_owned() }).await?;
        Ok(answer.status.map(|status| Status::from_wire(path, status)))
    }

    /// The attributes of a path.
    ///
    /// # Errors
    /// `NotFound` if there is nothing.
    pub async fn status(&self, path: &str) -> Result<Status> {
        self.find(path).await?.ok_or_else(|| missing(path))
    }

    /// What a path stands for, sorted: itself, or, if it is a pattern, all that it matches.
    ///
    /// # Errors
    /// `NotFound` if there is nothing.
    pub async fn expand(&self, path: &RemotePath) -> Result<Vec<Status>> {
        if !path.is_pattern() {
            return Ok(vec![self.status(path.as_str()).await?]);
        }
        let matched = self.data.glob_status(path.as_str()).await;
        let mut matched: Vec<Found> = matched.map_err(|error| of_data(path.as_str(), error))?;
        matched.sort_by(|left, right| left.path.cmp(&right.path));
        let mut found = Vec::new();
        for Found { path, .. } in matched {
            // It may have gone meanwhile.
            found.extend(self.find(&path).await?);
        }
        if found.is_empty() { Err(missing(path.as_str())) } else { Ok(found) }
    }

    /// The entries of a directory in the order of their names' bytes; a file is its own only entry.
    ///
    /// # Errors
    /// `NotFound` if there is nothing.
    pub async fn list(&self, path: &str) -> Result<Vec<Status>> {
        let (mut found, mut start_after) = (Vec::new(), Bytes::new());
        loop {
            let request = ListingRequest {
                src: path.to_owned(),
                start_after: start_after.clone(),
                need_location: false,
            };
            let answer: ListingResponse = self.call("getListing", &request).await?;
            let Some(page) = answer.listing else { return Err(missing(path)) };
            let last = page.entries.last().map(|entry| Bytes::copy_from_slice(&entry.path));
            found.extend(page.entries.into_iter().map(|entry| Status::from_wire(path, entry)));
            match last {
                Some(last) if page.remaining > 0 => start_after = last,
                _ => return Ok(found),
            }
        }
    }

    /// Makes a directory, and those above it if `with_parents`.
    ///
    /// # Errors
    /// The directory above is missing or a file, or there is a file of that name.
    pub async fn make_directory(&self, path: &str, with_parents: bool) -> Result<()> {
        let mode = u32::from(0o777 & !self.options.umask);
        let request = MkdirsRequest {
            src: path.to_owned(),
            masked: Permission { mode },
            create_parent: with_parents,
            unmasked: Some(Permission { mode: 0o777 }),
        };
        let _: BoolResponse = self.call("mkdirs", &request).await?;
        Ok(())
    }

    /// Gives a file or directory another path. `may_replace` lets it take the place of a file or an empty directory.
    ///
    /// # Errors
    /// The source is missing, or the target exists and may not be replaced.
    pub async fn rename(&self, from: &str, to: &str, may_replace: bool) -> Result<()> {
        let request = RenameRequest {
            src: from.to_owned(),
            dst: to.to_owned(),
            overwrite: Some(may_replace),
            move_to_trash: Some(false),
        };
        let _: Empty = self.call("rename2", &request).await?;
        Ok(())
    }

    /// Deletes a file or directory; false if there was nothing.
    ///
    /// # Errors
    /// A directory is not empty, and `recursive` is false.
    pub async fn delete(&self, path: &str, recursive: bool) -> Result<bool> {
        let request = DeleteRequest { src: path.to_owned(), recursive };
        let answer: BoolResponse = self.call("delete", &request).await?;
        Ok(answer.result)
    }

    /// Totals of what is below a path.
    ///
    /// # Errors
    /// `NotFound` if there is nothing.
    pub async fn summary(&self, path: &str) -> Result<Summary> {
        let answer: ContentSummaryResponse =
            self.call("getContentSummary", &PathRequest { src: path.to_owned() }).await?;
        Ok(answer.summary.into())
    }

    /// What the NameNode has new files be like, and for how long it keeps what was removed.
    ///
    /// # Errors
    /// What the NameNode says.
    pub async fn defaults(&self) -> Result<ServerDefaults> {
        let answer: ServerDefaultsResponse = self.call("getServerDefaults", &Empty {}).await?;
        Ok(answer.defaults)
    }

    /// Gives a path the times, the mode, and, where the NameNode lets this user, the owner of something else.
    ///
    /// # Errors
    /// The path is missing or of somebody else.
    pub async fn set_attributes(&self, path: &str, like: &Status) -> Result<()> {
        let src = || path.to_owned();
        let (modified_ms, accessed_ms) = (like.modified_ms, like.accessed_ms);
        let times = SetTimesRequest { src: src(), modified_ms, accessed_ms };
        let _: Empty = self.call("setTimes", &times).await?;
        let permission = Permission { mode: like.mode.into() };
        let _: Empty = self.call("setPermission", &SetPermissionRequest { src: src(), permission }).await?;
        let owner = SetOwnerRequest {
            src: src(),
            owner: Some(like.owner.clone()).filter(|owner| !owner.is_empty()),
            group: Some(like.group.clone()).filter(|group| !group.is_empty()),
        };
        if owner.owner.is_some() || owner.group.is_some() {
            let _: Empty = self.call("setOwner", &owner).await?;
        }
        Ok(())
    }

    /// Notes the file that is being written, which [`Self::remove_unfinished`] removes; none when it is complete.
    pub(crate) fn note_unfinished(&self, path: Option<&str>) {
        *self.unfinished.lock().unwrap_or_else(PoisonError::into_inner) = path.map(str::to_owned);
    }

    /// Removes what a copy that was given up has written.
    pub async fn remove_unfinished(&self) {
        let unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(path) = unfinished {
            // Who cannot remove it has said already why the copy failed.
            let _ = self.delete(&path, false).await;
        }
    }

    /// Begins a file.
    ///
    /// # Errors
    /// It exists and may not be replaced, or may not be made.
    pub async fn create(&self, path: &str, how: NewFile) -> Result<Writer> {
        let mut options = WriteOptions::default()
            .permission(u32::from(how.mode & !self.options.umask))
            .overwrite(how.may_replace)
            .create_parent(false);
        if let Some(replication) = self.options.replication {
            options = options.replication(replication.into());
        }
        if let Some(bytes) = self.options.block_size {
            options = options.block_size(bytes);
        }
        let writer = moving(path, self.data.create(path, options)).await?;
        Ok(Writer { path: path.to_owned(), writer })
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// It is missing, or may not be read.
    pub async fn open(&self, path: &str) -> Result<Reader> {
        let reader = moving(path, self.data.read(path)).await?;
        Ok(Reader { path: path.to_owned(), reader })
    }
}

/// A file that is being written.
pub struct Writer {
    path: String,
    writer: FileWriter,
}

impl Writer {
    /// Appends bytes.
    ///
    /// # Errors
    /// They cannot be kept, or nothing moves.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        moving(&self.path, self.writer.write(bytes)).await.map(drop)
    }

    /// Completes the file.
    ///
    /// # Errors
    /// What was written is not all kept.
    pub async fn close(mut self) -> Result<()> {
        moving(&self.path, self.writer.close()).await
    }
}

/// A file that is being read.
pub struct Reader {
    path: String,
    reader: FileReader,
}

impl Reader {
    /// Hands all bytes of the file to `take`, piece by piece.
    ///
    /// # Errors
    /// They cannot be read, nothing moves, or what `take` says.
    pub async fn read_all(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let length = self.reader.file_length() as u64;
        let mut pieces = self.pieces(0..length);
        while let Some(piece) = pieces.next().await {
            take(&piece?)?;
        }
        Ok(length)
    }

    /// The bytes of a part of the file, which is within its length, piece by piece. An error ends it: the part cannot be read, nothing
    /// moves, or it is shorter.
    pub(crate) fn pieces(&self, part: Range<u64>) -> BoxStream<'_, Result<Bytes>> {
        let length = part.end - part.start;
        let pieces = self.reader.read_range_stream(part.start as usize, length as usize);
        let begun = Some((Box::pin(pieces), 0));
        Box::pin(stream::unfold(begun, move |state| async move {
            let (mut pieces, bytes) = state?;
            let next = match timeout(STALLED_MAX, pieces.next()).await {
                Ok(Some(piece)) => piece.map_err(|error| of_data(&self.path, error)),
                Ok(None) if bytes == length => return None,
                Ok(None) => {
                    let message = format!("{}: {bytes} of {length} bytes were read", self.path);
                    Err(Error::new(Kind::DataLoss, message))
                }
                Err(_) => Err(stalled(&self.path)),
            };
            let rest = next.as_ref().ok().map(|piece: &Bytes| piece.len() as u64);
            let rest = rest.map(|more| (pieces, bytes + more));
            Some((next, rest))
        }))
    }
}

/// Waits for something of a file that must get on.
async fn moving<T>(path: &str, work: impl Future<Output = Result<T, HdfsError>>) -> Result<T> {
    let done = timeout(STALLED_MAX, work).await.map_err(|_| stalled(path))?;
    done.map_err(|error| of_data(path, error))
}

fn stalled(path: &str) -> Error {
    let message = format!("{path}: no byte has moved for {} seconds", STALLED_MAX.as_secs());
    Error::new(Kind::Unavailable, message)
}

fn missing(path: &str) -> Error {
    Error::new(Kind::NotFound, format!("{path}: no such file or directory"))
}
