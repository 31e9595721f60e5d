//! Applies the entries of a file to options.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use yeoul_settings::{Entry, Environment, Notice, References, Resolve, Rules, bytes};

use super::{TABLE, group, master_endpoint, promises_security};
use crate::master::slots::Balance;
use crate::{Error, Kind, Result, master, worker};

/// What a bare number counts where Celeborn takes a time.
const BARE: Duration = Duration::from_millis(1);

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

/// Applies entries to the options of one of the servers.
fn apply(
    entries: &[Entry],
    environment: &Environment<'_>,
    set: impl FnMut(&str, &Resolve<'_>) -> Result<()>,
) -> Result<Vec<Notice>> {
    let rules = Rules {
        table: &TABLE,
        references: References::Prefixed { environment, keys: "celeborn." },
        elsewhere: &|setting, name| {
            let is_of_clients = CLIENT_MODULES.iter().any(|module| name.starts_with(module));
            (setting.group == group::NETWORK && !is_of_clients).then_some(BY_CLIENT)
        },
        promises: &|key| promises_security(key).then_some("nothing here keeps what it promises"),
        page: "docs/reference/shuffle-settings.md",
    };
    yeoul_settings::apply(entries, &rules, set)
}

/// Prefixes of the network keys that in Celeborn are the clients', whoever's file they are in; by the others its
/// servers connect to each other and keep their clients' connections. Here only clients honour network keys.
const CLIENT_MODULES: [&str; 2] = ["celeborn.rpc_app.", "celeborn.data."];

/// Why any other network key changes nothing in a server's file.
const BY_CLIENT: &str = "clients have it in their own settings, and servers have limits of their own";

/// Sets an option that a master honours; other honoured keys are a worker's or the client's.
fn set_master(name: &str, entry: &Resolve<'_>, options: &mut master::Options) -> Result<()> {
    let limits = &mut options.limits;
    match name {
        "celeborn.master.host" => options.host = entry()?.value,
        "celeborn.master.port" => options.port = entry()?.port()?,
        "celeborn.master.http.port" => {
            options.http_port = Some(entry()?.port()?);
        }
        "celeborn.master.http.host" => options.http_host = Some(entry()?.value),
        "celeborn.master.ha.ratis.raft.server.storage.dir" => {
            options.dir = Some(PathBuf::from(entry()?.value))
        }
        "celeborn.master.heartbeat.application.timeout" => {
            limits.application_timeout = entry()?.time_from(SILENCE_MIN, BARE)?
        }
        "celeborn.master.heartbeat.worker.timeout" => {
            limits.worker_timeout = entry()?.time_from(SILENCE_MIN, BARE)?
        }
        "celeborn.master.workerUnavailableInfo.expireTimeout" => {
            let entry = entry()?;
            limits.unavailable_kept = if entry.value == "-1" { Duration::MAX } else { entry.time(BARE)? };
        }
        "celeborn.master.slot.assign.extraSlots" => limits.slots.spare_workers = entry()?.count()?,
        "celeborn.master.slot.assign.maxWorkers" => limits.slots.workers_max = entry()?.count()?,
        "celeborn.master.slot.assign.policy" => {
            let policy = |text: &str| match text.to_ascii_uppercase().as_str() {
                "ROUNDROBIN" => Some(Balance::Even),
                "LOADAWARE" => Some(Balance::Load),
                _ => None,
            };
            limits.slots.balance = entry()?.read("ROUNDROBIN or LOADAWARE", policy)?;
        }
        "celeborn.tags.enabled" => limits.tags_enabled = entry()?.truth()?,
        "celeborn.storage.availableTypes" => storage_types(&entry()?)?,
        _ => {}
    }
    Ok(())
}

/// Sets an option that a worker honours; other honoured keys are a master's or the client's.
fn set_worker(name: &str, entry: &Resolve<'_>, options: &mut worker::Options) -> Result<()> {
    let size = || entry()?.size();
    match name {
        "celeborn.master.endpoints" => {
            let entry = entry()?;
            let endpoints = || entry.list().iter().map(|text| master_endpoint(text).ok()).collect();
            options.masters = entry.read("masters as HOST:PORT", |_| endpoints())?;
        }
        "celeborn.worker.rpc.port" => options.rpc_port = entry()?.port()?,
        "celeborn.worker.push.port" => options.push_ports = vec![entry()?.port()?],
        "celeborn.worker.fetch.port" => options.fetch_port = entry()?.port()?,
        "celeborn.worker.replicate.port" => options.replicate_port = entry()?.port()?,
        "celeborn.worker.http.port" => options.http_port = Some(entry()?.port()?),
        "celeborn.worker.http.host" => options.http_host = Some(entry()?.value),
        "celeborn.worker.storage.dirs" => {
            let entry = entry()?;
            let directories = entry.list();
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
        "celeborn.worker.shuffle.partitionSplit.enabled" => options.split_enabled = entry()?.truth()?,
        "celeborn.worker.shuffle.partitionSplit.max" => options.split_bytes_max = size()?,
        "celeborn.worker.monitor.disk.check.interval" => {
            options.probe_interval = entry()?.time_from(PROBE_MIN, BARE)?
        }
        "celeborn.worker.monitor.disk.check.timeout" => {
            options.probe_timeout = entry()?.time_from(PROBE_MIN, BARE)?
        }
        "celeborn.worker.decommission.forceExitTimeout" => {
            options.decommission_timeout = entry()?.time_from(FORCED_EXIT_MIN, BARE)?
        }
        "celeborn.worker.graceful.shutdown.checkSlotsFinished.timeout" => {
            options.stop_timeout = entry()?.time_from(STOP_MIN, BARE)?
        }
        "celeborn.worker.commitFiles.fsync" => options.commit_sync = entry()?.truth()?,
        "celeborn.worker.activeConnection.max" => options.active_connections_max = Some(entry()?.count()?),
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
                capacity = Some(given.read("a capacity such as 1T", bytes)?);
            }
            "disktype" | "flushthread" => {}
            _ => {
                let Entry { key, origin, .. } = entry;
                let expected = "expected :capacity=, :disktype= or :flushthread=";
                let message = format!("{origin}: {key} has {attribute:.80} for a directory: {expected}");
                return Err(Error::new(Kind::Invalid, message));
            }
        }
    }
    Ok((path, capacity))
}

/// Refuses storage types other than memory and disks, which are used whatever is given.
fn storage_types(entry: &Entry) -> Result<()> {
    for kind in entry.list() {
        if !matches!(kind.to_ascii_uppercase().as_str(), "MEMORY" | "HDD" | "SSD") {
            let message = format!("{}: {} names {kind:.40}", entry.origin, entry.key);
            return Err(
                Error::new(Kind::Invalid, message).with_hint("workers store in MEMORY, HDD and SSD only")
            );
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use yeoul_settings::{Level, Origin, properties};

    /// An environment without variables.
    fn bare(_: &str) -> Option<String> {
        None
    }

    /// A worker's options from a file, and the notices about it.
    fn worker_of(text: &str) -> Result<(worker::Options, Vec<String>)> {
        let mut options = worker::Options::default();
        let notices = to_worker(&properties::parse(text), &bare, &mut options)?;
        Ok((options, notices.iter().map(Notice::to_string).collect()))
    }

    #[test]
    fn deprecated_names_do_what_the_present_ones_do() {
        let mut master = master::Options::default();
        let text = "celeborn.application.heartbeat.timeout 70s\nceleborn.slots.assign.policy ROUNDROBIN\n\
            celeborn.metrics.master.prometheus.port 9\nceleborn.ha.master.ratis.raft.server.storage.dir /j\n\
            celeborn.metrics.master.prometheus.host m\n";
        assert!(to_master(&properties::parse(text), &bare, &mut master).unwrap().is_empty());
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
        assert!(to_worker(&properties::parse(text), &environment, &mut worker).is_ok());
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
        let entries = properties::parse(text);
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
            let error =
                to_master(&properties::parse(line), &bare, &mut master::Options::default()).unwrap_err();
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
            to_master(&properties::parse(text), &bare, &mut options).map(|_| options)
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
        for setting in TABLE.settings().iter().filter(|setting| setting.level == Level::Honoured) {
            let is_of_clients = matches!(setting.group, group::CLIENT | group::NETWORK);
            if is_of_clients || setting.key.starts_with("celeborn.quota.identity.") {
                continue;
            }
            if setting.key == "celeborn.storage.availableTypes" {
                continue; // Checked, and then both kinds are used.
            }
            let changes = values.iter().any(|value| {
                let origin = Origin::line(1);
                let entry = Entry { key: setting.key.to_owned(), value: (*value).to_owned(), origin };
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
