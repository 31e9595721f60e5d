//! Deletes the files of removed shuffles, and retries those that the disk refuses.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::Store;
use super::directory::{Directory, Health};
use super::lease::Lease;
use super::segment::{self, Segment};
use super::spill::Write;
use super::target::Unwritten;
use crate::ids::ShuffleKey;

/// The files of a removed shuffle.
#[derive(Debug)]
pub struct Removed {
    pub(super) files: Vec<Arc<Segment>>,
    lease: Option<Arc<Lease>>,
    /// The shuffle, if its folders are to be deleted with everything in them, because their contents are unknown.
    unseen: Option<ShuffleKey>,
    /// Whether the failure was logged.
    was_refused: bool,
}

/// What could not be deleted, by directory. [`Store::shuffle_count`] counts these shuffles, too.
#[derive(Debug, Default)]
pub(super) struct Undeleted {
    lots: Vec<(Arc<Directory>, Vec<Removed>)>,
    /// Whether a task is retrying them.
    is_retried: bool,
}

impl Store {
    /// Removes a shuffle from the table and frees its memory. Returns its files, to be passed to [`Store::delete`]. Until
    /// they are gone, and pending writes for it have ended, no new shuffle takes its number. An unknown shuffle has files,
    /// too, if its folders could not be listed.
    pub fn remove(&self, key: &ShuffleKey) -> Option<Removed> {
        let shuffle = {
            let mut shuffles = self.shuffles_mut();
            let shuffle = shuffles.remove(key);
            if shuffle.is_none() {
                let may_be_there = key.check_storable().is_ok() && self.unseen().may_be_of(key);
                if !may_be_there || self.deletions.has(key) {
                    return None;
                }
            }
            self.deletions.begin(key);
            shuffle
        };
        let Some(shuffle) = shuffle else {
            let lease = self.deletions.lease(key);
            lease.end();
            return Some(Removed::new(Vec::new(), Some(lease), Some(key.clone())));
        };
        let (memory, writes, removed) = {
            let mut contents = shuffle.lock();
            contents.gone = true;
            shuffle.shrank(shuffle.resident());
            let (files, lease) = (std::mem::take(&mut contents.segments), contents.lease.take());
            let unseen = contents.has_unseen_files.then(|| key.clone());
            let memory = (std::mem::take(&mut contents.copies), contents.take_slots_charge());
            (memory, std::mem::take(&mut contents.writes), Removed::new(files, lease, unseen))
        };
        removed.lease.iter().for_each(|lease| lease.end());
        self.unsealed().retain(|waiting| !Arc::ptr_eq(waiting, &shuffle));
        writes.iter().for_each(Write::give_up);
        drop(memory); // outside the lock: freeing memory wakes waiters
        Some(removed)
    }

    /// Deletes files, each directory by itself, so that a disk that hangs holds up only its own. What fails is retried for
    /// as long as the store lives.
    pub fn delete(self: &Arc<Self>, Removed { files, lease, unseen, .. }: Removed) {
        let mut lots: Vec<(Arc<Directory>, Vec<Arc<Segment>>)> = match unseen {
            Some(_) => self.directories.iter().map(|directory| (Arc::clone(directory), Vec::new())).collect(),
            None => Vec::new(),
        };
        for segment in files {
            let directory = Arc::clone(segment.directory());
            lot_of(&mut lots, &directory).push(segment);
        }
        for (directory, files) in lots {
            let lot = Removed::new(files, lease.clone(), unseen.clone());
            tokio::spawn(Arc::clone(self).delete_lots(directory, vec![lot]));
        }
    }

    /// Deletes a file of a shuffle that is unknown, or has been removed meanwhile.
    pub fn delete_file(self: &Arc<Self>, segment: Arc<Segment>, lease: Option<Arc<Lease>>) {
        self.delete(Removed::new(vec![segment], lease, None));
    }

    /// Deletes the file that a failed write may have left, and returns why the write failed.
    pub(super) fn delete_left(
        self: &Arc<Self>,
        Unwritten { error, left }: Unwritten,
        lease: &Option<Arc<Lease>>,
    ) -> io::Error {
        if let Some(segment) = left {
            self.delete_file(segment, lease.clone());
        }
        error
    }

    async fn delete_lots(self: Arc<Self>, directory: Arc<Directory>, lots: Vec<Removed>) {
        for lot in lots {
            // A turn for each, so that a new deletion need not wait for all that are being retried.
            let _turn = directory.deletions.take().await;
            let place = Arc::clone(&directory);
            let deleted = tokio::task::spawn_blocking(move || match lot.delete(&place) {
                Some(left) => (Some(left), Ok(())),
                None => (None, place.measure()),
            });
            let Ok((left, measured)) = deleted.await else { continue };
            if let Err(error) = measured {
                tracing::warn!(directory = %directory.root().display(), %error, "cannot be measured");
            }
            match left {
                Some(left) => self.delete_later(&directory, left),
                None => self.memory.wake_spiller(), // there may be space again
            }
        }
    }

    fn delete_later(self: &Arc<Self>, directory: &Arc<Directory>, left: Removed) {
        let mut undeleted = self.undeleted();
        lot_of(&mut undeleted.lots, directory).push(left);
        if !std::mem::replace(&mut undeleted.is_retried, true) {
            tokio::spawn(delete_again(Arc::downgrade(self), self.deletion_retry));
        }
    }

    fn undeleted(&self) -> MutexGuard<'_, Undeleted> {
        self.undeleted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Retries failed deletions until none is left or the store is dropped, which this does not delay. A failed directory is
/// left alone until a probe succeeds.
async fn delete_again(store: Weak<Store>, retry: Duration) {
    loop {
        tokio::time::sleep(retry).await;
        let Some(store) = store.upgrade() else { return };
        let due: Vec<_> = {
            let mut undeleted = store.undeleted();
            if undeleted.lots.is_empty() {
                undeleted.is_retried = false;
                return;
            }
            undeleted.lots.extract_if(.., |(directory, _)| directory.health() != Health::Failed).collect()
        };
        for (directory, lots) in due {
            tokio::spawn(Arc::clone(&store).delete_lots(directory, lots));
        }
    }
}

fn lot_of<'a, T>(lots: &'a mut Vec<(Arc<Directory>, Vec<T>)>, directory: &Arc<Directory>) -> &'a mut Vec<T> {
    let known = lots.iter().position(|(known, _)| Arc::ptr_eq(known, directory));
    let at = known.unwrap_or_else(|| {
        lots.push((Arc::clone(directory), Vec::new()));
        lots.len() - 1
    });
    &mut lots[at].1
}

impl Removed {
    fn new(files: Vec<Arc<Segment>>, lease: Option<Arc<Lease>>, unseen: Option<ShuffleKey>) -> Self {
        Self { files, lease, unseen, was_refused: false }
    }

    /// Deletes the files in a directory. Returns those that could not be deleted, with the lease. Blocks.
    fn delete(mut self, directory: &Directory) -> Option<Self> {
        let mut refusal = None;
        self.files.retain(|segment| segment.delete().map_err(|error| refusal = Some(error)).is_err());
        self.unseen = self.unseen.take().filter(|key| {
            let deleted = segment::delete_all(directory, key);
            deleted.map_err(|error| refusal = Some(error)).is_err()
        });
        let error = refusal?;
        if !std::mem::replace(&mut self.was_refused, true) {
            let path = self.files.first().map(|segment| segment.path().display());
            let directory = directory.root().display();
            tracing::warn!(%directory, path = path.map(tracing::field::display), %error, "cannot delete files: it is tried again");
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::{
        append, batch, open, pushed, reserve, segments_below, spill, until, with_store,
    };
    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    /// Puts a directory with content in place of a file, so that deleting the file fails.
    fn make_undeletable(path: &Path) {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
        std::fs::write(path.join("in the way"), "").unwrap();
    }

    #[test]
    fn what_a_disk_does_not_let_go_is_not_deleted() {
        with_store(async |place, store| {
            let (shuffle, _) = pushed(&store, "app", &[1000]);
            for (map, directory) in [(1, 0), (2, 1)] {
                assert!(append(&store, &shuffle, 0, &batch(map, 0, 1, 1000)));
                assert!(spill(&store, directory).await.unwrap());
            }
            let key = shuffle.key().clone();
            let path = shuffle.lock().segments[0].path().to_owned();
            make_undeletable(&path);
            store.delete(store.remove(&key).unwrap());
            let mut keys = vec![key.clone()];
            assert!(!store.are_deleted(&mut keys, SOON).await);
            assert!(store.with_shuffle(&key, |_| ()).is_none());
            assert_eq!((store.deleting(), store.shuffle_count()), (vec![key.clone()], 1));
            until(|| segments_below(place.path()).is_empty()).await; // the other disk lets its file go
            // A directory that has failed is not tried again before it is back.
            let directory = Arc::clone(&store.directories()[0]);
            directory.hangs();
            until(|| !store.undeleted().lots.is_empty()).await;
            std::fs::remove_dir_all(&path).unwrap();
            assert!(!store.are_deleted(&mut keys, SOON).await);
            directory.probe().unwrap();
            assert!(store.are_deleted(&mut keys, Duration::from_secs(20)).await);
            assert!(store.with_shuffle(&key, |_| ()).is_some());
            // The retrying task finds nothing to do, ends, and is started anew next time.
            until(|| !store.undeleted().is_retried).await;
            let shuffle = store.find(&key).unwrap();
            reserve(&shuffle, 0..1);
            assert!(append(&store, &shuffle, 0, &batch(0, 0, 1, 1000)));
            assert!(spill(&store, 1).await.unwrap());
            let path = shuffle.lock().segments[0].path().to_owned();
            make_undeletable(&path);
            store.delete(store.remove(&key).unwrap());
            until(|| store.undeleted().is_retried).await;
            assert!(store.with_shuffle(&key, |_| ()).is_none());
            std::fs::remove_dir_all(&path).unwrap();
            until(|| store.with_shuffle(&key, |_| ()).is_some()).await;
        });
    }

    #[test]
    fn what_cannot_be_deleted_does_not_outlive_its_store() {
        with_store(async |place, store| {
            let (shuffle, _) = pushed(&store, "app", &[1000]);
            assert!(spill(&store, 0).await.unwrap());
            make_undeletable(shuffle.lock().segments[0].path());
            store.delete(store.remove(shuffle.key()).unwrap());
            until(|| store.undeleted().is_retried).await;
            drop(shuffle);
            // The next store can use its directories at once.
            let ended = Arc::downgrade(&store);
            drop(store);
            until(|| ended.strong_count() == 0).await;
            drop(open(&place));
        });
    }

    #[test]
    fn a_file_that_a_failed_write_leaves_goes_with_its_shuffle() {
        with_store(async |_place, store| {
            let (shuffle, _) = pushed(&store, "app", &[1000]);
            let key = shuffle.key().clone();
            let segment = Arc::new(Segment::create(&store.directories()[0], &key, 1).unwrap());
            let path = segment.path().to_owned();
            make_undeletable(&path);
            let lease = shuffle.lock().lease.clone();
            let unwritten = Unwritten { error: io::ErrorKind::StorageFull.into(), left: Some(segment) };
            assert_eq!(store.delete_left(unwritten, &lease).kind(), io::ErrorKind::StorageFull);
            drop(lease);
            until(|| store.undeleted().is_retried).await;
            assert!(store.with_shuffle(&key, |_| ()).is_some(), "it goes on");
            store.delete(store.remove(&key).unwrap());
            assert!(!store.are_deleted(&mut vec![key.clone()], SOON).await);
            std::fs::remove_dir_all(&path).unwrap();
            assert!(store.are_deleted(&mut vec![key], Duration::from_secs(20)).await);
        });
    }
}
