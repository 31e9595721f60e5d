use super::wire::StateFile;
use crate::error::{Result, corrupt};
use crate::state::{PartitionSet, TablePart, VersionKind};

/// Files from which a part of a table is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartFiles {
    /// Those of a part with the same partitions, by their places in the manifest, in their order.
    Same(Vec<usize>),
    /// Those of parts with other partitions, part by part: the query had another number of threads. Of their rows, those of the
    /// wanted partitions are taken, and the next version has to be a snapshot.
    Other(Vec<Vec<usize>>),
}

/// Files of a manifest from which a part of a table is restored.
///
/// # Errors
/// `Corrupt` if the table's files do not hold each partition once.
pub fn files_of_part(files: &[StateFile], part: &TablePart) -> Result<PartFiles> {
    let mut parts: Vec<(PartitionSet, Vec<usize>)> = Vec::new();
    for (place, file) in files.iter().enumerate().filter(|(_, file)| file.table == part.layout.name) {
        match parts.iter_mut().find(|(partitions, _)| *partitions == file.partitions) {
            Some((_, places)) => places.push(place),
            None => parts.push((file.partitions, vec![place])),
        }
    }
    let mut seen = PartitionSet::EMPTY;
    for (partitions, _) in &parts {
        if seen.overlaps(*partitions) {
            let text = format!("the checkpoint holds partitions of the table '{}' twice", part.layout.name);
            return Err(corrupt(text));
        }
        seen = seen.with(*partitions);
    }
    if !parts.is_empty() && !seen.is_all() {
        let text =
            format!("the checkpoint holds the partitions {seen} of the table '{}' alone", part.layout.name);
        return Err(corrupt(text));
    }
    if let Some((_, places)) = parts.iter().find(|(partitions, _)| *partitions == part.partitions) {
        return Ok(PartFiles::Same(places.clone()));
    }
    if parts.is_empty() {
        return Ok(PartFiles::Same(Vec::new()));
    }
    let is_needed = |(partitions, _): &(PartitionSet, Vec<usize>)| partitions.overlaps(part.partitions);
    Ok(PartFiles::Other(parts.into_iter().filter(is_needed).map(|(_, places)| places).collect()))
}

/// Adds the files of an epoch to those of the checkpoint before: a snapshot takes the place of all earlier files of its partitions.
///
/// # Panics
/// If partitions would be lost, or be there twice.
pub fn add_state_files(files: &mut Vec<StateFile>, new: Vec<StateFile>) {
    let is_snapshot = |file: &StateFile| file.kind == VersionKind::Snapshot;
    let kept = |earlier: &StateFile| {
        let replacing = new.iter().filter(|file| is_snapshot(file) && file.table == earlier.table);
        let replaced = replacing.map(|file| file.partitions).fold(PartitionSet::EMPTY, PartitionSet::with);
        let is_kept = !earlier.partitions.overlaps(replaced);
        assert!(
            is_kept || earlier.partitions.is_within(replaced),
            "snapshots of the partitions {replaced} of '{}' take the place of some of {} alone",
            earlier.table,
            earlier.partitions
        );
        is_kept
    };
    files.retain(kept);
    for file in &new {
        let is_strange = |other: &&StateFile| {
            other.table == file.table
                && other.partitions != file.partitions
                && other.partitions.overlaps(file.partitions)
        };
        let strange = files.iter().chain(&new).find(is_strange);
        assert!(strange.is_none(), "'{}' and {strange:?} share some of their partitions", file.name);
    }
    files.extend(new);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::ErrorKind;
    use crate::state::Layout;

    fn file(number: u64, table: &str, partitions: PartitionSet, kind: VersionKind) -> StateFile {
        let name = format!("{number}-{table}-{partitions}");
        StateFile { table: table.to_owned(), name, kind, bytes: 0, crc32c: 0, partitions }
    }

    fn part(table: &str, partitions: PartitionSet) -> TablePart {
        TablePart { layout: Arc::new(Layout::new(table, Vec::new(), Vec::new()).unwrap()), partitions }
    }

    fn names(files: &[StateFile]) -> Vec<&str> {
        files.iter().map(|file| file.name.as_str()).collect()
    }

    #[test]
    fn a_snapshot_takes_the_place_of_earlier_files_of_its_partitions_alone() {
        use VersionKind::{Delta, Snapshot};
        let [low, high] = PartitionSet::of_shards(2)[..] else { unreachable!() };
        let mut files = Vec::new();
        add_state_files(&mut files, vec![file(1, "a", low, Snapshot), file(1, "a", high, Snapshot)]);
        add_state_files(
            &mut files,
            vec![file(2, "a", low, Delta), file(2, "b", PartitionSet::ALL, Snapshot)],
        );
        add_state_files(&mut files, vec![file(3, "a", low, Snapshot), file(3, "a", high, Delta)]);
        assert_eq!(names(&files), ["1-a-64-127", "2-b-0-127", "3-a-0-63", "3-a-64-127"]);
        // Another number of threads: the first checkpoint after that is whole.
        let thirds = PartitionSet::of_shards(3);
        let whole = thirds.iter().map(|partitions| file(4, "a", *partitions, Snapshot)).collect();
        add_state_files(&mut files, whole);
        assert_eq!(names(&files), ["2-b-0-127", "4-a-0-42", "4-a-43-85", "4-a-86-127"]);
    }

    #[test]
    #[should_panic(expected = "take the place of some of 0-127 alone")]
    fn a_snapshot_of_some_partitions_does_not_drop_the_others() {
        let [low, _] = PartitionSet::of_shards(2)[..] else { unreachable!() };
        let mut files = vec![file(1, "a", PartitionSet::ALL, VersionKind::Snapshot)];
        add_state_files(&mut files, vec![file(2, "a", low, VersionKind::Snapshot)]);
    }

    #[test]
    #[should_panic(expected = "share some of their partitions")]
    fn changes_of_some_partitions_do_not_follow_a_snapshot_of_others() {
        let [low, _] = PartitionSet::of_shards(2)[..] else { unreachable!() };
        let mut files = vec![file(1, "a", PartitionSet::ALL, VersionKind::Snapshot)];
        add_state_files(&mut files, vec![file(2, "a", low, VersionKind::Delta)]);
    }

    #[test]
    fn a_part_is_restored_from_files_of_its_own_or_of_all_that_have_its_partitions() {
        use VersionKind::{Delta, Snapshot};
        let thirds = PartitionSet::of_shards(3);
        let mut files: Vec<StateFile> = thirds.iter().map(|set| file(1, "a", *set, Snapshot)).collect();
        files.push(file(1, "b", PartitionSet::ALL, Snapshot));
        files.push(file(2, "a", thirds[1], Delta));
        let found = |table: &str, partitions| files_of_part(&files, &part(table, partitions)).unwrap();
        assert_eq!(found("a", thirds[1]), PartFiles::Same(vec![1, 4]));
        assert_eq!(found("a", thirds[2]), PartFiles::Same(vec![2]));
        assert_eq!(found("b", PartitionSet::ALL), PartFiles::Same(vec![3]));
        assert_eq!(found("new", thirds[0]), PartFiles::Same(Vec::new()));
        let halves = PartitionSet::of_shards(2);
        assert_eq!(found("a", halves[0]), PartFiles::Other(vec![vec![0], vec![1, 4]]));
        assert_eq!(found("a", PartitionSet::ALL), PartFiles::Other(vec![vec![0], vec![1, 4], vec![2]]));
        let refused = |files: &[StateFile]| files_of_part(files, &part("a", halves[0])).unwrap_err();
        for (files, expected) in [
            (files[..2].to_vec(), "holds the partitions 0-85 of the table 'a' alone"),
            (
                vec![file(1, "a", halves[0], Snapshot), file(1, "a", PartitionSet::ALL, Snapshot)],
                "holds partitions of the table 'a' twice",
            ),
        ] {
            let error = refused(&files);
            assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(expected), "{error}");
        }
    }
}
