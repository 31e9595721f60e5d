use super::Output;
use crate::client::path::{child, name_of, parent_of};
use crate::client::{FileSystem, RemotePath};
use crate::error::{Error, Kind, Result};

/// Makes directories; with `with_parents` those above them, too, and one that exists is as good as made.
///
/// # Errors
/// The output takes no more.
pub async fn make_directories(
    files: &FileSystem,
    paths: &[String],
    with_parents: bool,
    output: &mut Output<'_>,
) -> Result<()> {
    for path in paths {
        let made = make_directory(files, path, with_parents).await;
        output.go_on(made)?;
    }
    Ok(())
}

async fn make_directory(files: &FileSystem, path: &str, with_parents: bool) -> Result<()> {
    let path = files.path(path)?;
    let path = path.as_str();
    if let Some(there) = files.find(path).await? {
        if with_parents && there.is_directory() {
            return Ok(());
        }
        return Err(Error::new(Kind::Conflict, format!("{path}: it exists")));
    }
    if !with_parents && files.find(parent_of(path)).await?.is_none() {
        let message = format!("{}: no such directory", parent_of(path));
        return Err(Error::new(Kind::NotFound, message).with_hint("-mkdir -p makes it, too"));
    }
    files.make_directory(path, with_parents).await
}

/// Flags of `-rm`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoveOptions {
    /// `-r`: directories with all that is in them.
    pub recursive: bool,
    /// `-f`: what is missing is no failure.
    pub ignore_missing: bool,
    /// `-skipTrash`: at once, where the NameNode keeps what was removed for a while.
    pub skip_trash: bool,
}

/// Removes files, and directories if told so.
///
/// # Errors
/// The output takes no more.
pub async fn remove(
    files: &FileSystem,
    paths: &[String],
    how: RemoveOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    let keeps_trash = files.defaults().await?.trash_interval_minutes.unwrap_or_default() > 0;
    if keeps_trash && !how.skip_trash {
        let message = "this NameNode wants removed files in the trash, which yeoul dfs does not use";
        let hint = "-skipTrash removes them at once; hdfs dfs -rm moves them to the trash";
        return Err(Error::new(Kind::Invalid, message).with_hint(hint));
    }
    for path in paths {
        let removed = remove_one(files, path, how, output).await;
        output.go_on(removed)?;
    }
    Ok(())
}

async fn remove_one(
    files: &FileSystem,
    path: &str,
    how: RemoveOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    let found = match files.expand(&files.path(path)?).await {
        Err(error) if error.kind() == Kind::NotFound && how.ignore_missing => return Ok(()),
        found => found?,
    };
    for status in found {
        let path = &status.path;
        if path == "/" {
            return Err(
                Error::new(Kind::Invalid, "/: the root is not removed").with_hint("name what is in it: /*")
            );
        }
        if status.is_directory() && !how.recursive {
            let error = Error::new(Kind::Conflict, format!("{path}: it is a directory"));
            return Err(error.with_hint("-rm -r removes it with all that is in it"));
        }
        if files.delete(path, how.recursive).await? {
            output.line(&format!("Deleted {path}"))?;
        }
    }
    Ok(())
}

/// Gives files and directories another path: the last one is a directory that takes them, or the new path of the only
/// other one.
///
/// # Errors
/// Several are to be moved to what is no directory, or the output takes no more.
pub async fn move_to(
    files: &FileSystem,
    sources: &[String],
    target: &str,
    output: &mut Output<'_>,
) -> Result<()> {
    let target = files.path(target)?;
    let is_directory = files.find(target.as_str()).await?.is_some_and(|status| status.is_directory());
    if !is_directory && sources.len() > 1 {
        return Err(Error::new(Kind::NotFound, format!("{}: no such directory", target.as_str())));
    }
    for source in sources {
        let moved = move_one(files, source, &target, is_directory).await;
        output.go_on(moved)?;
    }
    Ok(())
}

async fn move_one(files: &FileSystem, source: &str, target: &RemotePath, is_directory: bool) -> Result<()> {
    for status in files.expand(&files.path(source)?).await? {
        let to = match is_directory {
            true => child(target.as_str(), name_of(&status.path)),
            false => target.as_str().to_owned(),
        };
        if files.find(&to).await?.is_some() {
            return Err(Error::new(Kind::Conflict, format!("{to}: it exists")));
        }
        files.rename(&status.path, &to, false).await?;
    }
    Ok(())
}
