//! The folders of a server: whose they are, what is surely on the disk, how much fits, and whether the disk still works.
//!
//! - [`Disk`], [`DiskFile`]: what is asked of a file system. [`RealDisk`] is the system's, where what is made is its owner's
//!   alone, [`ModedDisk`] the same with other modes; [`FaultyDisk`] fails, hangs, tears
//!   writes and loses its power when a test says so ([`Fault`], [`Operation`], [`Injection`]).
//! - [`replace_file`]: a new content for a file, whole even after a power failure; [`create_file`]: the first one; [`place_files`]: the same for files that
//!   are complete already;
//!   [`make_folders`]: folders whose names are on the disk.
//! - [`FolderLock`]: one process at a time; [`OwnedFolder`]: a folder that goes with its process, however that ends.
//! - [`Volume`]: a folder for much data, with its free space, reserve, capacity and [`Health`]; [`Turns`]: so many pieces of
//!   work at a time, so that a disk that hangs blocks few threads.
//! - [`Failure`]: what a file system refused, and whether it was a sync, which is never tried twice.
//!
//! A state that is replaced as a whole, and that no power failure tears:
//!
//! ```
//! use std::io::Write;
//! use yeoul_disk::{FolderLock, LockOptions, RealDisk, read_file, replace_file};
//!
//! # let place = tempfile::tempdir().unwrap();
//! # let folder = place.path();
//! let wait = std::time::Duration::ZERO;
//! let lock = FolderLock::acquire(folder, LockOptions { name: "lock", owner: "server", wait })?;
//! let (path, beside) = (folder.join("state"), folder.join("state.new"));
//! for text in ["first", "second"] {
//!     replace_file(&RealDisk, &path, &beside, |file| file.write_all(text.as_bytes()))?;
//! }
//! assert_eq!(read_file(&RealDisk, &path)?, b"second");
//! # Ok::<(), yeoul_base::Error>(())
//! ```

mod disk;
mod failure;
mod faulty;
mod folder_lock;
mod owned_folder;
mod real_disk;
mod replace;
mod turns;
mod volume;

pub use disk::{Disk, DiskFile, Open, Sequential, Space, read_file};
pub use failure::{Failure, Step, unusable_folder};
pub use faulty::{Fault, FaultyDisk, Injection, Operation};
pub use folder_lock::{FolderLock, LockOptions};
pub use owned_folder::OwnedFolder;
pub use real_disk::{ModedDisk, RealDisk};
pub use replace::{
    create_file, folder_of, make_folders, place_files, remove_unfinished, replace_file, sync_folder_of,
};
pub use turns::{Turn, Turns};
pub use volume::{Health, Volume, VolumeOptions, is_want_of_files};
