//! Entries of a file into options.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::file::Entry;
use super::{Level, find, master_endpoint, table, value};
use crate::master::slots::Balance;
use crate::{Error, Kind, Result, master, worker};

/// Something to tell whoever started the server, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A key that Celeborn 0.5.4 does not document, with one that it does and that looks like it.
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

/// Puts a file's entries into a master's options.
///
/// # Errors
/// `Invalid` for a value that is not what its key takes, and for settings that are refused.
pub fn to_master(entries: &[Entry], options: &mut master::Options) -> Result<Vec<Notice>> {
    apply(entries, |entry| set_master(entry, options))
}

/// Puts a file's entries into a worker's options.
///
/// # Errors
/// As for [`to_master`].
pub fn to_worker(entries: &[Entry], options: &mut worker::Options) -> Result<Vec<Notice>> {
    apply(entries, |entry| set_worker(entry, options))
}

fn apply(entries: &[Entry], mut set: impl FnMut(&Entry) -> Result<()>) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    let mut seen = BTreeSet::new();
    let mut unknown = 0;
    for entry in entries {
        let first = seen.insert(&entry.key);
        let (key, line) = (entry.key.clone(), entry.line);
        let Some(setting) = find(&entry.key) else {
            if first {
                unknown += 1;
                let similar = if unknown <= SUGGESTIONS_MAX { similar(&entry.key) } else { None };
                notices.push(Notice::Unknown { key, line, similar });
            }
            continue;
        };
        match setting.level {
            Level::Honoured => set(entry)?,
            Level::OtherMechanism | Level::NoEffect if first && entry.value != setting.default => {
                notices.push(Notice::Ineffective { key, line, note: setting.note });
            }
            Level::Refused if !entry.value.eq_ignore_ascii_case(setting.default) => {
                let message =
                    format!("line {line}: {key} = {:.80} is refused: {}", entry.value, setting.note);
                let hint = "remove the line; docs/reference/shuffle-settings.md lists what each key does";
                return Err(Error::new(Kind::Invalid, message).with_hint(hint));
            }
            Level::OtherMechanism | Level::NoEffect | Level::Refused => {}
        }
    }
    Ok(notices)
}

/// Unknown keys for which one that was meant is looked for: a file with more is hardly one of settings.
const SUGGESTIONS_MAX: usize = 8;

/// Letters by which a key may differ from one that was meant.
const DISTANCE_MAX: usize = 3;

/// A documented key that is nearly the same.
fn similar(key: &str) -> Option<&'static str> {
    // Each distance takes the product of two lengths.
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

/// Sets what a master honours; other honoured keys are a worker's or the client's.
fn set_master(entry: &Entry, options: &mut master::Options) -> Result<()> {
    let limits = &mut options.limits;
    match entry.key.as_str() {
        "celeborn.master.host" => options.host.clone_from(&entry.value),
        "celeborn.master.port" => options.port = parse(entry, "a port", |text| text.parse().ok())?,
        "celeborn.master.http.port" => {
            options.http_port = Some(parse(entry, "a port", |text| text.parse().ok())?);
        }
        "celeborn.master.ha.ratis.raft.server.storage.dir" => options.dir = Some(PathBuf::from(&entry.value)),
        "celeborn.master.heartbeat.application.timeout" => limits.application_timeout = time(entry)?,
        "celeborn.master.heartbeat.worker.timeout" => limits.worker_timeout = time(entry)?,
        "celeborn.master.workerUnavailableInfo.expireTimeout" => {
            limits.unavailable_kept = if entry.value == "-1" { Duration::MAX } else { time(entry)? };
        }
        "celeborn.master.slot.assign.extraSlots" => limits.slots.spare_workers = count(entry)?,
        "celeborn.master.slot.assign.maxWorkers" => limits.slots.workers_max = count(entry)?,
        "celeborn.master.slot.assign.policy" => {
            let policy = |text: &str| match text.to_ascii_uppercase().as_str() {
                "ROUNDROBIN" => Some(Balance::Even),
                "LOADAWARE" => Some(Balance::Load),
                _ => None,
            };
            limits.slots.balance = parse(entry, "ROUNDROBIN or LOADAWARE", policy)?;
        }
        "celeborn.storage.availableTypes" => storage_types(entry)?,
        _ => {}
    }
    Ok(())
}

/// Sets what a worker honours; other honoured keys are a master's or the client's.
fn set_worker(entry: &Entry, options: &mut worker::Options) -> Result<()> {
    let port = || parse(entry, "a port", |text| text.parse().ok());
    let size = || parse(entry, "a size such as 8m", value::bytes);
    match entry.key.as_str() {
        "celeborn.master.endpoints" => {
            let endpoints = |text: &str| list(text).iter().map(|text| master_endpoint(text).ok()).collect();
            options.masters = parse(entry, "masters as HOST:PORT", endpoints)?;
        }
        "celeborn.worker.rpc.port" => options.rpc_port = port()?,
        "celeborn.worker.push.port" => options.push_ports = vec![port()?],
        "celeborn.worker.fetch.port" => options.fetch_port = port()?,
        "celeborn.worker.replicate.port" => options.replicate_port = port()?,
        "celeborn.worker.http.port" => options.http_port = Some(port()?),
        "celeborn.worker.storage.dirs" => {
            let path = |dir: &String| PathBuf::from(dir.split(':').next().unwrap_or_default());
            options.directories = list(&entry.value).iter().map(path).collect();
        }
        "celeborn.worker.storage.disk.reserve.size" => options.disk_reserve_bytes = Some(size()?),
        "celeborn.shuffle.chunk.size" => options.chunk_bytes = size()?,
        "celeborn.worker.shuffle.partitionSplit.enabled" => {
            let truth = |text: &str| text.to_ascii_lowercase().parse::<bool>().ok();
            options.split_enabled = parse(entry, "true or false", truth)?;
        }
        "celeborn.worker.shuffle.partitionSplit.max" => options.split_bytes_max = size()?,
        "celeborn.worker.monitor.disk.check.interval" => options.probe_interval = time(entry)?,
        "celeborn.worker.monitor.disk.check.timeout" => options.probe_timeout = time(entry)?,
        "celeborn.worker.decommission.forceExitTimeout" => options.decommission_timeout = time(entry)?,
        "celeborn.worker.graceful.shutdown.checkSlotsFinished.timeout" => options.stop_timeout = time(entry)?,
        "celeborn.worker.activeConnection.max" => options.active_connections_max = Some(count(entry)?),
        "celeborn.storage.availableTypes" => storage_types(entry)?,
        _ => {}
    }
    Ok(())
}

/// Memory and disks are used whatever is said; other kinds would not be.
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
    use crate::settings::{Group, file};

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
        let notices = to_master(&entries, &mut master).unwrap();
        assert_eq!(to_worker(&entries, &mut worker).unwrap(), notices);
        assert_eq!(master.port, 9100);
        assert_eq!(master.limits.worker_timeout, Duration::from_secs(30));
        assert_eq!(master.limits.unavailable_kept, Duration::MAX, "for ever");
        assert_eq!(master.limits.slots.balance, Balance::Even);
        assert_eq!(worker.masters, ["m1:9097", "m2:9097"]);
        assert_eq!(worker.directories, [PathBuf::from("/a"), PathBuf::from("/b")]);
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
            "celeborn.master.port many",
            "celeborn.master.heartbeat.worker.timeout soon",
            "celeborn.master.slot.assign.policy BEST",
        ] {
            let error = to_master(&file::parse(line), &mut master::Options::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{line}");
            assert!(error.to_string().contains(line.split(' ').next().unwrap()), "{error}");
        }
    }

    /// A key that the page calls honoured and that belongs to a server must change that server's options.
    #[test]
    fn every_honoured_key_of_a_server_does_something() {
        let values = ["17", "17s", "9m", "false", "LOADAWARE", "ROUNDROBIN", "/somewhere", "somewhere:1"];
        for setting in table().iter().filter(|setting| setting.level == Level::Honoured) {
            let by_client = setting.note.starts_with("by the client");
            if matches!(setting.group, Group::Client | Group::Network) || by_client {
                continue;
            }
            if setting.key == "celeborn.storage.availableTypes" {
                continue; // Checked, and then both kinds are used.
            }
            let changes = values.iter().any(|value| {
                let entry = Entry { key: setting.key.to_owned(), value: (*value).to_owned(), line: 1 };
                let (mut master, mut worker) = (master::Options::default(), worker::Options::default());
                let applied = set_master(&entry, &mut master).and(set_worker(&entry, &mut worker)).is_ok();
                applied && (master != master::Options::default() || worker != worker::Options::default())
            });
            assert!(changes, "{} is called honoured and changes nothing", setting.key);
        }
    }
}
