use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use super::storage::Storage;
use super::wire::{
    Manifest, SourcePosition, SparkMetadata, StateFile, commit_entry, offset_entry, write_state_file,
};
use super::{Base, OutputMarker, OutputPosition, base, check_output};
use crate::BatchId;
use crate::error::{Error, ErrorKind, Result, corrupt, invalid};
use crate::state::{PartVersion, TablePart};

/// Folder of the manifests.
pub(super) const MANIFESTS_FOLDER: &str = "yeoul/manifests";
/// Folder of the files of state.
const STATE_FOLDER: &str = "yeoul/state";
/// Folder of the manifests of transactions that may be committed, and whose markers are not set yet.
const PREPARED_FOLDER: &str = "yeoul/prepared";
/// Folders of Spark's logs.
const OFFSETS_FOLDER: &str = "offsets";
const COMMITS_FOLDER: &str = "commits";
/// File of the query's id.
pub(super) const METADATA_PATH: &str = "metadata";
/// How often a claim that another process was faster with is tried again.
const CLAIMS_MAX: usize = 100;

/// The place where a checkpoint becomes true: whoever sets its marker first has the epoch.
pub trait CommitMarker: Send {
    /// Sets the marker of the manifest's epoch, if it has none yet.
    ///
    /// # Errors
    /// If it cannot be known whether it is set.
    fn mark(&mut self, manifest: &Manifest) -> Result<Marked>;
}

/// Whether a marker was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// By this process, durably.
    Set,
    /// By another process before it.
    Taken,
}

/// Checkpoints of one query in a folder of a disk, or under a prefix of an object store:
///
/// | file | content |
/// | --- | --- |
/// | `metadata` | the query's id, as Spark writes it |
/// | `yeoul/manifests/N` | [`Manifest`] of epoch N, created only if it is absent |
/// | `yeoul/state/N-G-T` | the changes of table T in epoch N, or all of it, as the process of generation G wrote them; of a part of it with the part's first and last partition: `N-G-T-0-42` |
/// | `yeoul/prepared/N-G` | the manifest of an epoch whose transaction may be committed |
/// | `offsets/N`, `commits/N` | the same for Spark's tools |
///
/// A process that takes a query over claims the next epoch with a manifest of its own, whose generation is one greater. The
/// process before it finds its next epoch taken, and stops.
pub struct CheckpointStore {
    storage: Arc<dyn Storage>,
    retained: u64,
}

/// What a process that takes a query over needs to know and to check.
pub struct Claim<'a> {
    /// What each source is.
    pub sources: Vec<String>,
    /// What the state is of.
    pub state_identity: Option<String>,
    /// Where the sources of a new query begin.
    pub initial_offsets: Box<dyn FnOnce() -> Result<Vec<serde_json::Value>> + 'a>,
    /// Kafka's word on its output, if that is delivered exactly once.
    pub output: Option<OutputClaim>,
    /// Now, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Kafka's word on a query's output, once older processes are fenced.
#[derive(Debug, Clone)]
pub struct OutputClaim {
    /// Transactional id of the query.
    pub transactional_id: String,
    /// The last transaction that is committed.
    pub committed: Option<OutputMarker>,
    /// Generation of the newest claim just before that; none before the first. Who has claimed the query since is not fenced, or
    /// has fenced this process.
    pub newest: Option<u64>,
}

/// A query that was taken over.
#[derive(Debug)]
pub struct Recovered {
    /// The manifest from which it goes on: its own claim.
    pub manifest: Manifest,
    /// Whether it never ran before.
    pub is_new: bool,
    /// The contents of the manifest's files of state, in their order.
    pub state: Vec<Vec<u8>>,
    /// Checkpoints that could not be used, with the reasons.
    pub warnings: Vec<String>,
}

impl CheckpointStore {
    /// Opens the place of a query, which is made if need be, and keeps so many checkpoints.
    ///
    /// # Errors
    /// As [`Storage::prepare`].
    pub fn open(storage: Arc<dyn Storage>, retained: usize) -> Result<Self> {
        storage.prepare(&[
            MANIFESTS_FOLDER,
            STATE_FOLDER,
            PREPARED_FOLDER,
            OFFSETS_FOLDER,
            COMMITS_FOLDER,
        ])?;
        Ok(Self { storage, retained: retained as u64 })
    }

    /// Checks that a query can go on from here, without taking it over: its shape is that of the newest manifest that can be read.
    /// False if there is none: nobody has the query.
    ///
    /// # Errors
    /// As [`claim`](Self::claim), of what is `Invalid`.
    pub fn check(
        &self,
        sources: &[String],
        state_identity: Option<&str>,
        transactional_id: Option<&str>,
    ) -> Result<bool> {
        let query_id = self.query_id()?;
        let Some(newest) = self.newest_readable()? else { return Ok(false) };
        check_output(newest.output.as_ref(), transactional_id)?;
        check_same(&newest, &query_id, sources, state_identity)?;
        Ok(true)
    }

    /// What the state of the newest manifest that can be read is of; nothing if there is none.
    ///
    /// # Errors
    /// As the place reports.
    pub fn state_identity(&self) -> Result<Option<String>> {
        Ok(self.newest_readable()?.and_then(|newest| newest.state_identity))
    }

    /// Takes the query over: the process that had it, if there is one, completes no further checkpoint.
    ///
    /// # Errors
    /// `Invalid` if the checkpoint is of another query; `Corrupt` if no manifest can be used; `Conflict` if another process has
    /// claimed the query since Kafka was asked; as the place reports.
    pub fn claim(&mut self, claim: Claim<'_>) -> Result<Recovered> {
        let query_id = self.query_id()?;
        let run_id = Some(new_id());
        let mut initial_offsets = Some(claim.initial_offsets);
        let mut offsets = None;
        for _ in 0..CLAIMS_MAX {
            let (last, newest, mut warnings) = self.newest()?;
            if let Some(output) = &claim.output
                && output.newest != self.newest_generation()?
            {
                let text = format!("another process has claimed '{}' since", self.storage.display(""));
                return Err(Error::new(ErrorKind::Conflict, text));
            }
            let newest_generation = last.as_ref().map_or(0, |(last, _)| last.generation);
            let last = self.base(last, newest, claim.output.as_ref(), &mut warnings)?;
            let output = claim.output.clone().map(|output| OutputPosition {
                transactional_id: output.transactional_id,
                last: output.committed,
            });
            let batch = newest.map_or(BatchId::FIRST, BatchId::next);
            let is_new = last.is_none();
            let mut state = Vec::new();
            let manifest = match last {
                Some((last, contents)) => {
                    state = contents;
                    check_same(&last, &query_id, &claim.sources, claim.state_identity.as_deref())?;
                    self.write_spark_logs(&last)?;
                    let generation = last.generation.max(newest_generation) + 1;
                    let run_id = run_id.clone();
                    let rows_until = Some(last.rows_until());
                    Manifest {
                        generation,
                        run_id,
                        batch,
                        rows_until,
                        timestamp_ms: claim.now_ms,
                        output,
                        ..last
                    }
                }
                None if newest.is_some() => {
                    let text = format!("no checkpoint in '{}' can be used", self.storage.display(""));
                    return Err(corrupt(format!("{text}: {}", warnings.join("; "))));
                }
                None => {
                    if let Some(initial) = initial_offsets.take() {
                        offsets = Some(initial()?);
                    }
                    let offsets = offsets.clone().unwrap_or_default();
                    let sources = claim.sources.iter().cloned().zip(offsets);
                    let sources = sources.map(|(description, offset)| {
                        let marks = None;
                        SourcePosition { description, offset, marks }
                    });
                    Manifest {
                        query_id: query_id.clone(),
                        generation: 1,
                        run_id: run_id.clone(),
                        batch,
                        rows_until: None,
                        timestamp_ms: claim.now_ms,
                        watermark_ms: 0,
                        late_watermark_ms: 0,
                        incomplete_times_ms: Vec::new(),
                        sources: sources.collect(),
                        state_identity: claim.state_identity.clone(),
                        state_files: Vec::new(),
                        output,
                    }
                }
            };
            if self.mark(&manifest)? == Marked::Set {
                return Ok(Recovered { manifest, is_new, state, warnings });
            }
        }
        let place = self.storage.display("");
        let text = format!("{CLAIMS_MAX} times another process was faster to take '{place}' over");
        Err(Error::new(ErrorKind::Conflict, text).with_hint("run one process for a checkpoint"))
    }

    /// The checkpoint from which to go on: the last one, or a prepared one if its output is committed.
    fn base(
        &self,
        last: Option<Usable>,
        newest: Option<BatchId>,
        output: Option<&OutputClaim>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Usable>> {
        let covered = last.as_ref().and_then(|(last, _)| last.output.as_ref());
        let Some(output) = output else {
            check_output(covered, None)?;
            return Ok(last);
        };
        let marker = match base(covered, &output.transactional_id, output.committed)? {
            Base::LastCheckpoint => return Ok(last),
            Base::Prepared(marker) => marker,
        };
        let path = prepared(marker);
        let lost = |error: Error| {
            let text = format!(
                "the output of epoch {} is committed, and its checkpoint '{}' cannot be used",
                marker.batch,
                self.storage.display(&path)
            );
            corrupt(text).with_hint("to go on from an earlier one would give output again").with_source(error)
        };
        let bytes = present(&*self.storage, &path).map_err(lost)?;
        let manifest = Manifest::decode(&bytes).map_err(|error| lost(corrupt(error.to_string())))?;
        let state = self.state_of(&manifest).map_err(lost)?;
        if newest.is_some_and(|newest| newest >= marker.batch) {
            let name = self.storage.display(&path);
            warnings.push(format!("checkpoint '{name}' is used: later ones do not cover its output"));
        }
        Ok(Some((manifest, state)))
    }

    /// Stores the manifest of an epoch whose transaction is to be committed next.
    ///
    /// # Errors
    /// As the place reports.
    pub fn prepare(&self, manifest: &Manifest) -> Result<()> {
        let marker = OutputMarker { batch: manifest.batch, generation: manifest.generation };
        self.storage.replace(&prepared(marker), &manifest.encode())
    }

    /// Removes prepared manifests before that of the last committed transaction.
    fn prune_prepared(&self, manifest: &Manifest) -> Result<()> {
        let Some(last) = manifest.output.as_ref().and_then(|output| output.last) else { return Ok(()) };
        let last = prepared_name(last);
        self.remove_if(PREPARED_FOLDER, |name| name < last.as_str())
    }

    /// Removes files of a folder by their names. What an ended process was about to put in a file's place goes with the file: its
    /// name begins with the file's, or with a dot before it.
    fn remove_if(&self, folder: &str, is_old: impl Fn(&str) -> bool) -> Result<()> {
        let mut names = self.storage.list(folder)?;
        names.retain(|name| is_old(name.trim_start_matches('.')));
        self.storage.remove(folder, &names)
    }

    /// The query's id: that of the file `metadata`, which is made for a new query.
    ///
    /// # Errors
    /// `Corrupt` if the file cannot be read, or if a part of the checkpoint is missing; as the place reports.
    pub fn query_id(&self) -> Result<String> {
        if let Some(id) = self.known_id()? {
            self.check_manifests()?;
            return Ok(id);
        }
        if self.numbers(MANIFESTS_FOLDER)?.is_empty() && self.numbers(OFFSETS_FOLDER)?.is_empty() {
            let bytes = serde_json::to_vec(&SparkMetadata { id: new_id() }).map_err(io::Error::other)?;
            self.storage.create(METADATA_PATH, &bytes)?;
        }
        // Of processes that begin a query at the same time one gives it its id.
        self.known_id()?.ok_or_else(|| {
            // As Spark since 4.2: a new id would give everything out again.
            let name = self.storage.display(METADATA_PATH);
            corrupt(format!("'{name}' is missing, and the checkpoint is not empty"))
                .with_hint("restore it, or name an empty directory with --checkpoint to begin anew")
        })
    }

    /// Checks that manifests were not removed from under the rest: a query without any would begin anew, without a word.
    ///
    /// # Errors
    /// `Corrupt` if other files tell that the query has run, and no manifest does.
    fn check_manifests(&self) -> Result<()> {
        // A manifest is created before anything that the epoch leaves elsewhere, and the last one is never removed. So manifests are
        // listed after the rest: another process may create the first ones meanwhile.
        let mut has_run =
            !self.numbers(OFFSETS_FOLDER)?.is_empty() || !self.numbers(COMMITS_FOLDER)?.is_empty();
        for folder in [STATE_FOLDER, PREPARED_FOLDER] {
            has_run = has_run || !self.storage.list(folder)?.is_empty();
        }
        if !has_run || !self.storage.list(MANIFESTS_FOLDER)?.is_empty() {
            return Ok(());
        }
        let name = self.storage.display(MANIFESTS_FOLDER);
        Err(corrupt(format!("'{name}' has no manifest, and the checkpoint is not empty"))
            .with_hint("restore it, or name an empty directory with --checkpoint to begin anew"))
    }

    /// The id in the file `metadata`, if it is there.
    fn known_id(&self) -> Result<Option<String>> {
        let Some(bytes) = self.storage.read(METADATA_PATH)? else { return Ok(None) };
        let read: SparkMetadata = serde_json::from_slice(&bytes).map_err(|error| {
            let name = self.storage.display(METADATA_PATH);
            corrupt(format!("'{name}' is not a query's metadata")).with_source(error)
        })?;
        Ok(Some(read.id))
    }

    /// The generation of the newest manifest that can be read: of the process that has the query.
    ///
    /// # Errors
    /// As the place reports.
    pub fn newest_generation(&self) -> Result<Option<u64>> {
        Ok(self.newest_readable()?.map(|newest| newest.generation))
    }

    fn newest_readable(&self) -> Result<Option<Manifest>> {
        for number in self.numbers(MANIFESTS_FOLDER)?.into_iter().rev() {
            let bytes = present(&*self.storage, &manifest_path(BatchId(number)))?;
            if let Ok(manifest) = Manifest::decode(&bytes) {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// The newest manifest that can be used with its files of state, the newest number that is in use, and why others cannot be
    /// used.
    fn newest(&self) -> Result<(Option<Usable>, Option<BatchId>, Vec<String>)> {
        let numbers = self.numbers(MANIFESTS_FOLDER)?;
        let newest = numbers.last().copied().map(BatchId);
        let mut warnings = Vec::new();
        for number in numbers.iter().rev() {
            let path = manifest_path(BatchId(*number));
            let name = self.storage.display(&path);
            match Manifest::decode(&present(&*self.storage, &path)?) {
                Ok(manifest) if manifest.batch == BatchId(*number) => match self.state_of(&manifest) {
                    Ok(state) => return Ok((Some((manifest, state)), newest, warnings)),
                    // It may be whole: what cannot be reached is no reason to go on from an earlier one.
                    Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                    Err(error) => warnings.push(format!("checkpoint '{name}' is not used: {error}")),
                },
                Ok(manifest) => {
                    warnings.push(format!("checkpoint '{name}' is that of epoch {}", manifest.batch));
                }
                Err(error) => warnings.push(format!("checkpoint '{name}' is not used: {error}")),
            }
        }
        Ok((None, newest, warnings))
    }

    /// Contents of the files of state of a manifest.
    fn state_of(&self, manifest: &Manifest) -> Result<Vec<Vec<u8>>> {
        let read = |file: &StateFile| state_content(&*self.storage, file);
        manifest.state_files.iter().map(read).collect()
    }

    /// Writes a version of the state as the file of an epoch, which a manifest may name then.
    ///
    /// # Errors
    /// As the place reports; `Invalid` for a value that cannot be written.
    pub fn store(&self, batch: BatchId, generation: u64, version: PartVersion) -> Result<StateFile> {
        let PartVersion { part: TablePart { layout, partitions }, version } = version;
        let table = layout.name.clone();
        let part = if partitions.is_all() { String::new() } else { format!("-{partitions}") };
        let name = format!("{:020}-{generation}-{table}{part}", batch.0);
        let (kind, path) = (version.kind, format!("{STATE_FOLDER}/{name}"));
        let mut out = Checksummed { out: self.storage.begin(&path)?, bytes: 0, crc32c: 0 };
        write_state_file(&layout, version, &mut out)?;
        let Checksummed { out, bytes, crc32c } = out;
        out.finish()?;
        Ok(StateFile { table, name, kind, bytes, crc32c, partitions })
    }

    /// Numbers of a folder's files, in ascending order.
    fn numbers(&self, folder: &str) -> Result<Vec<u64>> {
        let names = self.storage.list(folder)?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Writes what Spark would have written of an epoch, if it is not there. We never read it.
    fn write_spark_logs(&self, manifest: &Manifest) -> Result<()> {
        let offsets: Vec<_> = manifest.sources.iter().map(|source| &source.offset).collect();
        let number = manifest.batch.to_string();
        let commit = format!("{COMMITS_FOLDER}/{number}");
        if self.storage.read(&commit)?.is_some() {
            return Ok(());
        }
        let offset = offset_entry(manifest.late_watermark_ms, manifest.timestamp_ms, &offsets);
        self.storage.replace(&format!("{OFFSETS_FOLDER}/{number}"), offset.as_bytes())?;
        self.storage.replace(&commit, commit_entry(manifest.watermark_ms).as_bytes())
    }

    /// Removes files of state that neither a retained checkpoint nor a prepared one names: they are older than the first of all.
    fn prune_state(&self) -> Result<()> {
        let Some(oldest) = self.numbers(MANIFESTS_FOLDER)?.first().copied().map(BatchId) else {
            return Ok(());
        };
        let mut prepared = self.storage.list(PREPARED_FOLDER)?;
        // What was not put in its place is not prepared.
        prepared.retain(|name| !name.contains('.'));
        let prepared = prepared.iter().map(|name| format!("{PREPARED_FOLDER}/{name}"));
        let mut firsts = Vec::new();
        for path in [manifest_path(oldest)].into_iter().chain(prepared) {
            // One that cannot be read may name any.
            let Ok(manifest) = Manifest::decode(&present(&*self.storage, &path)?) else { return Ok(()) };
            firsts.extend(manifest.state_files.into_iter().map(|file| file.name).min());
        }
        let Some(first) = firsts.into_iter().min() else { return Ok(()) };
        // Names are as long as each other up to the epoch's number, so their order is that of the epochs.
        self.remove_if(STATE_FOLDER, |name| name < first.as_str())
    }

    /// Removes what lies more than the retained checkpoints back.
    fn prune(&self, batch: BatchId) -> Result<()> {
        for folder in [MANIFESTS_FOLDER, OFFSETS_FOLDER, COMMITS_FOLDER] {
            self.remove_if(folder, |name| {
                let number = name.split('.').next().and_then(|number| number.parse::<u64>().ok());
                number.is_some_and(|number| number.saturating_add(self.retained) <= batch.0)
            })?;
        }
        self.prune_state()
    }
}

/// Path of an epoch's manifest.
pub(super) fn manifest_path(batch: BatchId) -> String {
    // With leading zeros, so that they are listed in their order.
    format!("{MANIFESTS_FOLDER}/{:020}", batch.0)
}

fn prepared_name(marker: OutputMarker) -> String {
    format!("{:020}-{}", marker.batch.0, marker.generation)
}

/// Path of a prepared manifest.
fn prepared(marker: OutputMarker) -> String {
    format!("{PREPARED_FOLDER}/{}", prepared_name(marker))
}

/// Content of a file that has to be there.
///
/// # Errors
/// `NotFound`, with its name, if it is not.
pub(super) fn present(storage: &dyn Storage, path: &str) -> Result<Vec<u8>> {
    storage
        .read(path)?
        .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("'{}' is not there", storage.display(path))))
}

/// Content of a file of state of a checkpoint.
///
/// # Errors
/// `Corrupt`, with its name, if it is not what was written.
pub(super) fn state_content(storage: &dyn Storage, file: &StateFile) -> Result<Vec<u8>> {
    let path = format!("{STATE_FOLDER}/{}", file.name);
    let bytes = present(storage, &path).map_err(|error| {
        let text = format!("cannot read '{}': {error}", storage.display(&path));
        // What cannot be reached is not damaged.
        let kind = if error.kind() == ErrorKind::NotFound { ErrorKind::Corrupt } else { error.kind() };
        Error::new(kind, text).with_source(error)
    })?;
    if bytes.len() as u64 != file.bytes || crc32c::crc32c(&bytes) != file.crc32c {
        let name = storage.display(&path);
        return Err(corrupt(format!("the content of '{name}' is not what was written")));
    }
    Ok(bytes)
}

/// A manifest with the contents of its files of state.
type Usable = (Manifest, Vec<Vec<u8>>);

/// A writer that knows the length and the checksum of what it wrote.
struct Checksummed<W> {
    out: W,
    bytes: u64,
    crc32c: u32,
}

impl<W: Write> Write for Checksummed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl CommitMarker for CheckpointStore {
    fn mark(&mut self, manifest: &Manifest) -> Result<Marked> {
        if !self.storage.create(&manifest_path(manifest.batch), &manifest.encode())? {
            return Ok(Marked::Taken);
        }
        // A process that stood still for longer than checkpoints are kept finds its number free again: those after it are another's.
        if self.numbers(MANIFESTS_FOLDER)?.last().is_some_and(|last| *last > manifest.batch.0) {
            return Ok(Marked::Taken);
        }
        self.write_spark_logs(manifest)?;
        if manifest.batch.0.is_multiple_of(self.storage.prune_interval()) {
            self.prune_prepared(manifest)?;
            self.prune(manifest.batch)?;
        }
        Ok(Marked::Set)
    }
}

impl fmt::Debug for CheckpointStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointStore").field("storage", &self.storage).finish_non_exhaustive()
    }
}

fn check_same(last: &Manifest, query_id: &str, sources: &[String], state: Option<&str>) -> Result<()> {
    let hint = "name another directory with --checkpoint to begin anew, or restore the query";
    let differs = |text: String| Err(invalid(text).with_hint(hint));
    if last.query_id != query_id {
        return differs(format!(
            "the checkpoint is of query {}, and its metadata of query {query_id}",
            last.query_id
        ));
    }
    let known: Vec<&str> = last.sources.iter().map(|source| source.description.as_str()).collect();
    if known != sources {
        return differs(format!(
            "the checkpoint is of the sources {}, the query reads {}",
            known.join(", "),
            sources.join(", ")
        ));
    }
    if last.state_identity.as_deref() != state {
        let (old, new) = (last.state_identity.as_deref().unwrap_or("nothing"), state.unwrap_or("nothing"));
        return differs(format!("the checkpoint has the state of {old}, the query keeps {new}"));
    }
    Ok(())
}

/// A random id in the form that Spark gives its queries.
pub fn new_id() -> String {
    let bits = fastrand::u128(..) & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
pub(super) mod tests;
