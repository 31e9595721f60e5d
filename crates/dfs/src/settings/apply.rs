//! Applies the entries of Hadoop's files to options.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use yeoul_disk::ModedDisk;
use yeoul_settings::{Entry, Environment, Notice, References, Resolve, Rules};

use super::{TABLE, group, promises_security};
use crate::error::{Error, Kind, Result};
use crate::policy::CELL_BYTES_MAX;
use crate::{client, datanode, namenode};

/// A full report more often than this only keeps the NameNode busy.
const REPORT_MIN: Duration = Duration::from_secs(60);
/// What a bare number of `dfs.blockreport.intervalMsec` and of safe mode's extension counts.
const MILLISECOND: Duration = Duration::from_millis(1);
/// What a bare number of `dfs.heartbeat.interval` counts, as in Hadoop.
const SECOND: Duration = Duration::from_secs(1);
/// A DataNode that shows itself more seldom would be taken for a silent one when one heartbeat is late
/// (`Rules::silent_ms_max`).
const HEARTBEAT_MAX: Duration = Duration::from_secs(2);
/// The default of Hadoop's `dfs.heartbeat.interval`.
const HEARTBEAT_OF_HADOOP: Duration = Duration::from_secs(3);
/// The most bytes of an extended attribute that may be set as the limit, as in HDFS.
const XATTR_BYTES_MAX: usize = 32 << 10;
/// Ports of HDFS, for addresses without one.
const NAMENODE_PORT: u16 = 8020;

/// What the values of files refer to.
pub struct Surroundings<'s> {
    /// Variables of the environment.
    pub environment: &'s Environment<'s>,
    /// What a JVM would know as system properties, such as `user.name`.
    pub properties: &'s Environment<'s>,
}

/// Applies entries to a client's options. Those of servers change nothing and are not mentioned.
///
/// # Errors
/// `Invalid` for a value that its key does not take or that refers to something that does not exist, and for settings that
/// are refused.
pub fn to_client(
    entries: &[Entry],
    surroundings: &Surroundings<'_>,
    options: &mut client::Options,
) -> Result<()> {
    let is_clients = |entry: &&Entry| {
        let found = TABLE.find(&entry.key);
        found.is_none_or(|found| matches!(found.setting.group, group::CORE | group::CLIENT))
    };
    let entries: Vec<Entry> = entries.iter().filter(is_clients).cloned().collect();
    apply(&entries, surroundings, |name, entry| set_client(name, entry, options)).map(drop)
}

/// Applies entries to a NameNode's options.
///
/// # Errors
/// As for [`to_client`].
pub fn to_namenode(
    entries: &[Entry],
    surroundings: &Surroundings<'_>,
    options: &mut namenode::Options,
) -> Result<Vec<Notice>> {
    let mut from = Address::default();
    let notices = apply(entries, surroundings, |name, entry| set_namenode(name, entry, options, &mut from))?;
    if let Some((host, port)) = from.own.or(from.default_fs) {
        (options.host, options.port) = (host, port);
    }
    options.host = from.bind.unwrap_or_else(|| options.host.clone());
    Ok(notices)
}

/// Applies entries to a DataNode's options.
///
/// # Errors
/// As for [`to_client`].
pub fn to_datanode(
    entries: &[Entry],
    surroundings: &Surroundings<'_>,
    options: &mut datanode::Options,
) -> Result<Vec<Notice>> {
    let mut from = Address::default();
    let notices = apply(entries, surroundings, |name, entry| set_datanode(name, entry, options, &mut from))?;
    if let Some((host, port)) = from.own.or(from.default_fs) {
        options.namenodes = vec![format!("{host}:{port}")];
    }
    Ok(notices)
}

/// The variable, if set, by which Hadoop's scripts give a JVM its memory, which is not read here; `is_set` looks in the
/// environment.
pub fn unread_memory(is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    ["HADOOP_HEAPSIZE_MAX", "HADOOP_HEAPSIZE"].into_iter().find(|name| is_set(name))
}

/// Where the NameNode is, by several keys.
#[derive(Default)]
struct Address {
    /// `dfs.namenode.rpc-address`.
    own: Option<(String, u16)>,
    /// `fs.defaultFS`.
    default_fs: Option<(String, u16)>,
    /// `dfs.namenode.rpc-bind-host`.
    bind: Option<String>,
}

impl Address {
    /// Takes the key, if it is one of them.
    fn set(&mut self, name: &str, entry: &Resolve<'_>) -> Result<()> {
        match name {
            "fs.defaultFS" => {
                let entry = entry()?;
                let read = |text: &str| host_and_port(text.strip_prefix("hdfs://")?.trim_end_matches('/'));
                if entry.value != "file:///" {
                    self.default_fs = Some(entry.read("hdfs://HOST:PORT", read)?);
                }
            }
            "dfs.namenode.rpc-address" => {
                let entry = entry()?;
                if !entry.value.is_empty() {
                    self.own = Some(entry.read("HOST:PORT", host_and_port)?);
                }
            }
            "dfs.namenode.rpc-bind-host" => self.bind = Some(entry()?.value).filter(|host| !host.is_empty()),
            _ => {}
        }
        Ok(())
    }
}

/// A host, and a port, or that of a NameNode.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, NAMENODE_PORT),
    };
    (!host.is_empty() && !host.contains('/')).then(|| (host.to_owned(), port))
}

/// The port of an address such as `0.0.0.0:9866`.
fn port_of(entry: &Entry) -> Result<u16> {
    entry.read("HOST:PORT", |text| text.rsplit_once(':')?.1.parse().ok())
}

fn set_namenode(
    name: &str,
    entry: &Resolve<'_>,
    options: &mut namenode::Options,
    address: &mut Address,
) -> Result<()> {
    let rules = &mut options.rules;
    match name {
        "dfs.namenode.name.dir" => {
            let entry = entry()?;
            options.dir = match &directories(&entry)?[..] {
                [dir] => dir.clone(),
                _ => {
                    let error = entry.refused("expected one directory");
                    return Err(error.with_hint("the journal is in one place: mirror the disk below it"));
                }
            };
        }
        "dfs.namenode.http-address" => {
            let (host, port) = entry()?.read("HOST:PORT", host_and_port)?;
            (options.http_host, options.http_port) = (Some(host), Some(port));
        }
        "dfs.namenode.http-bind-host" => options.http_host = Some(entry()?.value),
        "fs.trash.interval" => rules.trash_minutes = minutes(&entry()?)?,
        "fs.trash.checkpoint.interval" => rules.trash_checkpoint_minutes = minutes(&entry()?)?,
        "net.topology.script.file.name" => options.topology.script = file_of(entry()?),
        "net.topology.table.file.name" => options.topology.table = file_of(entry()?),
        "net.topology.node.switch.mapping.impl" => {
            options.topology.is_table =
                entry()?.read("ScriptBasedMapping or TableMapping", |name| {
                    match name.strip_prefix("org.apache.hadoop.net.")? {
                        "ScriptBasedMapping" => Some(false),
                        "TableMapping" => Some(true),
                        _ => None,
                    }
                })?;
        }
        "dfs.hosts" => options.hosts.included = file_of(entry()?),
        "dfs.hosts.exclude" => options.hosts.excluded = file_of(entry()?),
        "dfs.namenode.hosts.provider.classname" => {
            options.hosts.is_combined =
                entry()?.read("HostFileManager or CombinedHostFileManager", |name| {
                    let package = "org.apache.hadoop.hdfs.server.blockmanagement.";
                    match name.strip_prefix(package)? {
                        "HostFileManager" => Some(false),
                        "CombinedHostFileManager" => Some(true),
                        _ => None,
                    }
                })?;
        }
        "dfs.namenode.maintenance.replication.min" => {
            rules.away_copies_min = entry()?.read("a number", |text| text.parse().ok())?;
        }
        "dfs.replication" => rules.replication = replication(&entry()?)?,
        "dfs.blocksize" => rules.block_size = entry()?.size()?,
        "dfs.namenode.fs-limits.min-block-size" => rules.block_size_min = entry()?.size()?,
        "dfs.permissions.superusergroup" => rules.supergroup = entry()?.value,
        "dfs.namenode.safemode.extension" => {
            let time = entry()?.time(MILLISECOND)?;
            rules.safe_mode_extension_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        }
        "dfs.namenode.replication.max-streams" => rules.repair_streams_max = streams(&entry()?)?,
        "dfs.namenode.replication.max-streams-hard-limit" => {
            rules.repair_streams_hard_max = streams(&entry()?)?;
        }
        "dfs.namenode.lease-hard-limit-sec" => {
            let seconds: u64 = entry()?.read("a number of seconds", |text| text.parse().ok())?;
            rules.lease_ms_max = seconds.saturating_mul(1_000);
        }
        "dfs.namenode.acls.enabled" => rules.acls_enabled = boolean(&entry()?)?,
        "dfs.namenode.posix.acl.inheritance.enabled" => {
            rules.posix_acl_inheritance = boolean(&entry()?)?;
        }
        "dfs.namenode.xattrs.enabled" => rules.xattrs_enabled = boolean(&entry()?)?,
        "dfs.namenode.fs-limits.max-xattrs-per-inode" => {
            rules.xattrs_max = entry()?.read("a number", |text| text.parse().ok())?;
        }
        "dfs.namenode.fs-limits.max-xattr-size" => {
            let in_range = |bytes: &usize| (1..=XATTR_BYTES_MAX).contains(bytes);
            let read = |text: &str| text.parse().ok().filter(in_range);
            rules.xattr_bytes_max = entry()?.read("a number from 1 to 32768", read)?;
        }
        "dfs.namenode.ec.userdefined.policy.allowed" => rules.may_add_policies = boolean(&entry()?)?,
        "dfs.namenode.ec.policies.max.cellsize" => {
            let in_range = |bytes: &u64| (1..=CELL_BYTES_MAX).contains(bytes);
            let read = |text: &str| text.parse().ok().filter(in_range);
            rules.cell_bytes_max = entry()?.read("a number from 1 to 16777216", read)?;
        }
        "dfs.namenode.safemode.min.datanodes" => {
            rules.safe_mode_datanodes_min = entry()?.read("a number", |text| text.parse().ok())?;
        }
        other => address.set(other, entry)?,
    }
    Ok(())
}

fn set_datanode(
    name: &str,
    entry: &Resolve<'_>,
    options: &mut datanode::Options,
    address: &mut Address,
) -> Result<()> {
    match name {
        "dfs.datanode.data.dir" => options.dirs = directories(&entry()?)?,
        "dfs.datanode.address" => options.port = port_of(&entry()?)?,
        "dfs.datanode.ipc.address" => options.ipc_port = port_of(&entry()?)?,
        "dfs.datanode.http.address" => {
            let (host, port) = entry()?.read("HOST:PORT", host_and_port)?;
            (options.http_host, options.http_port) = (Some(host), Some(port));
        }
        "dfs.permissions.superusergroup" => options.supergroup = entry()?.value,
        "dfs.datanode.hostname" => options.host = Some(entry()?.value).filter(|host| !host.is_empty()),
        "dfs.datanode.data.dir.perm" => {
            let mode =
                |text: &str| u32::from_str_radix(text, 8).ok().filter(|mode| (0o700..=0o777).contains(mode));
            let mode = entry()?.read("an octal mode from 700 to 777", mode)?;
            options.disk = Arc::new(ModedDisk::with_folder_mode(mode));
        }
        "dfs.datanode.balance.bandwidthPerSec" => options.repair_bytes_per_second = entry()?.size()?,
        "dfs.datanode.balance.max.concurrent.moves" => {
            let read = |text: &str| text.parse().ok().filter(|count| (1..=4096).contains(count));
            options.moves_max = entry()?.read("a number from 1 to 4096", read)?;
        }
        "dfs.datanode.du.reserved" => options.reserved_bytes = entry()?.size()?,
        "dfs.datanode.max.transfer.threads" => {
            let read = |text: &str| text.parse().ok().filter(|count| (1..=4096).contains(count));
            options.transfers_max = entry()?.read("a number from 1 to 4096", read)?;
        }
        "dfs.heartbeat.interval" => {
            let entry = entry()?;
            let interval = entry.time(SECOND)?;
            match interval {
                // Hadoop's default, which files repeat: it says nothing of what is wanted here.
                HEARTBEAT_OF_HADOOP => {}
                _ if interval.is_zero() || interval > HEARTBEAT_MAX => {
                    let error = entry.refused("expected at most 2s");
                    return Err(error.with_hint("the NameNode gives up on a DataNode that is silent for 3s"));
                }
                _ => options.heartbeat = interval,
            }
        }
        "dfs.block.scanner.volume.bytes.per.second" => options.scan_bytes_per_second = entry()?.size()?,
        "dfs.datanode.scan.period.hours" => {
            let hours = entry()?.read("a number of hours", |text| text.parse::<i32>().ok())?;
            options.scan_period = match u64::try_from(hours) {
                // As in HDFS.
                Err(_) => None,
                Ok(0) => Some(datanode::SCAN_PERIOD),
                Ok(hours) => Some(Duration::from_secs(hours * 3600)),
            };
        }
        "dfs.blockreport.intervalMsec" => options.report = entry()?.time_from(REPORT_MIN, MILLISECOND)?,
        other => address.set(other, entry)?,
    }
    Ok(())
}

/// A number of minutes.
fn minutes(entry: &Entry) -> Result<u64> {
    entry.read("a number of minutes", |text| text.parse().ok())
}

/// The path of a file; none for an empty value.
fn file_of(entry: Entry) -> Option<PathBuf> {
    Some(entry.value).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Repairs of a DataNode at a time.
fn streams(entry: &Entry) -> Result<usize> {
    entry.read("a number from 1 to 64", |text| text.parse().ok().filter(|count| (1..=64).contains(count)))
}

/// Directories as Hadoop writes them: with commas, as addresses or paths, and maybe with a type in brackets.
fn directories(entry: &Entry) -> Result<Vec<PathBuf>> {
    entry.list().iter().map(|text| directory(entry, text)).collect()
}

fn directory(entry: &Entry, text: &str) -> Result<PathBuf> {
    let path = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        None => text,
        Some((kind, path)) if kind.eq_ignore_ascii_case("DISK") => path,
        Some((kind, _)) => {
            let Entry { key, origin, .. } = entry;
            let message =
                format!("{origin}: {key} has [{kind:.20}] for a directory: expected [DISK], or no type");
            return Err(Error::new(Kind::Invalid, message).with_hint(
                "files are not placed by storage type: leave it out, and every directory is used alike",
            ));
        }
    };
    let path = path.strip_prefix("file://").unwrap_or(path);
    if path.is_empty() { Err(entry.refused("expected paths, with commas")) } else { Ok(PathBuf::from(path)) }
}

fn apply(
    entries: &[Entry],
    surroundings: &Surroundings<'_>,
    set: impl FnMut(&str, &Resolve<'_>) -> Result<()>,
) -> Result<Vec<Notice>> {
    let Surroundings { environment, properties } = surroundings;
    let rules = Rules {
        table: &TABLE,
        references: References::Hadoop { environment, properties },
        elsewhere: &|_, _| None,
        promises: &|key| promises_security(key).then_some("nothing here keeps what it promises"),
        page: "docs/reference/dfs-settings.md",
    };
    yeoul_settings::apply(entries, &rules, set)
}

fn set_client(name: &str, entry: &Resolve<'_>, options: &mut client::Options) -> Result<()> {
    match name {
        "fs.defaultFS" => {
            let value = entry()?.value;
            // Hadoop's default, and that of files which leave it to the command line.
            options.default_fs = (value != "file:///").then_some(value);
        }
        "fs.permissions.umask-mode" => options.umask = umask(&entry()?)?,
        "dfs.replication" => options.replication = Some(replication(&entry()?)?),
        "dfs.blocksize" => options.block_size = Some(entry()?.size()?),
        _ => {}
    }
    Ok(())
}

/// True or false.
fn boolean(entry: &Entry) -> Result<bool> {
    entry.read("true or false", |text| text.parse().ok())
}

/// Copies of a block.
fn replication(entry: &Entry) -> Result<u16> {
    entry.read("a number from 1 to 512", |text| text.parse().ok().filter(|copies| (1..=512).contains(copies)))
}

/// Bits of a mode that nothing new gets: octal digits, or Hadoop's symbols, which name what new things may get.
fn umask(entry: &Entry) -> Result<u16> {
    let read = |text: &str| {
        if text.contains(['=', '+', '-']) {
            symbolic_umask(text)
        } else {
            u16::from_str_radix(text, 8).ok().filter(|mask| *mask <= 0o777)
        }
    };
    entry.read("octal digits such as 022, or u=rwx,g=rx,o=", read)
}

/// The mask that lets through what a text such as `u=rwx,g=rx,o=` names; only `=`, for each of the three.
fn symbolic_umask(text: &str) -> Option<u16> {
    let mut allowed = [None; 3];
    for part in text.split(',') {
        let (who, what) = part.split_once('=')?;
        let bits = what.chars().try_fold(0, |bits, c| Some(bits | (4_u16 >> "rwx".find(c)?)))?;
        for who in who.chars() {
            match "ugo".find(who) {
                Some(at) => allowed[at] = Some(bits),
                None if who == 'a' => allowed = [Some(bits); 3],
                None => return None,
            }
        }
    }
    let [user, group, others] = allowed;
    Some(0o777 & !(user? << 6 | group? << 3 | others?))
}

#[cfg(test)]
mod tests {
    use yeoul_settings::Origin;

    use super::*;

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.to_owned(), origin: Origin::named("-D") }
    }

    fn applied(entries: &[(&str, &str)]) -> Result<client::Options> {
        let nothing = |_: &str| None;
        let surroundings = Surroundings { environment: &nothing, properties: &nothing };
        let entries: Vec<Entry> = entries.iter().map(|(key, value)| entry(key, value)).collect();
        let mut options = client::Options::default();
        to_client(&entries, &surroundings, &mut options).map(|()| options)
    }

    #[test]
    fn a_client_takes_its_address_and_what_files_are_like() {
        let options = applied(&[
            ("fs.defaultFS", "hdfs://n1:9000"),
            ("dfs.replication", "2"),
            ("dfs.blocksize", "64m"),
            ("dfs.umaskmode", "u=rwx,g=rx,o="),
        ])
        .unwrap();
        assert_eq!(options.default_fs.as_deref(), Some("hdfs://n1:9000"));
        assert_eq!(
            (options.replication, options.block_size, options.umask),
            (Some(2), Some(64 << 20), 0o027)
        );
        assert_eq!(applied(&[("fs.default.name", "file:///")]).unwrap().default_fs, None);
    }

    #[test]
    fn what_a_key_does_not_take_is_named() {
        for (key, value, expected) in [
            ("dfs.replication", "0", "-D: dfs.replication = 0: expected a number from 1 to 512"),
            ("dfs.blocksize", "big", "-D: dfs.blocksize = big: expected a size such as 8m"),
            (
                "fs.permissions.umask-mode",
                "999",
                "-D: fs.permissions.umask-mode = 999: expected octal digits",
            ),
            ("fs.permissions.umask-mode", "u=rwx", "-D: fs.permissions.umask-mode = u=rwx: expected octal"),
        ] {
            let error = applied(&[(key, value)]).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    fn with<O>(
        entries: &[(&str, &str)],
        mut options: O,
        to: impl FnOnce(&[Entry], &Surroundings<'_>, &mut O) -> Result<Vec<Notice>>,
    ) -> Result<(O, Vec<String>)> {
        let nothing = |_: &str| None;
        let surroundings = Surroundings { environment: &nothing, properties: &nothing };
        let entries: Vec<Entry> = entries.iter().map(|(key, value)| entry(key, value)).collect();
        let notices = to(&entries, &surroundings, &mut options)?;
        Ok((options, notices.iter().map(ToString::to_string).collect()))
    }

    fn namenode(entries: &[(&str, &str)]) -> Result<(namenode::Options, Vec<String>)> {
        with(entries, namenode::Options::new("given"), to_namenode)
    }

    fn datanode(entries: &[(&str, &str)]) -> Result<(datanode::Options, Vec<String>)> {
        with(entries, datanode::Options::new("given", Vec::new()), to_datanode)
    }

    #[test]
    fn a_namenode_takes_its_keys_and_tells_of_those_that_change_nothing() {
        let (options, notices) = namenode(&[
            ("fs.defaultFS", "hdfs://n1:9000/"),
            ("dfs.name.dir", "file:///data/name"),
            ("dfs.namenode.http-address", "n1:50070"),
            ("dfs.namenode.rpc-bind-host", "0.0.0.0"),
            ("dfs.replication", "2"),
            ("dfs.namenode.fs-limits.min-block-size", "0"),
            ("dfs.namenode.safemode.extension", "5s"),
            ("dfs.namenode.acls.enabled", "false"),
            ("dfs.namenode.posix.acl.inheritance.enabled", "false"),
            ("dfs.namenode.xattrs.enabled", "false"),
            ("dfs.namenode.ec.userdefined.policy.allowed", "false"),
            ("dfs.namenode.ec.policies.max.cellsize", "65536"),
            ("dfs.namenode.fs-limits.max-xattrs-per-inode", "5"),
            ("dfs.namenode.fs-limits.max-xattr-size", "1000"),
            ("dfs.permissions.superusergroup", "crew"),
            ("dfs.namenode.handler.count", "64"),
            ("dfs.nmaenode.handler.count", "64"),
            ("dfs.datanode.data.dir", "/data/1"),
        ])
        .unwrap();
        assert_eq!((options.host.as_str(), options.port), ("0.0.0.0", 9000));
        assert_eq!(options.dir, PathBuf::from("/data/name"));
        assert_eq!((options.http_host.as_deref(), options.http_port), (Some("n1"), Some(50070)));
        let rules = options.rules;
        assert_eq!((rules.replication, rules.block_size_min, rules.safe_mode_extension_ms), (2, 0, 5000));
        assert_eq!(rules.supergroup, "crew");
        assert_eq!(
            (rules.acls_enabled, rules.posix_acl_inheritance, rules.xattrs_enabled),
            (false, false, false)
        );
        assert_eq!((rules.xattrs_max, rules.xattr_bytes_max), (5, 1000));
        assert!(namenode(&[("dfs.namenode.fs-limits.max-xattr-size", "32769")]).is_err());
        assert_eq!((rules.may_add_policies, rules.cell_bytes_max), (false, 65_536));
        assert!(namenode(&[("dfs.namenode.ec.policies.max.cellsize", "16777217")]).is_err());
        assert_eq!(
            notices,
            [
                "-D: dfs.namenode.handler.count changes nothing here: calls have no threads of their own",
                "-D: unknown key dfs.nmaenode.handler.count; did you mean dfs.namenode.handler.count?",
            ]
        );
        let both = [("dfs.namenode.rpc-address", "n2:1"), ("fs.defaultFS", "hdfs://n1:9000")];
        assert_eq!(namenode(&both).unwrap().0.host, "n2");
    }

    #[test]
    fn a_datanode_takes_its_keys() {
        let (options, notices) = datanode(&[
            ("fs.defaultFS", "hdfs://n1"),
            ("dfs.datanode.data.dir", "[DISK]file:///a, [disk]/b,/c"),
            ("dfs.heartbeat.interval", "500ms"),
            ("dfs.datanode.address", "0.0.0.0:1866"),
            ("dfs.datanode.ipc.address", "0.0.0.0:1867"),
            ("dfs.datanode.http.address", "0.0.0.0:1864"),
            ("dfs.datanode.du.reserved", "1g"),
            ("dfs.datanode.max.xcievers", "100"),
            ("dfs.blockreport.intervalMsec", "3600000"),
            ("dfs.block.scanner.volume.bytes.per.second", "4m"),
            ("dfs.datanode.scan.period.hours", "24"),
        ])
        .unwrap();
        assert_eq!(
            (options.scan_bytes_per_second, options.scan_period),
            (4 << 20, Some(Duration::from_secs(86_400)))
        );
        let period = |hours| {
            let (options, _) = datanode(&[("dfs.datanode.scan.period.hours", hours)]).unwrap();
            options.scan_period
        };
        assert_eq!((period("0"), period("-1")), (Some(datanode::SCAN_PERIOD), None));
        assert_eq!(notices, Vec::<String>::new());
        assert_eq!(options.namenodes, ["n1:8020"]);
        assert_eq!(options.dirs, ["/a", "/b", "/c"].map(PathBuf::from));
        assert_eq!((options.port, options.ipc_port, options.http_port), (1866, 1867, Some(1864)));
        assert_eq!((options.reserved_bytes, options.transfers_max), (1 << 30, 100));
        assert_eq!(options.report, Duration::from_secs(3600));
        assert_eq!(options.heartbeat, Duration::from_millis(500));
        for (said, heartbeat) in [("1", 1), ("2s", 2), ("3", 1)] {
            let (options, _) = datanode(&[("dfs.heartbeat.interval", said)]).unwrap();
            assert_eq!(options.heartbeat, Duration::from_secs(heartbeat), "{said}");
        }
    }

    #[test]
    fn a_namenode_takes_its_files_of_hosts_and_the_streams_of_repairs() {
        let combined = "org.apache.hadoop.hdfs.server.blockmanagement.CombinedHostFileManager";
        let (options, notices) = namenode(&[
            ("dfs.hosts", "/etc/included"),
            ("dfs.hosts.exclude", "/etc/excluded"),
            ("dfs.namenode.hosts.provider.classname", combined),
            ("dfs.namenode.maintenance.replication.min", "2"),
            ("dfs.namenode.replication.max-streams", "8"),
            ("dfs.namenode.replication.max-streams-hard-limit", "16"),
        ])
        .unwrap();
        let (racks, _) = namenode(&[
            ("net.topology.script.file.name", "/etc/script"),
            ("net.topology.table.file.name", "/etc/table"),
            ("net.topology.node.switch.mapping.impl", "org.apache.hadoop.net.TableMapping"),
        ])
        .unwrap();
        let topology = namenode::Topology {
            script: Some("/etc/script".into()),
            table: Some("/etc/table".into()),
            is_table: true,
        };
        assert_eq!(racks.topology, topology);
        let trash = [("fs.trash.interval", "1440"), ("fs.trash.checkpoint.interval", "60")];
        let rules = namenode(&trash).unwrap().0.rules;
        assert_eq!((rules.trash_minutes, rules.trash_checkpoint_minutes), (1440, 60));
        assert!(namenode(&[("fs.trash.interval", "-1")]).is_err());
        assert!(namenode(&[("net.topology.node.switch.mapping.impl", "com.example.Racks")]).is_err());
        let expected = namenode::HostsFiles {
            included: Some("/etc/included".into()),
            excluded: Some("/etc/excluded".into()),
            is_combined: true,
        };
        assert_eq!((options.hosts, notices), (expected, Vec::new()));
        let rules = options.rules;
        assert_eq!(
            (rules.away_copies_min, rules.repair_streams_max, rules.repair_streams_hard_max),
            (2, 8, 16)
        );
        assert!(namenode(&[("dfs.namenode.hosts.provider.classname", "com.example.Hosts")]).is_err());
        assert!(namenode(&[("dfs.namenode.replication.max-streams", "65")]).is_err());
        let (options, notices) = datanode(&[
            ("dfs.datanode.balance.bandwidthPerSec", "10m"),
            ("dfs.datanode.balance.max.concurrent.moves", "7"),
        ])
        .unwrap();
        let set = (options.repair_bytes_per_second, options.moves_max, notices);
        assert_eq!(set, (10 << 20, 7, Vec::new()));
        assert!(datanode(&[("dfs.datanode.balance.max.concurrent.moves", "0")]).is_err());
    }

    #[test]
    fn what_would_promise_more_than_is_kept_is_refused() {
        for (key, value) in [
            ("dfs.permissions.enabled", "false"),
            ("hadoop.security.authentication", "kerberos"),
            ("dfs.encrypt.data.transfer", "true"),
            ("dfs.nameservices", "ns1"),
            ("dfs.namenode.fs-limits.max-component-length", "1000"),
            ("dfs.datanode.data.dir", "[ARCHIVE]/a"),
            ("dfs.datanode.data.dir", "[SSD]/a"),
            ("dfs.heartbeat.interval", "5"),
            ("dfs.heartbeat.interval", "0"),
            ("dfs.new.encryption.mode", "on"),
        ] {
            let error = datanode(&[(key, value)]).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{key}");
            assert!(error.to_string().starts_with(&format!("-D: {key}")), "{error}");
        }
        assert!(namenode(&[("dfs.namenode.name.dir", "/a,/b")]).is_err());
        assert!(namenode(&[("fs.defaultFS", "s3a://bucket")]).is_err());
        let defaults = [("dfs.permissions.enabled", "true"), ("hadoop.security.authentication", "simple")];
        assert_eq!(namenode(&defaults).unwrap().1, Vec::<String>::new());
    }
}
