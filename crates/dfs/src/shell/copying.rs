use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::task::block_in_place;

use super::Output;
use super::local_files::{self, LocalFile, at};
use super::progress::Progress;
use crate::client::path::{child, name_of, parent_of};
use crate::client::{EntryKind, FileSystem, NewFile, Status};
use crate::error::{Error, Kind, Result};

/// Bytes of a local file that are read at a time.
const PIECE_BYTES: usize = 1 << 20;
/// What a file is called until it is complete, as in Hadoop.
const UNFINISHED: &str = "._COPYING_";
/// The local path that stands for the standard input.
const STDIN: &str = "-";
/// Directories in each other that a copy follows, as deep as paths may be.
const DEPTH_MAX: usize = 1_000;

/// Flags of `-put` and `-get`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    /// `-f`: what is there is replaced.
    pub overwrite: bool,
    /// `-p`: the copy has the times and the mode of the original.
    pub preserve: bool,
    /// `-d`: a file has its own name while it is written.
    pub direct: bool,
}

/// Copies local files and directories: into the target if it is a directory, or else, a single one, to that path.
///
/// # Errors
/// There is no such target directory, or the output takes no more.
pub async fn put(
    files: &FileSystem,
    sources: &[String],
    target: &str,
    how: CopyOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    let target = files.path(target)?;
    let target = target.as_str();
    let found = files.find(target).await?;
    let is_directory = found.is_some_and(|status| status.is_directory());
    if !is_directory {
        if sources.len() > 1 {
            return Err(Error::new(Kind::NotFound, format!("{target}: no such directory")));
        }
        needs_directory(files, parent_of(target)).await?;
    }
    for source in sources {
        let copied = put_one(files, source, target, is_directory, how, output).await;
        output.go_on(copied)?;
    }
    Ok(())
}

async fn needs_directory(files: &FileSystem, path: &str) -> Result<()> {
    match files.find(path).await? {
        Some(status) if status.is_directory() => Ok(()),
        Some(_) => Err(Error::new(Kind::Conflict, format!("{path}: it is not a directory"))),
        None => Err(Error::new(Kind::NotFound, format!("{path}: no such directory"))
            .with_hint(format!("yeoul dfs -mkdir -p {path} makes it"))),
    }
}

async fn put_one(
    files: &FileSystem,
    source: &str,
    target: &str,
    is_directory: bool,
    how: CopyOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    if source == STDIN {
        if is_directory {
            return Err(Error::new(Kind::Invalid, format!("{target}: it is a directory"))
                .with_hint("name the file that the standard input is copied to"));
        }
        return put_file(files, &mut std::io::stdin(), None, target, how, output.shows_progress()).await;
    }
    let source = Path::new(source);
    let target = match is_directory {
        // `.` and `..` have names, too.
        true => child(target, local_files::name_of(&fs::canonicalize(source).map_err(at(source))?)?),
        false => target.to_owned(),
    };
    let mut pending = vec![(source.to_owned(), target, 0)];
    while let Some((local, remote, depth)) = pending.pop() {
        let metadata = fs::metadata(&local).map_err(at(&local))?;
        if !metadata.is_dir() {
            let mut file = File::open(&local).map_err(at(&local))?;
            let copied =
                put_file(files, &mut file, Some((&local, &metadata)), &remote, how, output.shows_progress())
                    .await;
            output.go_on(copied)?;
            continue;
        }
        if depth == DEPTH_MAX {
            let message = format!("{}: more than {DEPTH_MAX} directories in each other", local.display());
            return Err(Error::new(Kind::ResourceExhausted, message));
        }
        match files.find(&remote).await? {
            Some(status) if status.is_directory() => {}
            Some(_) => return Err(Error::new(Kind::Conflict, format!("{remote}: it is not a directory"))),
            None => files.make_directory(&remote, false).await?,
        }
        for path in local_files::entries(&local)?.into_iter().rev() {
            let remote = child(&remote, local_files::name_of(&path)?);
            pending.push((path, remote, depth + 1));
        }
    }
    Ok(())
}

/// Copies what can be read to a new file.
async fn put_file(
    files: &FileSystem,
    from: &mut (dyn Read + Send),
    local: Option<(&Path, &fs::Metadata)>,
    target: &str,
    how: CopyOptions,
    shows_progress: bool,
) -> Result<()> {
    match files.find(target).await? {
        Some(status) if status.is_directory() => {
            return Err(Error::new(Kind::Conflict, format!("{target}: it is a directory")));
        }
        Some(_) if !how.overwrite => {
            let error = Error::new(Kind::Conflict, format!("{target}: it exists"));
            return Err(error.with_hint("-put -f replaces it"));
        }
        _ => {}
    }
    let written = if how.direct { target.to_owned() } else { format!("{target}{UNFINISHED}") };
    files.note_unfinished(Some(&written));
    let bytes = local.map(|(_, metadata)| metadata.len());
    let progress = Progress::new(target, bytes, shows_progress);
    let copied = async {
        write(files, from, local.map(|(path, _)| path), &written, &progress).await?;
        if !how.direct {
            files.rename(&written, target, how.overwrite).await?;
        }
        Ok(())
    }
    .await;
    if copied.is_err() {
        files.remove_unfinished().await;
    }
    files.note_unfinished(None);
    match local {
        Some((_, metadata)) if copied.is_ok() && how.preserve => {
            files.set_attributes(target, &attributes(metadata)?).await
        }
        _ => copied,
    }
}

async fn write(
    files: &FileSystem,
    from: &mut (dyn Read + Send),
    local: Option<&Path>,
    target: &str,
    progress: &Progress,
) -> Result<()> {
    let mut writer = files.create(target, NewFile { mode: 0o666, may_replace: true }).await?;
    loop {
        let mut piece = Vec::new();
        // The standard input may keep it waiting for ever.
        let read = block_in_place(|| (&mut *from).take(PIECE_BYTES as u64).read_to_end(&mut piece));
        let bytes = read.map_err(at(local.unwrap_or(Path::new("the standard input"))))?;
        if bytes == 0 {
            return writer.close().await;
        }
        writer.write(Bytes::from(piece)).await?;
        progress.add(bytes);
    }
}

/// The times and the mode of a local file; owners have other names elsewhere.
fn attributes(metadata: &fs::Metadata) -> Result<Status> {
    let modified = metadata.modified()?;
    Ok(Status {
        path: String::new(),
        kind: EntryKind::File,
        length: metadata.len(),
        replication: 0,
        block_size: 0,
        owner: String::new(),
        group: String::new(),
        mode: (metadata.permissions().mode() & 0o1777) as u16,
        has_acl: false,
        modified_ms: local_files::milliseconds(modified),
        accessed_ms: local_files::milliseconds(metadata.accessed().unwrap_or(modified)),
        policy: None,
    })
}

/// Copies files and directories to local ones: into the target if it is a directory, or else, a single one, to that path.
///
/// # Errors
/// There is no such target directory, or the output takes no more.
pub async fn get(
    files: &FileSystem,
    sources: &[String],
    target: &Path,
    how: CopyOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    if !target.is_dir() && sources.len() > 1 {
        return Err(Error::new(Kind::NotFound, format!("{}: no such directory", target.display())));
    }
    for source in sources {
        let copied = get_one(files, source, target, how, output).await;
        output.go_on(copied)?;
    }
    Ok(())
}

async fn get_one(
    files: &FileSystem,
    source: &str,
    target: &Path,
    how: CopyOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    let found = files.expand(&files.path(source)?).await?;
    let is_directory = target.is_dir();
    if !is_directory && found.len() > 1 {
        let message = format!("{}: no such directory, and {source} are several", target.display());
        return Err(Error::new(Kind::NotFound, message));
    }
    let mut pending: Vec<(Status, PathBuf)> = Vec::new();
    for status in found.into_iter().rev() {
        let name = name_of(&status.path);
        // The root has no name: its entries go into the target itself.
        let local = if is_directory && !name.is_empty() {
            local_files::entry(target, name)?
        } else {
            target.to_owned()
        };
        pending.push((status, local));
    }
    while let Some((status, local)) = pending.pop() {
        if !status.is_directory() {
            let copied = get_file(files, &status, &local, how, output.shows_progress()).await;
            output.go_on(copied)?;
            continue;
        }
        if !local.is_dir() {
            fs::create_dir(&local).map_err(at(&local))?;
        }
        for below in files.list(&status.path).await?.into_iter().rev() {
            let local = local_files::entry(&local, name_of(&below.path))?;
            pending.push((below, local));
        }
    }
    Ok(())
}

async fn get_file(
    files: &FileSystem,
    status: &Status,
    local: &Path,
    how: CopyOptions,
    shows_progress: bool,
) -> Result<()> {
    if local.is_dir() || (local.exists() && !how.overwrite) {
        let error = Error::new(Kind::Conflict, format!("{}: it exists", local.display()));
        return Err(error.with_hint("-get -f replaces a file"));
    }
    let progress = Progress::new(&status.path, Some(status.length), shows_progress);
    let reader = files.open(&status.path).await?;
    let mut file = LocalFile::begin(local)?;
    let take = |piece: &[u8]| {
        progress.add(piece.len());
        file.write(piece)
    };
    reader.read_all(take).await?;
    file.place(how.overwrite, how.preserve.then_some(status))
}

/// Writes the bytes of files to the output.
///
/// # Errors
/// The output takes no more.
pub async fn print_files(files: &FileSystem, paths: &[String], output: &mut Output<'_>) -> Result<()> {
    for path in paths {
        let printed = print_one(files, path, output).await;
        output.go_on(printed)?;
    }
    Ok(())
}

async fn print_one(files: &FileSystem, path: &str, output: &mut Output<'_>) -> Result<()> {
    for status in files.expand(&files.path(path)?).await? {
        if status.is_directory() {
            return Err(Error::new(Kind::Conflict, format!("{}: it is a directory", status.path)));
        }
        let reader = files.open(&status.path).await?;
        reader.read_all(|piece| output.bytes(piece)).await?;
    }
    output.flush()
}
