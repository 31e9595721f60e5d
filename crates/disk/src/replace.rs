use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::{Disk, DiskFile, Failure, Open, Sequential};

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 1 << 20;

/// Gives a file a new content at once: whoever reads it, even after a power failure, finds the old one or the new one whole.
/// The new content is written to `beside`, a name in the same folder, and synced; then it takes the place of `path`, and the
/// folder is synced. Returns its length in bytes.
///
/// # Errors
/// What `write` returns, and as the file system reports. Then the old content is there, and nothing is left under `beside`;
/// if the last step, the sync of the folder, failed, either content may be there after a power failure.
pub fn replace_file(
    disk: &dyn Disk,
    path: &Path,
    beside: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<u64, Failure> {
    let written = write_synced(disk, beside, write)
        .and_then(|len| disk.rename(beside, path).map(|()| len).map_err(Failure::at(path)));
    match written {
        Ok(len) => {
            sync_folder_of(disk, path)?;
            Ok(len)
        }
        Err(failure) => {
            remove_unfinished(disk, beside);
            Err(failure)
        }
    }
}

/// Gives a file its first content at once, unless there is one of that name: that stays, and the answer is false. Either is
/// whole, and on the disk with its name. The content is written to `beside`, a name in the same folder.
///
/// # Errors
/// As [`replace_file`].
pub fn create_file(
    disk: &dyn Disk,
    path: &Path,
    beside: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<bool, Failure> {
    let placed = write_synced(disk, beside, write).and_then(|_| match disk.rename_new(beside, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        placed => placed.map(|()| true).map_err(Failure::at(path)),
    });
    if !matches!(placed, Ok(true)) {
        remove_unfinished(disk, beside);
    }
    let is_new = placed?;
    // Who was faster may not have synced the name yet.
    sync_folder_of(disk, path)?;
    Ok(is_new)
}

/// Gives files that are complete and synced their names, in this order, and brings the names to the disk: each folder is
/// synced once, after the last move. A file that had one of the names is replaced.
///
/// # Errors
/// As the file system reports; the moves before the failed one stay.
pub fn place_files(
    disk: &dyn Disk,
    moves: impl IntoIterator<Item = (PathBuf, PathBuf)>,
) -> Result<(), Failure> {
    let mut folders = BTreeSet::new();
    for (from, to) in moves {
        disk.rename(&from, &to).map_err(Failure::at(&to))?;
        folders.insert(folder_of(&to).to_owned());
    }
    folders.iter().try_for_each(|folder| disk.sync_folder(folder).map_err(Failure::of_sync(folder)))
}

/// Makes a folder and its missing parents, and brings the name of each that it makes to the disk.
///
/// # Errors
/// As the file system reports; the folders that were made stay.
pub fn make_folders(disk: &dyn Disk, folder: &Path) -> Result<(), Failure> {
    let missing = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let missing: Vec<&Path> = missing.collect();
    disk.create_folder_all(folder).map_err(Failure::at(folder))?;
    missing.iter().rev().try_for_each(|made| sync_folder_of(disk, made))
}

/// Removes what a process that ended has left of a [`replace_file`], if there is something. A failure is logged: the next
/// replacement overwrites it.
pub fn remove_unfinished(disk: &dyn Disk, beside: &Path) {
    if let Err(error) = disk.remove_file(beside)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %beside.display(), %error, "cannot remove an unfinished file");
    }
}

/// Brings the name of a file to the disk.
///
/// # Errors
/// As the file system reports.
pub fn sync_folder_of(disk: &dyn Disk, path: &Path) -> Result<(), Failure> {
    let folder = folder_of(path);
    disk.sync_folder(folder).map_err(Failure::of_sync(folder))
}

/// The folder that a file is in, or will be.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write_synced(
    disk: &dyn Disk,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<u64, Failure> {
    let file: Box<dyn DiskFile> = disk.open(path, Open::Replace).map_err(Failure::at(path))?;
    let mut writer = BufWriter::with_capacity(BUFFER_BYTES, Sequential::new(file));
    let outcome = write(&mut writer).and_then(|()| writer.flush());
    // Taken apart, since it would write again what failed when it is dropped.
    let (written, _) = writer.into_parts();
    outcome.map_err(Failure::at(path))?;
    let len = written.position();
    written.into_inner().sync_all().map_err(Failure::of_sync(path))?;
    Ok(len)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use rustix::io::Errno;

    use super::*;
    use crate::{Fault, FaultyDisk, Operation, RealDisk, Step};

    fn replace(disk: &dyn Disk, folder: &Path, text: &str) -> Result<u64, Failure> {
        let (path, beside) = (folder.join("file"), folder.join("file.new"));
        replace_file(disk, &path, &beside, |file| file.write_all(text.as_bytes()))
    }

    #[test]
    fn a_content_is_replaced_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::over(Arc::new(RealDisk));
        assert_eq!(replace(&*disk, place.path(), "the first").unwrap(), 9);
        let steps = [
            (Operation::Open, Errno::ACCESS, Step::Other),
            (Operation::Write, Errno::NOSPC, Step::Other),
            (Operation::Sync, Errno::IO, Step::Sync),
            (Operation::Rename, Errno::IO, Step::Other),
        ];
        for (operation, errno, step) in steps {
            let fault = disk.inject(Fault::fails(operation, errno));
            let failure = replace(&*disk, place.path(), "the second").unwrap_err();
            assert_eq!((failure.step, fault.happened()), (step, 1), "{operation:?}");
            assert_eq!(fs::read_to_string(place.path().join("file")).unwrap(), "the first");
            assert!(!place.path().join("file.new").exists(), "{operation:?}");
        }
        let fault = disk.inject(Fault::fails(Operation::SyncFolder, Errno::IO));
        let failure = replace(&*disk, place.path(), "the second").unwrap_err();
        assert!(failure.is_of_sync() && fault.happened() == 1);
    }

    #[test]
    fn what_was_replaced_survives_a_power_failure() {
        for seed in 0..20 {
            let place = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::over(Arc::new(RealDisk));
            let texts = ["the first", "the second, which is longer"];
            for text in texts {
                replace(&*disk, place.path(), text).unwrap();
            }
            disk.lose_power(seed);
            assert_eq!(fs::read_to_string(place.path().join("file")).unwrap(), texts[1], "seed {seed}");
            // What was written is cut short with the power, and never half of one and half of another.
            let fault = disk.inject(Fault::fails(Operation::SyncFolder, Errno::IO));
            replace(&*disk, place.path(), "the third").unwrap_err();
            assert_eq!(fault.happened(), 1);
            disk.lose_power(seed);
            let text = fs::read_to_string(place.path().join("file")).unwrap();
            assert!(["the third", texts[1]].contains(&&text[..]), "seed {seed}: {text}");
        }
    }

    fn create(disk: &dyn Disk, folder: &Path, text: &str) -> Result<bool, Failure> {
        let (path, beside) = (folder.join("file"), folder.join("file.new"));
        create_file(disk, &path, &beside, |file| file.write_all(text.as_bytes()))
    }

    #[test]
    fn a_first_content_stays_and_survives_a_power_failure() {
        for seed in 0..20 {
            let place = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::over(Arc::new(RealDisk));
            for (operation, errno) in [
                (Operation::Write, Errno::NOSPC),
                (Operation::Sync, Errno::IO),
                (Operation::Rename, Errno::IO),
            ] {
                let fault = disk.inject(Fault::fails(operation, errno));
                create(&*disk, place.path(), "the first").unwrap_err();
                assert_eq!(fault.happened(), 1, "{operation:?}");
                assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{operation:?}");
            }
            assert!(create(&*disk, place.path(), "the first").unwrap());
            assert!(!create(&*disk, place.path(), "the second").unwrap());
            disk.lose_power(seed);
            assert_eq!(fs::read_to_string(place.path().join("file")).unwrap(), "the first", "seed {seed}");
            assert!(!place.path().join("file.new").exists());
            // A name that another process gave and did not sync is on the disk once this one relies on it.
            let other = FaultyDisk::over(Arc::new(RealDisk));
            assert!(!create(&*other, place.path(), "the third").unwrap());
            assert_eq!(other.count(Operation::SyncFolder), 1);
        }
    }

    #[test]
    fn each_folder_that_is_made_is_synced_into_its_parent() {
        let place = tempfile::tempdir().unwrap();
        let (disk, deep) = (FaultyDisk::new(), place.path().join("a/b/c"));
        make_folders(&*disk, &deep).unwrap();
        assert!(deep.is_dir());
        assert_eq!(disk.count(Operation::SyncFolder), 3);
        make_folders(&*disk, &deep).unwrap();
        assert_eq!(disk.count(Operation::SyncFolder), 3, "it is there");
        let fault = disk.inject(Fault::fails(Operation::SyncFolder, Errno::IO));
        assert!(make_folders(&*disk, &deep.join("d")).unwrap_err().is_of_sync() && fault.happened() == 1);
    }

    #[test]
    fn many_files_are_placed_with_one_sync_of_each_folder() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for folder in ["from", "a", "b"] {
            fs::create_dir(at(folder)).unwrap();
        }
        let names = ["a/1", "b/2", "a/3", "a/4"];
        let moves = names.map(|name| {
            let from = at("from").join(&name[2..]);
            fs::write(&from, name).unwrap();
            (from, at(name))
        });
        let disk = FaultyDisk::over(Arc::new(RealDisk));
        place_files(&*disk, moves).unwrap();
        assert!(names.iter().all(|name| fs::read_to_string(at(name)).unwrap() == *name));
        assert_eq!((disk.count(Operation::Rename), disk.count(Operation::SyncFolder)), (4, 2));
    }
}
