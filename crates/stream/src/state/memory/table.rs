use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::bucket::MemoryBucket;
use super::column::{ColumnKind, Gathering, Incoming};
use crate::error::{Result, corrupt};
use crate::state::{
    Bucket, Found, KeyHash, Keys, Layout, MemoryShare, StateRows, StateTable, StateUsage, StoredVersion,
    Version, VersionKind,
};

/// Most rows that are gathered at once.
const ROWS_MAX: usize = 8192;
/// Deltas after which a snapshot is taken, however small they are: so many files at most are read at a restart.
const DELTAS_MAX: u64 = 100;
/// Rows of deltas before which no snapshot is taken because of them.
const DELTA_ROWS_MIN: u64 = 10_000;

/// State in memory: columns whose values change in place, a set of them for each bucket. A bucket that is over is dropped as a
/// whole.
///
/// A snapshot shares the buckets with the table: one that changes while the snapshot is written is copied first.
pub struct MemoryTable {
    layout: Arc<Layout>,
    kinds: Arc<Vec<ColumnKind>>,
    buckets: BTreeMap<Bucket, Arc<MemoryBucket>>,
    changed: BTreeSet<Bucket>,
    memory: MemoryShare,
    usage: StateUsage,
    evicted_until: Option<Bucket>,
    /// Whether buckets have gone since the last version.
    has_evicted: bool,
    /// Versions since the last snapshot and their rows; none before the first snapshot.
    deltas: Option<(u64, u64)>,
}

impl MemoryTable {
    /// An empty table that grows into this memory.
    ///
    /// # Errors
    /// `Invalid` for values of a type that state does not hold.
    pub fn new(layout: Arc<Layout>, memory: MemoryShare) -> Result<Self> {
        let kinds: Result<Vec<_>> =
            layout.values.iter().map(|field| ColumnKind::new(field.data_type())).collect();
        Ok(Self {
            layout,
            kinds: Arc::new(kinds?),
            buckets: BTreeMap::new(),
            changed: BTreeSet::new(),
            memory,
            usage: StateUsage::default(),
            evicted_until: None,
            has_evicted: false,
            deltas: None,
        })
    }

    fn incoming(&self, values: &[ArrayRef]) -> Result<Vec<Incoming>> {
        assert_eq!(values.len(), self.kinds.len(), "a table keeps its columns");
        self.kinds.iter().zip(values).map(|(kind, values)| kind.incoming(values)).collect()
    }

    /// Sets rows of one bucket.
    fn set(
        &mut self,
        bucket: Bucket,
        rows: impl Iterator<Item = (KeyHash, impl AsRef<[u8]>, usize)>,
        incoming: &[Incoming],
    ) -> Result<()> {
        let kinds = Arc::clone(&self.kinds);
        let shared = self.buckets.entry(bucket).or_insert_with(|| Arc::new(MemoryBucket::new(&kinds)));
        let found = Arc::make_mut(shared);
        let before = found.memory_bytes();
        let mut added = 0;
        for (hash, key, row) in rows {
            added += u64::from(found.set(bucket, hash, key.as_ref(), incoming, row));
        }
        let after = found.memory_bytes();
        self.usage.keys += added;
        self.usage.memory_bytes = self.usage.memory_bytes + after as u64 - before as u64;
        self.changed.insert(bucket);
        if after > before { self.memory.grow(after - before) } else { Ok(()) }
    }

    fn wants_snapshot(&self, rows: u64) -> bool {
        match self.deltas {
            None => true,
            Some((count, earlier)) => {
                count >= DELTAS_MAX || earlier + rows > self.usage.keys.max(DELTA_ROWS_MIN)
            }
        }
    }

    fn snapshot(&self) -> Version {
        let (layout, kinds) = (Arc::clone(&self.layout), Arc::clone(&self.kinds));
        let buckets: Vec<_> = self.buckets.values().cloned().collect();
        let rows = buckets.into_iter().flat_map(move |bucket| {
            let (layout, kinds) = (Arc::clone(&layout), Arc::clone(&kinds));
            let parts = bucket.keys.len().div_ceil(ROWS_MAX);
            (0..parts).map(move |part| {
                let slots = part * ROWS_MAX..bucket.keys.len().min((part + 1) * ROWS_MAX);
                gather(&layout, &kinds, slots.map(|slot| (&*bucket, slot)))
            })
        });
        Version { kind: VersionKind::Snapshot, evicted_until: self.evicted_until, rows: Box::new(rows) }
    }

    fn apply(&mut self, rows: StateRows) -> Result<()> {
        let encoded = self.layout.encode_keys(&rows.keys)?;
        let incoming = self.incoming(&rows.values)?;
        let mut begin = 0;
        while begin < rows.len() {
            let bucket = rows.buckets[begin];
            let count = rows.buckets[begin..].iter().take_while(|other| **other == bucket).count();
            let set = (begin..begin + count).map(|row| {
                let key = encoded.row(row);
                (KeyHash::of(key.data()), key.data().to_vec(), row)
            });
            self.set(bucket, set, &incoming)?;
            begin += count;
        }
        Ok(())
    }

    fn drop_until(&mut self, until: Bucket) -> Vec<Arc<MemoryBucket>> {
        let mut gone = Vec::new();
        while let Some(first) = self.buckets.first_entry().filter(|first| *first.key() <= until) {
            let (bucket, content) = first.remove_entry();
            self.changed.remove(&bucket);
            self.usage.keys -= content.keys.len() as u64;
            self.usage.memory_bytes -= content.memory_bytes() as u64;
            gone.push(content);
        }
        gone
    }
}

impl StateTable for MemoryTable {
    fn read(&self, keys: &Keys) -> Result<Found> {
        let mut found = Vec::with_capacity(keys.len());
        let mut last: Option<(Bucket, Option<&Arc<MemoryBucket>>)> = None;
        for at in 0..keys.len() {
            let bucket = keys.bucket(at);
            let content = match last {
                Some((same, content)) if same == bucket => content,
                _ => self.buckets.get(&bucket),
            };
            last = Some((bucket, content));
            let slot = content.and_then(|content| content.keys.find(keys.hash(at), keys.key(at)));
            if let (Some(content), Some(slot)) = (content, slot) {
                found.push((at, &**content, slot));
            }
        }
        let values = gather_values(&self.kinds, found.iter().map(|(_, bucket, slot)| (*bucket, *slot)))?;
        Ok(Found { places: found.iter().map(|(at, ..)| *at).collect(), values })
    }

    fn write(&mut self, keys: &Keys, values: &[ArrayRef]) -> Result<()> {
        let incoming = self.incoming(values)?;
        let mut by_bucket: BTreeMap<Bucket, Vec<usize>> = BTreeMap::new();
        for (at, bucket) in keys.buckets().iter().enumerate() {
            by_bucket.entry(*bucket).or_default().push(at);
        }
        for (bucket, places) in by_bucket {
            let rows = places.into_iter().map(|at| (keys.hash(at), keys.key(at), at));
            self.set(bucket, rows, &incoming)?;
        }
        Ok(())
    }

    fn evict(&mut self, until: Bucket) -> Result<Vec<StateRows>> {
        let gone = self.drop_until(until);
        self.has_evicted |= !gone.is_empty();
        self.evicted_until = self.evicted_until.max(Some(until));
        let mut rows = Vec::new();
        for bucket in gone {
            for begin in (0..bucket.keys.len()).step_by(ROWS_MAX) {
                let slots = begin..bucket.keys.len().min(begin + ROWS_MAX);
                rows.push(gather(&self.layout, &self.kinds, slots.map(|slot| (&*bucket, slot)))?);
            }
        }
        Ok(rows)
    }

    fn scan(&self) -> Result<Vec<StateRows>> {
        self.snapshot().rows.collect()
    }

    fn version(&mut self) -> Result<Option<Version>> {
        if self.changed.is_empty() && !self.has_evicted && self.deltas.is_some() {
            return Ok(None);
        }
        self.has_evicted = false;
        let mut slots = Vec::new();
        for bucket in std::mem::take(&mut self.changed) {
            // No snapshot before shares it any more once that one is written, so this copies nothing then.
            let content =
                Arc::make_mut(self.buckets.get_mut(&bucket).expect("a bucket that changed is there"));
            slots.extend(content.take_changed().into_iter().map(|slot| (bucket, slot as usize)));
        }
        let rows = slots.len() as u64;
        if self.wants_snapshot(rows) {
            self.deltas = Some((0, 0));
            return Ok(Some(self.snapshot()));
        }
        let (count, earlier) = self.deltas.expect("without a snapshot one is wanted");
        self.deltas = Some((count + 1, earlier + rows));
        let parts: Result<Vec<_>> = slots
            .chunks(ROWS_MAX)
            .map(|part| {
                let slots = part.iter().map(|(bucket, slot)| (&*self.buckets[bucket], *slot));
                gather(&self.layout, &self.kinds, slots)
            })
            .collect();
        let rows = parts?.into_iter().map(Ok);
        let (kind, evicted_until) = (VersionKind::Delta, self.evicted_until);
        Ok(Some(Version { kind, evicted_until, rows: Box::new(rows) }))
    }

    fn restore(&mut self, version: StoredVersion) -> Result<()> {
        match (version.kind, self.deltas) {
            (VersionKind::Snapshot, _) => {
                self.drop_until(Bucket::FOR_EVER);
                self.deltas = Some((0, 0));
            }
            (VersionKind::Delta, Some((count, earlier))) => {
                let rows: usize = version.rows.iter().map(StateRows::len).sum();
                self.deltas = Some((count + 1, earlier + rows as u64));
            }
            (VersionKind::Delta, None) => {
                return Err(corrupt(format!("the state of '{}' begins with a change", self.layout.name)));
            }
        }
        if let Some(until) = version.evicted_until {
            self.drop_until(until);
            self.evicted_until = self.evicted_until.max(Some(until));
        }
        for rows in version.rows {
            self.apply(rows)?;
        }
        for bucket in std::mem::take(&mut self.changed) {
            Arc::make_mut(self.buckets.get_mut(&bucket).expect("it was set")).take_changed();
        }
        Ok(())
    }

    fn usage(&self) -> StateUsage {
        self.usage
    }
}

/// Keys and values of some slots.
fn gather<'a>(
    layout: &Layout,
    kinds: &[ColumnKind],
    slots: impl Iterator<Item = (&'a MemoryBucket, usize)> + Clone,
) -> Result<StateRows> {
    let keys = layout.decode_keys(slots.clone().map(|(bucket, slot)| bucket.keys.key(slot)))?;
    let buckets = slots.clone().map(|(bucket, slot)| bucket.keys.bucket(slot)).collect();
    let hashes = slots.clone().map(|(bucket, slot)| bucket.keys.hash(slot)).collect();
    Ok(StateRows { buckets, hashes, keys, values: gather_values(kinds, slots)? })
}

fn gather_values<'a>(
    kinds: &[ColumnKind],
    slots: impl Iterator<Item = (&'a MemoryBucket, usize)> + Clone,
) -> Result<Vec<ArrayRef>> {
    let capacity = slots.size_hint().0;
    kinds
        .iter()
        .enumerate()
        .map(|(number, kind)| {
            let mut gathering: Gathering<'_> = kind.gathering(capacity);
            for (bucket, slot) in slots.clone() {
                gathering.push(&bucket.columns[number], slot);
            }
            gathering.finish()
        })
        .collect()
}
