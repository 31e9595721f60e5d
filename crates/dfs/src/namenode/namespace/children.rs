use std::sync::Arc;

use crate::ids::InodeId;

/// Children of a chunk.
const CHUNK_CHILDREN_MAX: usize = 256;

/// The children of a directory in the order of their names' bytes. They are kept by number: the inodes have the names, and
/// whoever looks for one lends them. A copy shares the chunks that neither of the two changes.
#[derive(Clone, Debug, Default)]
pub struct Children {
    /// None of them is empty.
    chunks: Vec<Arc<Vec<InodeId>>>,
    count: usize,
}

/// Place of a child, or of one that is not there, in the order of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildPlace {
    chunk: usize,
    at: usize,
}

impl Children {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = InodeId> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().copied())
    }

    /// The child of a name with its place, or the place that one of this name would have.
    pub fn find<'a>(
        &self,
        name: &[u8],
        name_of: impl Fn(InodeId) -> &'a [u8],
    ) -> Result<(InodeId, ChildPlace), ChildPlace> {
        let begins_behind = self.chunks.partition_point(|chunk| name_of(chunk[0]) <= name);
        let chunk = begins_behind.saturating_sub(1);
        let Some(ids) = self.chunks.get(chunk) else { return Err(ChildPlace { chunk, at: 0 }) };
        match ids.binary_search_by(|id| name_of(*id).cmp(name)) {
            Ok(at) => Ok((ids[at], ChildPlace { chunk, at })),
            Err(at) => Err(ChildPlace { chunk, at }),
        }
    }

    /// The children behind a name, and how many these are.
    pub fn after<'a>(
        &self,
        name: &[u8],
        name_of: impl Fn(InodeId) -> &'a [u8],
    ) -> (impl Iterator<Item = InodeId>, usize) {
        let ChildPlace { chunk, at } = match self.find(name, name_of) {
            Ok((_, place)) => ChildPlace { at: place.at + 1, ..place },
            Err(place) => place,
        };
        let before = self.chunks[..chunk].iter().map(|chunk| chunk.len()).sum::<usize>() + at;
        let behind = self.chunks[chunk..].iter().flat_map(|chunk| chunk.iter().copied());
        (behind.skip(at), self.count - before)
    }

    /// Adds a child at the place that was found for its name.
    pub fn insert(&mut self, place: ChildPlace, id: InodeId) {
        self.count += 1;
        let ChildPlace { mut chunk, mut at } = place;
        let is_full = self.chunks.get(chunk).is_none_or(|ids| ids.len() >= CHUNK_CHILDREN_MAX);
        if is_full && at == self.chunks.get(chunk).map_or(0, |ids| ids.len()) {
            // Names that come in their order leave full chunks behind.
            chunk = (chunk + 1).min(self.chunks.len());
            at = 0;
            self.chunks.insert(chunk, Arc::default());
        } else if is_full {
            let behind = Arc::make_mut(&mut self.chunks[chunk]).split_off(CHUNK_CHILDREN_MAX / 2);
            self.chunks.insert(chunk + 1, Arc::new(behind));
            if at > CHUNK_CHILDREN_MAX / 2 {
                (chunk, at) = (chunk + 1, at - CHUNK_CHILDREN_MAX / 2);
            }
        }
        Arc::make_mut(&mut self.chunks[chunk]).insert(at, id);
    }

    /// Takes the child at a place out.
    pub fn remove(&mut self, place: ChildPlace) -> InodeId {
        let ChildPlace { chunk, at } = place;
        let ids = Arc::make_mut(&mut self.chunks[chunk]);
        let id = ids.remove(at);
        self.count -= 1;
        let fits = |ids: &Arc<Vec<InodeId>>, more: usize| ids.len() + more <= CHUNK_CHILDREN_MAX / 2;
        if ids.is_empty() {
            self.chunks.remove(chunk);
        } else if let Some(next) = self.chunks.get(chunk + 1)
            && fits(next, self.chunks[chunk].len())
        {
            let next = self.chunks.remove(chunk + 1);
            Arc::make_mut(&mut self.chunks[chunk]).extend_from_slice(&next);
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Names by number, in another order than the numbers.
    fn names() -> Vec<Vec<u8>> {
        (0..1500_u64).map(|id| (id * 7919 % 1500).to_string().into_bytes()).collect()
    }

    /// Changes children and a map in the same way, and compares all that can be asked.
    fn follow(steps: impl IntoIterator<Item = (bool, u64)>) {
        let names = names();
        let name_of = |id: InodeId| &names[id.0 as usize][..];
        let (mut children, mut model) = (Children::default(), BTreeMap::new());
        for (adds, id) in steps {
            let name = name_of(InodeId(id));
            match children.find(name, name_of) {
                Ok((found, place)) if !adds => {
                    assert_eq!(children.remove(place), found);
                    assert_eq!(model.remove(name), Some(found));
                }
                Err(place) if adds => {
                    children.insert(place, InodeId(id));
                    assert_eq!(model.insert(name, InodeId(id)), None);
                }
                found => assert_eq!(found.ok().map(|found| found.0), model.get(name).copied()),
            }
            let sizes = children.chunks.iter().map(|chunk| chunk.len());
            assert!(sizes.clone().all(|size| (1..=CHUNK_CHILDREN_MAX).contains(&size)));
            assert_eq!((sizes.sum(), children.len()), (model.len(), model.len()));
        }
        assert!(children.iter().eq(model.values().copied()));
        for name in names.iter().step_by(37).map(|name| &name[..]).chain([&b""[..], b"zzz"]) {
            let behind = (std::ops::Bound::Excluded(name), std::ops::Bound::Unbounded);
            let expected: Vec<InodeId> = model.range::<[u8], _>(behind).map(|(_, id)| *id).collect();
            let (found, count) = children.after(name, name_of);
            assert_eq!(count, expected.len());
            assert!(found.eq(expected));
        }
    }

    #[test]
    fn many_children_stay_in_the_order_of_their_names() {
        follow((0..1500).map(|id| (true, id)));
        let mut in_order: Vec<u64> = (0..1500).collect();
        in_order.sort_by_key(|id| names()[*id as usize].clone());
        let gone = in_order.iter().skip(3).map(|id| (false, *id));
        follow(in_order.iter().map(|id| (true, *id)).chain(gone.clone()));
        follow(in_order.iter().rev().map(|id| (true, *id)).chain(gone));
    }

    #[test]
    fn names_in_their_order_fill_chunks() {
        let names: Vec<Vec<u8>> = (0..1024).map(|id| format!("part-{id:05}").into_bytes()).collect();
        let name_of = |id: InodeId| &names[id.0 as usize][..];
        let mut children = Children::default();
        for id in 0..1024 {
            let place = children.find(name_of(InodeId(id)), name_of).unwrap_err();
            children.insert(place, InodeId(id));
        }
        assert_eq!(children.chunks.len(), 1024 / CHUNK_CHILDREN_MAX);
    }

    proptest! {
        #[test]
        fn children_are_a_map(steps in prop::collection::vec((any::<bool>(), 0..1500u64), 0..600)) {
            follow(steps);
        }
    }
}
