//! Rows by number, side by side in pages: the table of inodes, and that of blocks.

use std::sync::Arc;

use imbl::OrdMap;

/// Places by which a page that is full grows.
const PAGE_STEP: usize = 16;

/// An entry of a [`Table`], which knows its own number.
pub trait Row: Clone {
    /// Number of the row, which never changes.
    type Key: Copy + Ord;

    /// The number.
    fn key(&self) -> Self::Key;

    /// The page on which a row of this number is: numbers that are given out one after the other are to share one, 64 at most.
    fn page_of(key: Self::Key) -> u64;
}

/// Rows by number, packed: rows with neighbouring numbers stand side by side in pages. A copy of the table costs nothing and
/// shares the pages that neither of the two changes.
#[derive(Clone, Debug)]
pub struct Table<R> {
    pages: OrdMap<u64, Arc<Vec<R>>>,
    count: usize,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self { pages: OrdMap::new(), count: 0 }
    }
}

impl<R: Row> Table<R> {
    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A row by its number.
    pub fn get(&self, key: R::Key) -> Option<&R> {
        let page = self.pages.get(&R::page_of(key))?;
        page.binary_search_by_key(&key, R::key).ok().map(|at| &page[at])
    }

    /// A row by its number, to be changed in all but that.
    pub fn get_mut(&mut self, key: R::Key) -> Option<&mut R> {
        let page = self.pages.get_mut(&R::page_of(key))?;
        let at = page.binary_search_by_key(&key, R::key).ok()?;
        Some(&mut Arc::make_mut(page)[at])
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If there is one of this number.
    pub fn insert(&mut self, row: R) {
        let key = row.key();
        let page = Arc::make_mut(self.pages.entry(R::page_of(key)).or_default());
        let at = page.binary_search_by_key(&key, R::key).expect_err("a row is made once");
        if page.len() == page.capacity() {
            page.reserve_exact(PAGE_STEP);
        }
        page.insert(at, row);
        self.count += 1;
    }

    /// Takes a row out, if it is there.
    pub fn remove(&mut self, key: R::Key) -> Option<R> {
        let number = R::page_of(key);
        let page = self.pages.get_mut(&number)?;
        let at = page.binary_search_by_key(&key, R::key).ok()?;
        let page = Arc::make_mut(page);
        let row = page.remove(at);
        if page.is_empty() {
            self.pages.remove(&number);
        } else if page.capacity() >= page.len() + 2 * PAGE_STEP {
            page.shrink_to(page.len().next_multiple_of(PAGE_STEP));
        }
        self.count -= 1;
        Some(row)
    }

    /// All rows, those of a page in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.pages.values().flat_map(|page| page.iter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Numbered(u32, u8);

    impl Row for Numbered {
        type Key = u32;

        fn key(&self) -> u32 {
            self.0
        }

        fn page_of(key: u32) -> u64 {
            (key / 64).into()
        }
    }

    fn rows(table: &Table<Numbered>) -> Vec<(u32, u8)> {
        table.iter().map(|row| (row.0, row.1)).collect()
    }

    proptest! {
        /// A table is a map, and a copy of it stays as it was.
        #[test]
        fn a_table_is_a_map_and_a_copy_stays_as_it_was(steps in prop::collection::vec((0..4u8, 0..200u32), 0..400)) {
            let (mut table, mut model) = (Table::default(), BTreeMap::new());
            let mut copy = (table.clone(), rows(&table));
            for (at, (step, key)) in steps.into_iter().enumerate() {
                let value = at as u8;
                match step {
                    0 if !model.contains_key(&key) => {
                        table.insert(Numbered(key, value));
                        model.insert(key, value);
                    }
                    1 => prop_assert_eq!(table.remove(key).map(|row| row.1), model.remove(&key)),
                    2 => {
                        if let Some(row) = table.get_mut(key) {
                            row.1 = value;
                            *model.get_mut(&key).unwrap() = value;
                        }
                    }
                    _ if at % 7 == 0 => copy = (table.clone(), rows(&table)),
                    _ => {}
                }
                prop_assert_eq!(table.get(key).map(|row| row.1), model.get(&key).copied());
                prop_assert_eq!(table.count(), model.len());
            }
            prop_assert_eq!(rows(&table), model.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(rows(&copy.0), copy.1);
        }
    }

    #[test]
    fn a_page_that_empties_gives_its_memory_back() {
        let mut table = Table::default();
        (0..64).for_each(|key| table.insert(Numbered(key, 0)));
        for key in 1..64 {
            let _ = table.remove(key);
        }
        assert!(table.pages[&0].capacity() <= 2 * PAGE_STEP);
        table.remove(0);
        assert!(table.pages.is_empty());
    }
}
