use std::sync::Arc;
use std::thread;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter;

use crate::checkpoint::wire::{Manifest, read_state_file};
use crate::checkpoint::{PartFiles, files_of_part};
use crate::error::{Error, ErrorKind, Result, computing, corrupt};
use crate::state::{
    MemoryShare, MemoryTable, PartitionSet, StateRows, StateTable, StoredVersion, TablePart, VersionKind,
};

/// The parts of tables that a checkpoint holds, each on a thread of its own if there are several. Parts whose partitions are not
/// those of the checkpoint give a snapshot next, so that files of both never overlap.
///
/// # Errors
/// `Corrupt` if the checkpoint is of other tables; as the tables.
pub fn restored(
    parts: &[TablePart],
    memory: &MemoryShare,
    manifest: &Manifest,
    contents: Vec<Vec<u8>>,
) -> Result<Vec<Box<dyn StateTable>>> {
    let files = &manifest.state_files;
    if let Some(file) = files.iter().find(|file| parts.iter().all(|part| part.layout.name != file.table)) {
        return Err(corrupt(format!("the checkpoint has a table '{}' of no operator", file.table)));
    }
    let of_parts: Result<Vec<_>> = parts.iter().map(|part| files_of_part(files, part)).collect();
    let of_parts = of_parts?;
    // Each file is of one part, whose thread takes it, or several threads read it.
    let mut left: Vec<Option<Vec<u8>>> = contents.into_iter().map(Some).collect();
    let mut shared: Vec<Option<StoredVersion>> = left.iter().map(|_| None).collect();
    for (part, of_part) in parts.iter().zip(&of_parts) {
        let PartFiles::Other(chains) = of_part else { continue };
        for place in chains.iter().flatten() {
            if let Some(content) = left[*place].take() {
                shared[*place] = Some(read_state_file(&part.layout, content)?);
            }
        }
    }
    let works: Vec<_> = (parts.iter().zip(of_parts))
        .map(|(part, of_part)| {
            let own: Vec<Vec<u8>> = match &of_part {
                PartFiles::Same(places) => places.iter().filter_map(|place| left[*place].take()).collect(),
                PartFiles::Other(_) => Vec::new(),
            };
            let shared = &shared;
            move || match of_part {
                PartFiles::Same(_) => from_own(part, memory, own),
                PartFiles::Other(chains) => from_others(part, memory, &chains, shared),
            }
        })
        .collect();
    let is_divided = parts.iter().any(|part| !part.partitions.is_all());
    let tables: Vec<Result<MemoryTable>> = if is_divided {
        thread::scope(|scope| {
            let threads: Vec<_> = works.into_iter().map(|work| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(broke()))).collect()
        })
    } else {
        works.into_iter().map(|work| work()).collect()
    };
    tables.into_iter().map(|table| Ok(Box::new(table?) as Box<dyn StateTable>)).collect()
}

/// A part from files of the same partitions.
fn from_own(part: &TablePart, memory: &MemoryShare, files: Vec<Vec<u8>>) -> Result<MemoryTable> {
    let mut table = MemoryTable::new(Arc::clone(&part.layout), memory.clone())?;
    for file in files {
        let version = read_state_file(&part.layout, file)?;
        if !part.partitions.is_all() {
            check(part, &version)?;
        }
        table.restore(version)?;
    }
    Ok(table)
}

/// A part from the versions of parts with other partitions, each a chain that begins with a snapshot.
fn from_others(
    part: &TablePart,
    memory: &MemoryShare,
    chains: &[Vec<usize>],
    versions: &[Option<StoredVersion>],
) -> Result<MemoryTable> {
    let mut table = MemoryTable::new(Arc::clone(&part.layout), memory.clone())?;
    let own = |place: &usize| {
        let version = versions[*place].as_ref().expect("files of other partitions were read");
        rows_within(version, part.partitions)
    };
    for (number, chain) in chains.iter().enumerate() {
        if number == 0 {
            for place in chain {
                table.restore(own(place)?)?;
            }
            continue;
        }
        // What had gone by a version is of its own chain, so that is restored for itself.
        let mut other = MemoryTable::new(Arc::clone(&part.layout), memory.clone())?;
        for place in chain {
            other.restore(own(place)?)?;
        }
        let rows = other.scan()?;
        table.restore(StoredVersion { kind: VersionKind::Delta, evicted_until: None, rows })?;
    }
    table.want_snapshot();
    Ok(table)
}

/// The rows of a version whose keys are in these partitions.
fn rows_within(version: &StoredVersion, partitions: PartitionSet) -> Result<StoredVersion> {
    let within = |rows: &StateRows| -> Result<StateRows> {
        let is_within: Vec<bool> =
            rows.hashes.iter().map(|hash| partitions.contains(hash.partition())).collect();
        let kept = |at: &usize| is_within[*at];
        let places: Vec<usize> = (0..rows.len()).filter(kept).collect();
        let mask = BooleanArray::from(is_within);
        let filtered = |columns: &[ArrayRef]| -> Result<Vec<ArrayRef>> {
            columns.iter().map(|column| filter(column, &mask).map_err(computing)).collect()
        };
        Ok(StateRows {
            buckets: places.iter().map(|at| rows.buckets[*at]).collect(),
            hashes: places.iter().map(|at| rows.hashes[*at]).collect(),
            keys: filtered(&rows.keys)?,
            values: filtered(&rows.values)?,
        })
    };
    let rows: Result<Vec<_>> = version.rows.iter().map(within).collect();
    Ok(StoredVersion { kind: version.kind, evicted_until: version.evicted_until, rows: rows? })
}

/// Checks that a file has keys of its part alone.
fn check(part: &TablePart, version: &StoredVersion) -> Result<()> {
    let hashes = version.rows.iter().flat_map(|rows| &rows.hashes);
    match hashes.map(|hash| hash.partition()).find(|partition| !part.partitions.contains(*partition)) {
        None => Ok(()),
        Some(stray) => Err(corrupt(format!(
            "a file of the partitions {} of '{}' has a key of partition {}",
            part.partitions, part.layout.name, stray.0
        ))),
    }
}

fn broke() -> Error {
    Error::new(ErrorKind::Internal, "a thread that reads state broke")
}
