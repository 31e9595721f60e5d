use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};

use super::bucket::MemoryBucket;
use super::chains::{Chains, PrefixSpans};
use super::column::{ColumnKind, Gathering, Incoming};
use crate::error::{Result, corrupt};
use crate::state::{
    Bucket, Found, FoundRows, KeyHash, Keys, Layout, MemoryShare, StateRows, StateTable, StateUsage,
    StoredVersion, Version, VersionKind,
};

/// Most rows that are gathered at once.
const ROWS_MAX: usize = 8192;
/// Deltas after which a snapshot is taken, however small they are: so many files at most are read at a restart.
const DELTAS_MAX: u64 = 100;
/// Rows of deltas before which no snapshot is taken because of them.
const DELTA_ROWS_MIN: u64 = 10_000;

/// State in memory: columns whose values change in place, a set of them for each span of time that the layout names: of windows
/// for each end, of rows with many times for those that are near each other. A span that is over is dropped as a whole, and of
/// the one that is over in part the keys go in the order of their times.
///
/// A snapshot shares the spans with the table: one that changes while the snapshot is written is copied first.
pub struct MemoryTable {
    layout: Arc<Layout>,
    kinds: Arc<Vec<ColumnKind>>,
    spans: BTreeMap<i64, Arc<MemoryBucket>>,
    prefixes: PrefixSpans,
    changed: BTreeSet<i64>,
    memory: MemoryShare,
    keys: u64,
    spans_bytes: usize,
    evicted_until: Option<Bucket>,
    /// True if keys have gone since the last version.
    has_evicted: bool,
    /// Keys that were taken out by name since the last version.
    removed: Keys,
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
            spans: BTreeMap::new(),
            prefixes: PrefixSpans::default(),
            changed: BTreeSet::new(),
            memory,
            keys: 0,
            spans_bytes: 0,
            evicted_until: None,
            has_evicted: false,
            removed: Keys::default(),
            deltas: None,
        })
    }

    fn incoming(&self, values: &[ArrayRef]) -> Result<Vec<Incoming>> {
        assert_eq!(values.len(), self.kinds.len(), "a table keeps its columns");
        self.kinds.iter().zip(values).map(|(kind, values)| kind.incoming(values)).collect()
    }

    fn memory_bytes(&self) -> usize {
        self.spans_bytes + self.prefixes.memory_bytes() + self.removed.memory_bytes()
    }

    /// Sets rows of one span.
    fn set(
        &mut self,
        span: i64,
        rows: impl Iterator<Item = (Bucket, KeyHash, impl AsRef<[u8]>, usize)>,
        incoming: &[Incoming],
    ) -> Result<()> {
        let before = self.memory_bytes();
        let (kinds, layout) = (Arc::clone(&self.kinds), Arc::clone(&self.layout));
        let shared = self.spans.entry(span).or_insert_with(|| Arc::new(MemoryBucket::new(&kinds, &layout)));
        let found = Arc::make_mut(shared);
        let bytes = found.memory_bytes();
        for (bucket, hash, key, row) in rows {
            let (slot, is_new) = found.set(bucket, hash, key.as_ref(), incoming, row);
            self.keys += u64::from(is_new);
            if let (Some(chains), true) = (&mut found.chains, is_new) {
                let prefix = layout.prefix_of(found.keys.key(slot));
                let hash = KeyHash::of(prefix);
                if chains.add(&found.keys, &layout, hash) {
                    self.prefixes.add(hash, prefix, span);
                }
            }
        }
        self.spans_bytes = self.spans_bytes + found.memory_bytes() - bytes;
        self.changed.insert(span);
        let after = self.memory_bytes();
        if after > before { self.memory.grow(after - before) } else { Ok(()) }
    }

    fn wants_snapshot(&self, rows: u64) -> bool {
        match self.deltas {
            None => true,
            Some((count, earlier)) => count >= DELTAS_MAX || earlier + rows > self.keys.max(DELTA_ROWS_MIN),
        }
    }

    fn snapshot(&self) -> Version {
        let (layout, kinds) = (Arc::clone(&self.layout), Arc::clone(&self.kinds));
        let spans: Vec<_> = self.spans.values().cloned().collect();
        let rows = spans.into_iter().flat_map(move |span| {
            let (layout, kinds) = (Arc::clone(&layout), Arc::clone(&kinds));
            let parts = span.keys.len().div_ceil(ROWS_MAX);
            (0..parts).map(move |part| {
                let slots = part * ROWS_MAX..span.keys.len().min((part + 1) * ROWS_MAX);
                let slots = slots.filter(|slot| span.is_there(*slot));
                gather(&layout, &kinds, slots.map(|slot| (&*span, slot)))
            })
        });
        Version { kind: VersionKind::Snapshot, evicted_until: self.evicted_until, rows: Box::new(rows) }
    }

    fn apply(&mut self, rows: StateRows) -> Result<()> {
        let encoded = self.layout.encode_keys(&rows.keys)?;
        let incoming = self.incoming(&rows.values)?;
        let mut begin = 0;
        while begin < rows.len() {
            if rows.buckets[begin] == Bucket::REMOVED {
                let key = encoded.row(begin);
                let spans: Vec<i64> = self.spans.keys().copied().collect();
                spans.into_iter().for_each(|span| self.take_out(span, KeyHash::of(key.data()), key.data()));
                begin += 1;
                continue;
            }
            let span = self.layout.span(rows.buckets[begin]);
            let same = rows.buckets[begin..].iter().take_while(|bucket| self.layout.span(**bucket) == span);
            let count = same.count();
            let set = (begin..begin + count).map(|row| {
                // Without columns there are no bytes to encode.
                let key = if rows.keys.is_empty() { &[][..] } else { encoded.row(row).data() };
                (rows.buckets[row], KeyHash::of(key), key, row)
            });
            self.set(span, set, &incoming)?;
            begin += count;
        }
        Ok(())
    }

    /// Takes a key out of a span, if it is there.
    fn take_out(&mut self, span: i64, hash: KeyHash, key: &[u8]) {
        let Some(shared) = self.spans.get_mut(&span) else { return };
        if shared.keys.find(hash, key).is_none() {
            return;
        }
        let before = shared.memory_bytes();
        let content = Arc::make_mut(shared);
        self.keys -= u64::from(content.remove(hash, key));
        if content.is_sparse() {
            *shared = Arc::new(content.compacted(&self.kinds, &self.layout));
        }
        self.spans_bytes = self.spans_bytes + shared.memory_bytes() - before;
    }

    /// Keys that were taken out by name since the last version, as rows of the next one.
    fn take_removed(&mut self) -> Result<Vec<StateRows>> {
        let removed = std::mem::take(&mut self.removed);
        let parts = (0..removed.len()).step_by(ROWS_MAX);
        let part = |begin: usize| {
            let places = begin..removed.len().min(begin + ROWS_MAX);
            let nulls = |field: &arrow::datatypes::FieldRef| new_null_array(field.data_type(), places.len());
            Ok(StateRows {
                buckets: vec![Bucket::REMOVED; places.len()],
                hashes: places.clone().map(|at| removed.hash(at)).collect(),
                values: self.layout.values.iter().map(nulls).collect(),
                keys: self.layout.decode_keys(places.clone().map(|at| removed.key(at)))?,
            })
        };
        parts.map(part).collect()
    }

    /// Takes a span out.
    fn forget(&mut self, span: i64) -> Option<Arc<MemoryBucket>> {
        let content = self.spans.remove(&span)?;
        self.changed.remove(&span);
        self.keys -= content.len() as u64;
        self.spans_bytes -= content.memory_bytes();
        for (slot, hash) in content.chains.iter().flat_map(Chains::prefixes) {
            self.prefixes.remove(hash, self.layout.prefix_of(content.keys.key(slot)), span);
        }
        Some(content)
    }

    /// Takes out what is at a time or before; `take` gets the slots that were there.
    fn drop_until(
        &mut self,
        until: Bucket,
        mut take: impl FnMut(&MemoryBucket, &[usize]) -> Result<()>,
    ) -> Result<()> {
        while let Some(span) = self.spans.first_key_value().map(|(span, _)| *span)
            && self.layout.last_of_span(span) <= until
        {
            let Some(content) = self.forget(span) else { break };
            take(&content, &content.slots().collect::<Vec<_>>())?;
        }
        let partly = self.layout.span(until);
        let Some(shared) = self.spans.get_mut(&partly) else { return Ok(()) };
        let content = Arc::make_mut(shared);
        let bytes = content.memory_bytes();
        let slots = content.evict(until);
        self.spans_bytes = self.spans_bytes + content.memory_bytes() - bytes;
        self.keys -= slots.len() as u64;
        if !slots.is_empty() {
            take(content, &slots)?;
        }
        if content.len() == 0 {
            self.forget(partly);
        }
        Ok(())
    }
}

impl StateTable for MemoryTable {
    fn read(&self, keys: &Keys) -> Result<Found> {
        let mut found = Vec::with_capacity(keys.len());
        let mut last: Option<(i64, Option<&Arc<MemoryBucket>>)> = None;
        for at in 0..keys.len() {
            let span = self.layout.span(keys.bucket(at));
            let content = match last {
                Some((same, content)) if same == span => content,
                _ => self.spans.get(&span),
            };
            last = Some((span, content));
            let slot = content.and_then(|content| content.keys.find(keys.hash(at), keys.key(at)));
            if let (Some(content), Some(slot)) = (content, slot) {
                found.push((at, &**content, slot));
            }
        }
        let values = gather_values(&self.kinds, found.iter().map(|(_, bucket, slot)| (*bucket, *slot)))?;
        Ok(Found { places: found.iter().map(|(at, ..)| *at).collect(), values })
    }

    fn read_prefixed(&self, prefixes: &Keys) -> Result<FoundRows> {
        let (mut found, mut slots) = (FoundRows::default(), Vec::new());
        for at in 0..prefixes.len() {
            let (hash, prefix) = (prefixes.hash(at), prefixes.key(at));
            for content in self.prefixes.of(hash, prefix).filter_map(|span| self.spans.get(&span)) {
                let chains = content.chains.as_ref().expect("the layout has a prefix");
                for slot in chains.slots(&content.keys, &self.layout, hash, prefix) {
                    if !content.is_there(slot) {
                        continue;
                    }
                    found.places.push(at);
                    found.buckets.push(content.keys.bucket(slot));
                    found.key_bytes.extend_from_slice(content.keys.key(slot));
                    found.key_ends.push(found.key_bytes.len());
                    slots.push((&**content, slot));
                }
            }
        }
        found.values = gather_values(&self.kinds, slots.into_iter())?;
        Ok(found)
    }

    fn write(&mut self, keys: &Keys, values: &[ArrayRef]) -> Result<()> {
        let incoming = self.incoming(values)?;
        let mut by_span: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (at, bucket) in keys.buckets().iter().enumerate() {
            by_span.entry(self.layout.span(*bucket)).or_default().push(at);
        }
        for (span, places) in by_span {
            let rows = places.into_iter().map(|at| (keys.bucket(at), keys.hash(at), keys.key(at), at));
            self.set(span, rows, &incoming)?;
        }
        Ok(())
    }

    fn evict(&mut self, until: Bucket) -> Result<Vec<StateRows>> {
        let mut rows = Vec::new();
        let (layout, kinds) = (Arc::clone(&self.layout), Arc::clone(&self.kinds));
        self.drop_until(until, |content, slots| {
            for part in slots.chunks(ROWS_MAX) {
                rows.push(gather(&layout, &kinds, part.iter().map(|slot| (content, *slot)))?);
            }
            Ok(())
        })?;
        self.has_evicted |= !rows.is_empty();
        self.evicted_until = self.evicted_until.max(Some(until));
        Ok(rows)
    }

    fn remove(&mut self, keys: &Keys) -> Result<()> {
        assert!(!self.layout.has_prefix(), "rows that are looked up together go by their time");
        let before = self.memory_bytes();
        for at in 0..keys.len() {
            let (span, hash, key) = (self.layout.span(keys.bucket(at)), keys.hash(at), keys.key(at));
            self.take_out(span, hash, key);
            self.removed.insert(Bucket::REMOVED, hash, key);
        }
        let after = self.memory_bytes();
        if after > before { self.memory.grow(after - before) } else { Ok(()) }
    }

    fn scan(&self) -> Result<Vec<StateRows>> {
        self.snapshot().rows.collect()
    }

    fn version(&mut self) -> Result<Option<Version>> {
        let has_changed = !self.changed.is_empty() || !self.removed.is_empty() || self.has_evicted;
        if !has_changed && self.deltas.is_some() {
            return Ok(None);
        }
        self.has_evicted = false;
        let mut slots = Vec::new();
        for span in std::mem::take(&mut self.changed) {
            // No snapshot before shares it any more once that one is written, so this copies nothing then.
            let content = Arc::make_mut(self.spans.get_mut(&span).expect("a span that changed is there"));
            slots.extend(content.take_changed().into_iter().map(|slot| (span, slot as usize)));
        }
        let removed = self.take_removed()?;
        let rows = slots.len() as u64 + removed.iter().map(|rows| rows.len() as u64).sum::<u64>();
        if self.wants_snapshot(rows) {
            self.deltas = Some((0, 0));
            return Ok(Some(self.snapshot()));
        }
        let (count, earlier) = self.deltas.expect("without a snapshot one is wanted");
        self.deltas = Some((count + 1, earlier + rows));
        let parts: Result<Vec<_>> = slots
            .chunks(ROWS_MAX)
            .map(|part| {
                let slots = part.iter().map(|(span, slot)| (&*self.spans[span], *slot));
                gather(&self.layout, &self.kinds, slots)
            })
            .collect();
        let rows = removed.into_iter().chain(parts?).map(Ok);
        let (kind, evicted_until) = (VersionKind::Delta, self.evicted_until);
        Ok(Some(Version { kind, evicted_until, rows: Box::new(rows) }))
    }

    fn want_snapshot(&mut self) {
        self.deltas = None;
    }

    fn restore(&mut self, version: StoredVersion) -> Result<()> {
        match (version.kind, self.deltas) {
            (VersionKind::Snapshot, _) => {
                self.drop_until(Bucket::FOR_EVER, |_, _| Ok(()))?;
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
            self.drop_until(until, |_, _| Ok(()))?;
            self.evicted_until = self.evicted_until.max(Some(until));
        }
        for rows in version.rows {
            self.apply(rows)?;
        }
        for span in std::mem::take(&mut self.changed) {
            Arc::make_mut(self.spans.get_mut(&span).expect("it was set")).take_changed();
        }
        Ok(())
    }

    fn usage(&self) -> StateUsage {
        StateUsage { keys: self.keys, memory_bytes: self.memory_bytes() as u64 }
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
    let hash = |(bucket, slot): (&MemoryBucket, usize)| {
        if layout.has_prefix() {
            layout.partition_hash(bucket.keys.key(slot))
        } else {
            bucket.keys.hash(slot)
        }
    };
    let hashes = slots.clone().map(hash).collect();
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
