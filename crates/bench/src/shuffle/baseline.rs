//! What the machine does without us: bytes over loopback, bytes to and from the disk.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::fs::{Advice, fadvise};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use yeoul_base::{Error, ErrorKind, Result};

/// Bytes of a client's batch.
pub(super) const PIECE: usize = 64 << 10;
/// Bytes of a block on disk, as one would give to `dd`.
const BLOCK: usize = 1 << 20;
/// The most bytes of a worker's own small files in a directory without segments.
pub(super) const SMALL_FILES_BYTES: u64 = 4 << 10;

/// Copies pieces, `bytes` together, over one loopback connection, and returns the MiB a second.
pub(super) async fn tcp_copy(bytes: u64, pieces: impl Iterator<Item = Bytes>) -> Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let receiver = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        receive(&mut stream, bytes).await?;
        stream.write_u8(1).await
    });
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let started = Instant::now();
    for piece in pieces {
        stream.write_all(&piece).await?;
    }
    stream.read_u8().await?;
    let rate = rate(bytes, started);
    // It answered, so it has ended.
    let _ = receiver.await;
    Ok(rate)
}

/// Reads so many bytes, and drops them.
async fn receive(stream: &mut (impl AsyncRead + Unpin), bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    let mut received = 0;
    while received < bytes {
        match stream.read(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => received += len as u64,
        }
    }
    Ok(())
}

/// Writes a file and syncs it; returns the MiB a second.
pub(super) fn disk_write(path: &Path, bytes: u64) -> Result<f64> {
    let started = Instant::now();
    let mut file = File::create(path)?;
    // Not zeros: a file system or a disk below may treat those specially.
    let block: Vec<u8> = (0..BLOCK as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut left = bytes;
    while left > 0 {
        let len = left.min(BLOCK as u64) as usize;
        file.write_all(&block[..len])?;
        left -= len as u64;
    }
    file.sync_data()?;
    Ok(rate(bytes, started))
}

/// Reads a file; returns the MiB a second.
pub(super) fn disk_read(path: &Path) -> Result<f64> {
    let started = Instant::now();
    let mut file = File::open(path)?;
    let mut block = vec![0; BLOCK];
    let mut bytes = 0;
    loop {
        match file.read(&mut block)? {
            0 => return Ok(rate(bytes, started)),
            len => bytes += len as u64,
        }
    }
}

/// Drops what the kernel has cached of a file, or of all files below a directory.
pub(super) fn forget_cached(path: &Path) -> Result<()> {
    each_file(path, &mut |file| {
        file.sync_all()?;
        Ok(fadvise(file, 0, None, Advice::DontNeed)?)
    })
}

/// Syncs all files below a directory, and returns their bytes.
pub(super) fn sync_files(path: &Path) -> Result<u64> {
    let mut bytes = 0;
    each_file(path, &mut |file| {
        file.sync_data()?;
        bytes += file.metadata()?.len();
        Ok(())
    })?;
    Ok(bytes)
}

/// The bytes of all files below a directory.
pub(super) fn bytes_of_files(path: &Path) -> Result<u64> {
    let mut bytes = 0;
    each_file(path, &mut |file| {
        bytes += file.metadata()?.len();
        Ok(())
    })?;
    Ok(bytes)
}

/// Waits until all files below a directory are gone but for some small ones: deleting them takes disk time from what is
/// measured next.
///
/// # Errors
/// `Unavailable` if others are still there after `within`.
pub(super) async fn emptied(path: &Path, within: Duration) -> Result<()> {
    let deadline = Instant::now() + within;
    loop {
        let bytes = bytes_of_files(path)?;
        if bytes <= SMALL_FILES_BYTES {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let text = format!("{bytes} bytes are still in {} after {within:?}", path.display());
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A file, or all files below a directory. A running worker may delete some meanwhile.
fn each_file(path: &Path, work: &mut impl FnMut(&File) -> io::Result<()>) -> Result<()> {
    let done = if path.is_dir() {
        match fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries {
                    each_file(&entry?.path(), work)?;
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    } else {
        File::open(path).and_then(|file| work(&file))
    };
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// MiB a second since `started`.
pub(super) fn rate(bytes: u64, started: Instant) -> f64 {
    bytes as f64 / (1 << 20) as f64 / started.elapsed().as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sender_that_fails_ends_the_copy() {
        receive(&mut &b"abc"[..], 3).await.unwrap();
        let ended = receive(&mut &b"abc"[..], 4).await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn files_are_synced_however_deep_they_lie() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/deep"), [1; 100]).unwrap();
        fs::write(dir.path().join("a/near"), [2; 20]).unwrap();
        assert_eq!(sync_files(dir.path()).unwrap(), 120);
        assert_eq!(sync_files(&dir.path().join("a/near")).unwrap(), 20);
        assert_eq!(sync_files(&dir.path().join("deleted meanwhile")).unwrap(), 0);
    }

    #[tokio::test]
    async fn what_is_being_deleted_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let segment = dir.path().join("app/1/segment");
        fs::create_dir_all(segment.parent().unwrap()).unwrap();
        fs::write(dir.path().join("lock"), []).unwrap();
        fs::write(&segment, [1; 10_000]).unwrap();
        let error = emptied(dir.path(), Duration::from_millis(20)).await.unwrap_err();
        assert!(error.to_string().contains("10000 bytes"), "{error}");
        let deleted = segment.clone();
        let deleting = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            fs::remove_file(deleted).unwrap();
        });
        emptied(dir.path(), Duration::from_secs(20)).await.unwrap();
        assert!(!segment.exists());
        deleting.await.unwrap();
    }
}
