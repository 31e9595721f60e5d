//! Copies to `/lost+found` what can be read of files that cannot be read whole (`hdfs fsck -move`).

use std::time::Duration;

use futures::StreamExt;
use tokio::sync::Semaphore;
use tracing::{info, warn};

use super::state::LostFile;
use crate::client::{FileSystem, NewFile, Options, Reader, Writer};
use crate::error::{Error, Kind, Result};
use crate::memory::{Memory, Party};

/// The directory that has the remains of each file in a directory with the file's path.
const LOST_AND_FOUND: &str = "/lost+found";
/// The directory in which the remains of one file are gathered. It gets their path when all are there.
const GATHERED: &str = "/lost+found/._COPYING_";
/// Bits of a mode that nothing new gets: the names below `/lost+found` are those of other users' directories.
const UMASK: u16 = 0o066;
/// Bytes of memory that a copy may take: a cell of each of sixteen units, and what its pipeline keeps.
const COPY_BYTES: u64 = 20 << 20;
/// How long a copy waits for that.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(60);

/// Keeps remains of files, those of one file at a time.
pub(super) struct LostAndFound {
    /// The NameNode's own address for clients.
    address: String,
    memory: Memory,
    turn: Semaphore,
}

impl LostAndFound {
    /// A keeper that is a client of the NameNode at this address.
    pub fn new(address: String, memory: Memory) -> Self {
        Self { address, memory, turn: Semaphore::new(1) }
    }

    /// Copies the readable blocks of a file. As in HDFS, those that follow one another are a file of their own: `0`, `1`, and so on, in
    /// the directory `/lost+found/PATH`. They have the owner and the mode of the file, which stays.
    ///
    /// # Errors
    /// `Conflict` if there are remains of a file of this path already; `DataLoss` if a block could not be read after all, when the others
    /// were copied; what the NameNode and DataNodes say.
    pub async fn keep(&self, file: &LostFile) -> Result<()> {
        let _turn = self.turn.acquire().await.expect("it is never closed");
        let charge = self.memory.acquire(&Party::server("fsck -move"), COPY_BYTES, MEMORY_WAIT_MAX).await;
        let _charge =
            charge.ok_or_else(|| Error::new(Kind::ResourceExhausted, "there is no memory for a copy"))?;
        let target = format!("{LOST_AND_FOUND}{}", file.path);
        let files = self.connect().await?;
        let like = files.status(&file.path).await?;
        if files.find(&target).await?.is_some() {
            let message = format!("'{target}' is there already");
            return Err(Error::new(Kind::Conflict, message).with_hint("move it away, and check again"));
        }
        files.delete(GATHERED, true).await?; // of a NameNode that ended meanwhile
        files.make_directory(GATHERED, true).await?;
        let Copied { pieces, unreadable } = copy(&files, file).await?;
        // Those calls were long ago.
        let files = self.connect().await?;
        for piece in 0..pieces {
            files.set_attributes(&format!("{GATHERED}/{piece}"), &like).await?;
        }
        // Who may read the file may go to its remains.
        let mode = like.mode | (like.mode & 0o444) >> 2;
        files.set_attributes(GATHERED, &crate::client::Status { mode, ..like }).await?;
        let (above, _) = target.rsplit_once('/').expect("it begins with one");
        files.make_directory(above, true).await?;
        files.rename(GATHERED, &target, false).await?;
        info!(path = file.path, pieces, "what is left of a file is in /lost+found");
        if unreadable > 0 {
            let message =
                format!("{unreadable} of its blocks could not be read; the others are in '{target}'");
            return Err(Error::new(Kind::DataLoss, message));
        }
        Ok(())
    }

    async fn connect(&self) -> Result<FileSystem> {
        let default_fs = Some(format!("hdfs://{}", self.address));
        FileSystem::connect(Options { default_fs, umask: UMASK, ..Options::default() }, None).await
    }
}

/// What became of a file's blocks.
struct Copied {
    /// Files that were made.
    pieces: usize,
    /// Blocks that were readable by what the NameNode knew, and were not.
    unreadable: usize,
}

/// Copies the readable blocks of a file to files in the directory where they are gathered.
async fn copy(files: &FileSystem, file: &LostFile) -> Result<Copied> {
    let mut copied = Copied { pieces: 0, unreadable: 0 };
    if file.readable.is_empty() {
        return Ok(copied);
    }
    let reader = files.open(&file.path).await?;
    let (mut open, mut end): (Option<Writer>, u64) = (None, 0);
    for block in &file.readable {
        if block.start != end
            && let Some(before) = open.take()
        {
            before.close().await?;
        }
        let mut writer = match open.take() {
            Some(writer) => writer,
            None => {
                let path = format!("{GATHERED}/{}", copied.pieces);
                copied.pieces += 1;
                files.create(&path, NewFile { mode: 0o600, may_replace: false }).await?
            }
        };
        match copy_block(&reader, block.clone(), &mut writer).await? {
            Ok(()) => open = Some(writer),
            Err(error) => {
                warn!(path = file.path, %error, "a block of a lost file cannot be copied");
                copied.unreadable += 1;
                writer.close().await?;
            }
        }
        end = block.end;
    }
    if let Some(last) = open {
        last.close().await?;
    }
    Ok(copied)
}

/// Copies a block: inside is why it cannot be read.
async fn copy_block(reader: &Reader, block: std::ops::Range<u64>, to: &mut Writer) -> Result<Result<()>> {
    let mut pieces = reader.pieces(block);
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => to.write(piece).await?,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(()))
}
