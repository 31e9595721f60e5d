//! Applies the entries of a file to options.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::file::Entry;
use super::references::{Environment, Values};
use super::{Found, Group, Level, find, master_endpoint, promises_security, table, value};
use crate::master::slots::Balance;
use crate::{Error, Kind, Result, master, worker};

/// What the person who starts the server is told, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A key that is not in the table, with a similar one that is.
    Unknown {
        /// The key.
        key: String,
        /// Its line.
        line: usize,
        /// A documented key that is nearly the same.
        similar: Option<&'static str>,
    },
    /// A key that changes nothing here.
    Ineffective {
        /// The key.
        key: String,
        /// Its line.
        line: usize,
        /// Why.
        note: &'static str,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, line, similar: None } => write!(f, "line {line}: unknown key {key}"),
            Self::Unknown { key, line, similar: Some(similar) } => {
                write!(f, "line {line}: unknown key {key}; did you mean {similar}?")
            }
            Self::Ineffective { key, line, note } => {
                write!(f, "line {line}: {key} changes nothing here: {note}")
            }
        }
    }
}

/// Applies a file's entries to a master's options. `environment` has what their values refer to as `${env:NAME}`.
///
/// # Errors
/// `Invalid` for a value that its key does not take or that refers to something that does not exist, and for settings
/// that are refused.
pub fn to_master(
    entries: &[Entry],
    environment: &Environment<'_>,
    options: &mut master::Options,
) -> Result<Vec<Notice>> {
    apply(entries, environment, |name, entry| set_master(name, entry, options))
}

/// Applies a file's entries to a worker's options. `environment` has what their values refer to as `${env:NAME}`.
///
/// # Errors
/// As for [`to_master`].
pub fn to_worker(
    entries: &[Entry],
    environment: &Environment<'_>,
    options: &mut worker::Options,
) -> Result<Vec<Notice>> {
    apply(entries, environment, |name, entry| set_worker(name, entry, options))
}

/// The variable, if set, by which Celeborn's scripts give a worker's JVM its memory, which is not read here; `is_set`
/// looks in the environment.
pub fn unread_memory(is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    ["CELEBORN_WORKER_OFFHEAP_MEMORY", "CELEBORN_WORKER_MEMORY"].into_iter().find(|name| is_set(name))
}

/// Replaces the references in an entry. It is called only when the value is needed: what a master's settings refer to
/// may not exist where workers run.
type Resolve<'a> = dyn Fn() -> Result<Entry> + 'a;

/// Calls `set` with each entry that counts and is honoured, by the present name of its key.
fn apply(
    entries: &[Entry],
    environment: &Environment<'_>,
    mut set: impl FnMut(&str, &Resolve<'_>) -> Result<()>,
) -> Result<Vec<Notice>> {
    let found: Vec<Option<Found<'_>>> = entries.iter().map(|entry| find(&entry.key)).collect();
    let values = Values::new(entries, &found, environment);
    let mut notices = Vec::new();
    let mut unknown = BTreeSet::new();
    for (at, (entry, found)) in entries.iter().zip(&found).enumerate() {
        let (key, line) = (entry.key.clone(), entry.line);
        let Some(Found { setting, name, .. }) = found else {
            if promises_security(&entry.key) && !is_off(&entry.value) {
                return Err(refused(entry, "nothing here keeps what it promises"));
            }
            if unknown.insert(&entry.key) {
                let similar = if unknown.len() <= SUGGESTIONS_MAX { similar(&entry.key) } else { None };
                notices.push(Notice::Unknown { key, line, similar });
            }
            continue;
        };
        if !values.counts(name, at) {
            continue;
        }
        match setting.level {
            Level::Honoured if setting.group == Group::Network => {
                let is_of_clients = CLIENT_MODULES.iter().any(|module| name.starts_with(module));
                if entry.value != setting.default && !is_of_clients {
                    notices.push(Notice::Ineffective { key, line, note: BY_CLIENT });
                }
            }
            // `<localhost>` and the like: what Celeborn finds out by itself, as we do.
            Level::Honoured if entry.value == setting.default && entry.value.starts_with('<') => {}
            Level::Honoured => set(name, &|| values.resolved(entry))?,
            Level::OtherMechanism | Level::NoEffect if entry.value != setting.default => {
                notices.push(Notice::Ineffective { key, line, note: setting.note });
            }
            Level::OtherMechanism | Level::NoEffect => {}
            Level::Refused => {
                let entry = values.resolved(entry)?;
                if !entry.value.eq_ignore_ascii_case(setting.default) {
                    return Err(refused(&entry, setting.note));
                }
            }
        }
    }
    Ok(notices)
}

/// Whether a value turns off what its key is about.
fn is_off(value: &str) -> bool {
    value.is_empty() || value.eq_ignore_ascii_case("false")
}

/// The error for a setting that would promise what is not kept. A secret is not repeated in it.
fn refused(entry: &Entry, why: &str) -> Error {
    let Entry { key, value, line } = entry;
    let lower = key.to_ascii_lowercase();
    let is_secret = ["password", "secret", "token"].iter().any(|word| lower.contains(word));
    let value = if is_secret { "…" } else { value };
    let hint = "remove the line; docs/reference/shuffle-settings.md lists what each key does";
    Error::new(Kind::Invalid, format!("line {line}: {key} = {value:.80} is refused: {why}")).with_hint(hint)
}

/// Prefixes of the network keys that in Celeborn are the clients', whoever's file they are in; by the others its
/// servers connect to each other and keep their clients' connections. Here only clients honour network keys.
const CLIENT_MODULES: [&str; 2] = ["celeborn.rpc_app.", "celeborn.data."];

/// Why any other network key changes nothing in a server's file.
const BY_CLIENT: &str = "clients have it in their own settings, and servers have limits of their own";

/// The most unknown keys for which a similar one is looked up: a file with more is hardly a settings file.
const SUGGESTIONS_MAX: usize = 8;

/// The most letters by which a key may differ from a similar one.
const DISTANCE_MAX: usize = 3;

/// A documented key that is nearly the same.
fn similar(key: &str) -> Option<&'static str> {
    // A distance takes time in proportion to the product of two lengths.
    let len = key.chars().count();
    let near = table()
        .iter()
        .filter(|setting| setting.key.len().abs_diff(len) <= DISTANCE_MAX)
        .filter(|setting| letters_apart(setting.key, key) <= DISTANCE_MAX);
    let distances = near.map(|setting| (strsim::levenshtein(setting.key, key), setting.key));
    distances.min().filter(|(distance, _)| *distance <= DISTANCE_MAX).map(|(_, key)| key)
}

/// Letters that one has and the other lacks, wherever they stand: never more than the edits between the two.
fn letters_apart(one: &str, other: &str) -> usize {
    let mut more = [0_isize; 64];
    let place = |letter: char| letter as usize % 64;
    one.chars().for_each(|letter| more[place(letter)] += 1);
    other.chars().for_each(|letter| more[place(letter)] -= 1);
    let ours: isize = more.iter().filter(|count| **count > 0).sum();
    let theirs: isize = more.iter().filter(|count| **count < 0).sum();
    ours.max(-theirs).unsigned_abs()
}

/// Sets an option that a master honours; other honoured keys are a worker's or the client's.
fn set_master(name: &str, entry: &Resolve<'_>, options: &mut master::Options) -> Result<()> {
    let limits = &mut options.limits;
    match name {
        "celeborn.master.host" => options.host = entry()?.value,
        "celeborn.master.port" => options.port = port(&entry()?)?,
        "celeborn.master.http.port" => {
            options.http_port = Some(port(&entry()?)?);
        }
        "celeborn.master.http.host" => options.http_host = Some(entry()?.value),
        "celeborn.master.ha.ratis.raft.server.storage.dir" => {
            options.dir = Some(PathBuf::from(entry()?.value))
        }
        "celeborn.master.heartbeat.application.timeout" => {
            limits.application_timeout = time_from(SILENCE_MIN, &entry()?)?
        }
        "celeborn.master.heartbeat.worker.timeout" => {
            limits.worker_timeout = time_from(SILENCE_MIN, &entry()?)?
        }
        "celeborn.master.workerUnavailableInfo.expireTimeout" => {
            let entry = entry()?;
            limits.unavailable_kept = if entry.value == "-1" { Duration::MAX } else { time(&entry)? };
        }
        "celeborn.master.slot.assign.extraSlots" => limits.slots.spare_workers = count(&entry()?)?,
        "celeborn.master.slot.assign.maxWorkers" => limits.slots.workers_max = count(&entry()?)?,
        "celeborn.master.slot.assign.policy" => {
            let policy = |text: &str| match text.to_ascii_uppercase().as_str() {
                "ROUNDROBIN" => Some(Balance::Even),
                "LOADAWARE" => Some(Balance::Load),
                _ => None,
            };
            limits.slots.balance = parse(&entry()?, "ROUNDROBIN or LOADAWARE", policy)?;
        }
        "celeborn.tags.enabled" => limits.tags_enabled = truth(&entry()?)?,
        "celeborn.storage.availableTypes" => storage_types(&entry()?)?,
        _ => {}
    }
    Ok(())
}

/// Sets an option that a worker honours; other honoured keys are a master's or the client's.
fn set_worker(name: &str, entry: &Resolve<'_>, options: &mut worker::Options) -> Result<()> {
    let size = || parse(&entry()?, "a size such as 8m", value::bytes);
    match name {
        "celeborn.master.endpoints" => {
            let endpoints = |text: &str| list(text).iter().map(|text| master_endpoint(text).ok()).collect();
            options.masters = parse(&entry()?, "masters as HOST:PORT", endpoints)?;
        }
        "celeborn.worker.rpc.port" => options.rpc_port = port(&entry()?)?,
        "celeborn.worker.push.port" => options.push_ports = vec![port(&entry()?)?],
        "celeborn.worker.fetch.port" => options.fetch_port = port(&entry()?)?,
        "celeborn.worker.replicate.port" => options.replicate_port = port(&entry()?)?,
        "celeborn.worker.http.port" => options.http_port = Some(port(&entry()?)?),
        "celeborn.worker.http.host" => options.http_host = Some(entry()?.value),
        "celeborn.worker.storage.dirs" => {
            let entry = entry()?;
            let directories = list(&entry.value);
            let directories: Result<Vec<_>> =
                directories.iter().map(|text| storage_directory(&entry, text)).collect();
            (options.directories, options.capacities) = (Vec::new(), BTreeMap::new());
            for (path, capacity) in directories? {
                options.capacities.extend(capacity.map(|bytes| (path.clone(), bytes)));
                options.directories.push(path);
            }
        }
        "celeborn.worker.storage.disk.reserve.size" => options.disk_reserve_bytes = Some(size()?),
        "celeborn.shuffle.chunk.size" => options.chunk_bytes = size()?,
        "celeborn.worker.shuffle.partitionSplit.enabled" => options.split_enabled = truth(&entry()?)?,
        "celeborn.worker.shuffle.partitionSplit.max" => options.split_bytes_max = size()?,
        "celeborn.worker.monitor.disk.check.interval" => {
            options.probe_interval = time_from(PROBE_MIN, &entry()?)?
        }
        "celeborn.worker.monitor.disk.check.timeout" => {
            options.probe_timeout = time_from(PROBE_MIN, &entry()?)?
        }
        "celeborn.worker.decommission.forceExitTimeout" => {
            options.decommission_timeout = time_from(FORCED_EXIT_MIN, &entry()?)?
        }
        "celeborn.worker.graceful.shutdown.checkSlotsFinished.timeout" => {
            options.stop_timeout = time_from(STOP_MIN, &entry()?)?
        }
        "celeborn.worker.commitFiles.fsync" => options.commit_sync = truth(&entry()?)?,
        "celeborn.worker.activeConnection.max" => options.active_connections_max = Some(count(&entry()?)?),
        "celeborn.storage.availableTypes" => storage_types(&entry()?)?,
        _ => {}
    }
    Ok(())
}

/// A directory with the bytes that may be stored there, if given. Attributes of its disk are not needed.
fn storage_directory(entry: &Entry, text: &str) -> Result<(PathBuf, Option<u64>)> {
    let mut parts = text.split(':');
    let path = PathBuf::from(parts.next().unwrap_or_default());
    let mut capacity = None;
    for attribute in parts {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        match name.to_ascii_lowercase().as_str() {
            "capacity" => {
                let given = Entry { value: value.to_owned(), ..entry.clone() };
                capacity = Some(parse(&given, "a capacity such as 1T", value::bytes)?);
            }
            "disktype" | "flushthread" => {}
            _ => {
                let Entry { key, line, .. } = entry;
                let expected = "expected :capacity=, :disktype= or :flushthread=";
                let message = format!("line {line}: {key} has {attribute:.80} for a directory: {expected}");
                return Err(Error::new(Kind::Invalid, message));
            }
        }
    }
    Ok((path, capacity))
}

/// Refuses storage types other than memory and disks, which are used whatever is given.
fn storage_types(entry: &Entry) -> Result<()> {
    for kind in list(&entry.value) {
        if !matches!(kind.to_ascii_uppercase().as_str(), "MEMORY" | "HDD" | "SSD") {
            let message = format!("line {}: {} names {kind:.40}", entry.line, entry.key);
            return Err(
                Error::new(Kind::Invalid, message).with_hint("workers store in MEMORY, HDD and SSD only")
            );
        }
    }
    Ok(())
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn time(entry: &Entry) -> Result<Duration> {
    parse(entry, "a time such as 120s", value::duration)
}

/// The shortest silence that a file may take for an end. Drivers and workers send a heartbeat every 5 to 10 s, and what is
/// taken for over is deleted.
const SILENCE_MIN: Duration = Duration::from_secs(30);

/// The shortest interval and time for probes of a directory: with none a worker would write probes without a pause, or take
/// every disk for one that has failed.
const PROBE_MIN: Duration = Duration::from_secs(1);

/// The shortest time after which a decommissioned worker may leave with what it holds, which is then lost. Shorter ones are
/// hours or seconds without their unit: Celeborn's default of 6 h as a bare 21600 would be 21.6 s.
const FORCED_EXIT_MIN: Duration = Duration::from_secs(30);

/// The shortest wait of a graceful stop for open locations. Drivers need some time to move them, and the default of 480 s as
/// a bare 480 would be no wait.
const STOP_MIN: Duration = Duration::from_secs(1);

/// A time that must not be shorter than `least`.
fn time_from(least: Duration, entry: &Entry) -> Result<Duration> {
    let given = time(entry)?;
    if given >= least {
        return Ok(given);
    }
    let Entry { key, value, line } = entry;
    let text = format!("line {line}: {key} = {value:.80}: expected at least {}s", least.as_secs());
    Err(Error::new(Kind::Invalid, text)
        .with_hint("give the time with its unit, such as 120s: a bare number is of milliseconds"))
}

fn truth(entry: &Entry) -> Result<bool> {
    parse(entry, "true or false", |text| text.to_ascii_lowercase().parse().ok())
}

fn port(entry: &Entry) -> Result<u16> {
    parse(entry, "a port", |text| text.parse().ok())
}

fn count(entry: &Entry) -> Result<usize> {
    parse(entry, "a number", |text| text.parse().ok())
}

fn parse<T>(entry: &Entry, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T> {
    parse(&entry.value).ok_or_else(|| {
        let Entry { key, value, line } = entry;
        Error::new(Kind::Invalid, format!("line {line}: {key} = {value:.80}: expected {expected}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::file;

    /// An environment without variables.
    fn bare(_: &str) -> Option<String> {
        None
    }

    /// A worker's options from a file, and the notices about it.
    fn worker_of(text: &str) -> Result<(worker::Options, Vec<String>)> {
        let mut options = worker::Options::default();
        let notices = to_worker(&file::parse(text), &bare, &mut options)?;
        Ok((options, notices.iter().map(Notice::to_string).collect()))
    }

    #[test]
    fn deprecated_names_do_what_the_present_ones_do() {
        let mut master = master::Options::default();
        let text = "celeborn.application.heartbeat.timeout 70s\nceleborn.slots.assign.policy ROUNDROBIN\n\
            celeborn.metrics.master.prometheus.port 9\nceleborn.ha.master.ratis.raft.server.storage.dir /j\n\
            celeborn.metrics.master.prometheus.host m\n";
        assert!(to_master(&file::parse(text), &bare, &mut master).unwrap().is_empty());
        assert_eq!(master.limits.application_timeout, Duration::from_secs(70));
        assert_eq!(master.limits.slots.balance, Balance::Even);
        assert_eq!((master.http_port, master.http_host), (Some(9), Some("m".to_owned())));
        assert_eq!(master.dir, Some(PathBuf::from("/j")));

        let (worker, notices) = worker_of(
            "celeborn.worker.disk.reserve.size 1G\nceleborn.worker.metrics.prometheus.port 8\n\
             celeborn.worker.http.port 7\nceleborn.ha.enabled true\nceleborn.master.ha.enabled false\n\
             celeborn.worker.commit.threads 3\n",
        )
        .unwrap();
        assert_eq!((worker.disk_reserve_bytes, worker.http_port), (Some(1 << 30), Some(7)));
        let said =
            "line 6: celeborn.worker.commit.threads changes nothing here: threads follow the number of cores";
        assert_eq!(notices, [said]);
    }

    #[test]
    fn what_promises_security_or_durability_is_honoured_or_refused() {
        let refused = |text: &str| match worker_of(text) {
            Err(error) => error.to_string(),
            Ok((_, notices)) => format!("taken: {notices:?}"),
        };
        for (line, told) in [
            ("celeborn.ssl.push.keyStore /k.jks", "/k.jks is refused: TLS"),
            ("celeborn.ssl.push.keyStorePassword sesame", "= … is refused: TLS"),
            ("celeborn.worker.http.ssl.enabled true", "true is refused: TLS"),
            ("celeborn.master.http.auth.supportedSchemes BASIC", "BASIC is refused: authentication"),
            ("celeborn.worker.http.spnego.keytab /k", "/k is refused: authentication"),
            ("celeborn.master.allowWorkerHostPattern ^w.*", "^w.* is refused: the master takes every"),
            ("celeborn.worker.graceful.shutdown.saveCommittedFileInfo.sync true", "commitFiles.fsync"),
            // Keys of versions to come.
            ("celeborn.worker.rpc.auth.token sesame", "= … is refused: nothing here keeps"),
            ("celeborn.worker.denyClientHostPattern x", "x is refused: nothing here keeps"),
        ] {
            let said = refused(line);
            assert!(said.contains(told) && said.starts_with("line 1: "), "{line}: {said}");
            assert!(!said.contains("sesame"), "{said}");
        }
        let off = "celeborn.ssl.push.enabled false\nceleborn.worker.rpc.auth.enabled false\n\
            celeborn.worker.http.auth.administers \nceleborn.worker.commitFiles.fsync true\n";
        let (options, notices) = worker_of(off).unwrap();
        assert!(options.commit_sync && notices.len() == 1, "{notices:?}");
        assert!(!worker::Options::default().commit_sync);
    }

    #[test]
    fn values_may_refer_to_the_environment_and_to_keys() {
        let environment = |name: &str| (name == "DIRS").then(|| "/a:capacity=100Gi,/b".to_owned());
        let text = "celeborn.worker.storage.dirs ${env:DIRS}\nceleborn.worker.push.port ${celeborn.my.port}\n\
            celeborn.my.port 7\nceleborn.client.push.timeout ${env:NOBODY_ASKS}\n";
        let mut worker = worker::Options::default();
        assert!(to_worker(&file::parse(text), &environment, &mut worker).is_ok());
        assert_eq!(worker.directories, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(worker.capacities, BTreeMap::from([("/a".into(), 100 << 30)]));
        assert_eq!(worker.push_ports, [7]);
        let error = worker_of("celeborn.auth.enabled ${env:AUTH}").unwrap_err();
        assert!(error.to_string().contains("has no AUTH"), "{error}");
    }

    #[test]
    fn what_a_server_does_not_read_of_the_network_is_named() {
        let (_, notices) = worker_of(
            "celeborn.replicate.io.numConnectionsPerPeer 4\nceleborn.rpc_app.io.maxRetries 4\n\
             celeborn.data.io.retryWait 1s\nceleborn.rpc.io.connectTimeout 1s\nceleborn.network.timeout 9s\n\
             celeborn.push.io.maxRetries 3\n",
        )
        .unwrap();
        let named: Vec<_> = notices.iter().map(|notice| notice.split(" changes").next().unwrap()).collect();
        assert_eq!(
            named,
            [
                "line 1: celeborn.replicate.io.numConnectionsPerPeer",
                "line 4: celeborn.rpc.io.connectTimeout",
                "line 5: celeborn.network.timeout",
            ]
        );
    }

    #[test]
    fn memory_for_a_jvm_is_told_of() {
        assert_eq!(unread_memory(|_| false), None);
        assert_eq!(unread_memory(|name| name == "CELEBORN_WORKER_MEMORY"), Some("CELEBORN_WORKER_MEMORY"));
        assert_eq!(unread_memory(|_| true), Some("CELEBORN_WORKER_OFFHEAP_MEMORY"));
    }

    #[test]
    fn a_file_of_celeborns_sets_both_servers() {
        let text = "celeborn.master.endpoints m1:9097,m2\nceleborn.master.port 9100\n\
            celeborn.master.heartbeat.worker.timeout 30s\nceleborn.master.slot.assign.policy roundrobin\n\
            celeborn.worker.storage.dirs /a:disktype=SSD:capacity=1T,/b\nceleborn.worker.push.port 9092\n\
            celeborn.worker.storage.disk.reserve.size 1G\nceleborn.worker.flusher.threads 32\n\
            celeborn.worker.flusher.buffer.size 256k\nceleborn.ssl.rpc.enabled false\nceleborn.mater.port 1\n\
            celeborn.mater.port 2\ncompletely.other 3\n\
            celeborn.master.workerUnavailableInfo.expireTimeout -1\n\
            celeborn.worker.activeConnection.max 500\nceleborn.worker.shuffle.partitionSplit.enabled FALSE\n";
        let entries = file::parse(text);
        let (mut master, mut worker) = (master::Options::default(), worker::Options::default());
        let notices = to_master(&entries, &bare, &mut master).unwrap();
        assert_eq!(to_worker(&entries, &bare, &mut worker).unwrap(), notices);
        assert_eq!(master.port, 9100);
        assert_eq!(master.limits.worker_timeout, Duration::from_secs(30));
        assert_eq!(master.limits.unavailable_kept, Duration::MAX, "for ever");
        assert_eq!(master.limits.slots.balance, Balance::Even);
        assert_eq!(worker.masters, ["m1:9097", "m2:9097"]);
        assert_eq!(worker.directories, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(worker.capacities, BTreeMap::from([("/a".into(), 1 << 40)]));
        assert_eq!((worker.push_ports, worker.disk_reserve_bytes), (vec![9092], Some(1 << 30)));
        assert_eq!((worker.active_connections_max, worker.split_enabled), (Some(500), false));
        let texts: Vec<String> = notices.iter().map(Notice::to_string).collect();
        assert_eq!(
            texts,
            [
                "line 8: celeborn.worker.flusher.threads changes nothing here: threads follow the number of cores",
                "line 11: unknown key celeborn.mater.port; did you mean celeborn.master.port?",
                "line 13: unknown key completely.other",
            ]
        );
    }

    #[test]
    fn a_key_is_compared_with_those_of_about_its_length() {
        assert_eq!(similar("celeborn.master.portxxx"), Some("celeborn.master.port"));
        assert_eq!(similar("celeborn.master.p"), Some("celeborn.master.port"));
        assert_eq!(similar("celeborn.mäster.pört"), Some("celeborn.master.port"));
        assert_eq!(similar("celeborn.master."), None);
    }

    proptest::proptest! {
        #[test]
        fn letters_apart_are_never_more_than_edits(one in ".{0,12}", other in "[a-c.]{0,12}", edit in ".{0,3}") {
            let near = format!("{edit}{one}");
            for (one, other) in [(&one, &other), (&one, &near), (&near, &other)] {
                proptest::prop_assert!(letters_apart(one, other) <= strsim::levenshtein(one, other));
            }
        }
    }

    #[test]
    fn what_would_break_a_promise_is_refused() {
        for line in [
            "celeborn.ssl.push.enabled true",
            "celeborn.auth.enabled true",
            "celeborn.storage.hdfs.dir hdfs://x/",
            "celeborn.storage.availableTypes MEMORY,HDFS",
            "celeborn.master.ha.enabled true",
            "celeborn.quota.tenant.diskBytesWritten 5",
            "celeborn.quota.user.diskFileCount 5",
            "celeborn.quota.cluster.hdfsBytesWritten 5",
            "celeborn.storage.s3.dir s3://b/",
            "celeborn.storage.oss.dir oss://b/",
            "celeborn.storage.availableTypes S3",
            "celeborn.tags.tagsExpr prod",
            "celeborn.master.port many",
            "celeborn.master.heartbeat.worker.timeout soon",
            "celeborn.master.slot.assign.policy BEST",
            "celeborn.ha.enabled true",
            "celeborn.storage.activeTypes HDFS",
            "celeborn.hadoop.net.topology.script.file.name /etc/racks.sh",
            "celeborn.hadoop.net.topology.node.switch.mapping.impl org.example.Racks",
        ] {
            let error = to_master(&file::parse(line), &bare, &mut master::Options::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{line}");
            assert!(error.to_string().contains(line.split(' ').next().unwrap()), "{error}");
        }
        for (directory, expected) in [
            ("/a:capacity=much", "expected a capacity"),
            ("/a:capacity", "expected a capacity"),
            ("/a,/b:capacty=1T", "has capacty=1T for a directory"),
        ] {
            let error = worker_of(&format!("celeborn.worker.storage.dirs {directory}")).unwrap_err();
            assert!(error.kind() == Kind::Invalid && error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn times_too_short_to_work_with_are_refused() {
        let master_of = |text: &str| {
            let mut options = master::Options::default();
            to_master(&file::parse(text), &bare, &mut options).map(|_| options)
        };
        let refused = master_of("\nceleborn.master.heartbeat.application.timeout 300").unwrap_err();
        let said = "line 2: celeborn.master.heartbeat.application.timeout = 300: expected at least 30s";
        assert_eq!((refused.kind(), refused.to_string().as_str()), (Kind::Invalid, said));
        assert!(refused.hint().unwrap().contains("a bare number is of milliseconds"));
        let said = "line 1: celeborn.application.heartbeat.timeout = 0: expected at least 30s";
        assert_eq!(master_of("celeborn.application.heartbeat.timeout 0").unwrap_err().to_string(), said);
        assert!(master_of("celeborn.master.heartbeat.worker.timeout 29999ms").is_err());
        let least = master_of(
            "celeborn.master.heartbeat.worker.timeout 30s\nceleborn.master.heartbeat.application.timeout 30000",
        );
        let limits = least.unwrap().limits;
        assert_eq!([limits.worker_timeout, limits.application_timeout], [Duration::from_secs(30); 2]);
        for (key, shorts, least) in [
            ("celeborn.worker.monitor.disk.check.interval", ["0", "30", "999ms"], "1s"),
            ("celeborn.worker.monitor.disk.check.timeout", ["0", "30", "999ms"], "1s"),
            ("celeborn.worker.graceful.shutdown.checkSlotsFinished.timeout", ["0", "480", "999ms"], "1s"),
            ("celeborn.worker.decommission.forceExitTimeout", ["0", "21600", "29s"], "30s"),
        ] {
            for short in shorts {
                let refused = worker_of(&format!("{key} {short}")).unwrap_err();
                let said = format!("line 1: {key} = {short}: expected at least {least}");
                assert_eq!((refused.kind(), refused.to_string()), (Kind::Invalid, said));
            }
            assert!(worker_of(&format!("{key} {least}")).is_ok());
        }
    }

    /// A key that the page calls honoured and that belongs to a server must change that server's options.
    #[test]
    fn every_honoured_key_of_a_server_does_something() {
        let values =
            ["17", "47s", "9m", "true", "false", "LOADAWARE", "ROUNDROBIN", "/somewhere", "somewhere:1"];
        for setting in table().iter().filter(|setting| setting.level == Level::Honoured) {
            let is_of_clients = matches!(setting.group, Group::Client | Group::Network);
            if is_of_clients || setting.key.starts_with("celeborn.quota.identity.") {
                continue;
            }
            if setting.key == "celeborn.storage.availableTypes" {
                continue; // Checked, and then both kinds are used.
            }
            let changes = values.iter().any(|value| {
                let entry = Entry { key: setting.key.to_owned(), value: (*value).to_owned(), line: 1 };
                let (mut master, mut worker) = (master::Options::default(), worker::Options::default());
                let entry = || Ok(entry.clone());
                let applied = set_master(setting.key, &entry, &mut master)
                    .and(set_worker(setting.key, &entry, &mut worker))
                    .is_ok();
                applied && (master != master::Options::default() || worker != worker::Options::default())
            });
            assert!(changes, "{} is called honoured and changes nothing", setting.key);
        }
    }
}
