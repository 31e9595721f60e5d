//! The hosts that may have DataNodes, and those that are to leave: what Hadoop's files say (`dfs.hosts`, `dfs.hosts.exclude`).

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::error::{Error, Kind, Result};

/// Bytes of a file of hosts.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Hosts that the files name.
const HOSTS_MAX: usize = 100_000;
/// Bytes of the name of a host.
const NAME_BYTES_MAX: usize = 255;

/// What is to become of a DataNode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duty {
    /// It serves.
    #[default]
    Serve,
    /// It leaves for good: what it has is made anew on others first.
    Leave,
    /// It may be away for a while: what it has is not made anew meanwhile, but for what would be nowhere else.
    Pause {
        /// Milliseconds since 1970 at which it serves again.
        until_ms: u64,
    },
}

/// A host that a file names, perhaps with the port for blocks of one of its DataNodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// A name or an address.
    pub name: String,
    /// The port of one DataNode; none for all of the host.
    pub port: Option<u16>,
    /// Addresses that the name leads to.
    pub addresses: BTreeSet<String>,
    /// What is to become of its DataNodes.
    pub duty: Duty,
}

/// The hosts that files name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Those that may have DataNodes; none for all.
    included: Option<Vec<Host>>,
    /// Those with a duty of their own.
    others: Vec<Host>,
}

impl Hosts {
    /// From the texts of the two files of `HostFileManager`: words, each a name or an address with or without a port, and
    /// comments behind `#`. An empty list of included hosts includes all.
    ///
    /// # Errors
    /// `Invalid` for what is no host, or too many.
    pub fn of_lists(included: &str, excluded: &str) -> Result<Self> {
        let read = |text: &str, duty| -> Result<Vec<Host>> {
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
            lines.flat_map(str::split_whitespace).map(|word| host(word, duty)).collect()
        };
        let included = read(included, Duty::Serve)?;
        Self::of(Some(included).filter(|hosts| !hosts.is_empty()), read(excluded, Duty::Leave)?)
    }

    /// From the text of the file of `CombinedHostFileManager`: JSON objects with `hostName`, `port`, `adminState` and
    /// `maintenanceExpireTimeInMS`, in an array or one behind the other. An empty text includes all hosts.
    ///
    /// # Errors
    /// `Invalid` for a text that is cut or has something else, and for too many hosts.
    pub fn of_json(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let invalid = |error: serde_json::Error| {
            Error::new(Kind::Invalid, format!("the file of hosts is no JSON of hosts: {error}"))
        };
        let said: Vec<Said> = match text.trim_start().starts_with('[') {
            true => serde_json::from_str(text).map_err(invalid)?,
            false => {
                let objects = serde_json::Deserializer::from_str(text).into_iter::<Said>();
                objects.collect::<std::result::Result<_, _>>().map_err(invalid)?
            }
        };
        let hosts = said.into_iter().map(Said::host).collect::<Result<Vec<Host>>>()?;
        let others = hosts.iter().filter(|host| host.duty != Duty::Serve).cloned().collect();
        // As in HDFS, a file that names hosts only to send them away includes all others.
        let includes = hosts.iter().any(|host| host.duty == Duty::Serve);
        Self::of(includes.then_some(hosts), others)
    }

    fn of(included: Option<Vec<Host>>, others: Vec<Host>) -> Result<Self> {
        let count = included.as_ref().map_or(0, Vec::len) + others.len();
        if count > HOSTS_MAX {
            return Err(Error::new(Kind::Invalid, format!("{count} hosts are more than {HOSTS_MAX}")));
        }
        Ok(Self { included, others })
    }

    /// All hosts that are named, for whoever looks up their addresses.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Host> {
        self.included.iter_mut().flatten().chain(&mut self.others)
    }

    /// What is to become of the DataNode with a name, an address and a port for blocks; none if it may not be here.
    pub fn duty_of(&self, name: &str, ip: &str, port: u16) -> Option<Duty> {
        let is_it = |host: &&Host| host.is(name, ip, port);
        let is_included = self.included.as_ref().is_none_or(|hosts| hosts.iter().any(|host| is_it(&host)));
        // As in HDFS, who is in both lists is here until it has left.
        let own = self.others.iter().find(is_it).map(|host| host.duty);
        is_included.then(|| own.unwrap_or_default())
    }
}

impl Host {
    fn is(&self, name: &str, ip: &str, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
            && (self.name.eq_ignore_ascii_case(name) || self.name == ip || self.addresses.contains(ip))
    }
}

/// A host as the file of `CombinedHostFileManager` has it.
#[derive(Deserialize)]
struct Said {
    #[serde(rename = "hostName")]
    name: String,
    #[serde(default)]
    port: u16,
    #[serde(rename = "adminState", default)]
    state: Option<String>,
    #[serde(rename = "maintenanceExpireTimeInMS", default)]
    until_ms: Option<u64>,
}

impl Said {
    fn host(self) -> Result<Host> {
        let duty = match self.state.as_deref() {
            None | Some("NORMAL") => Duty::Serve,
            Some("DECOMMISSIONED") => Duty::Leave,
            Some("IN_MAINTENANCE") => Duty::Pause { until_ms: self.until_ms.unwrap_or(u64::MAX) },
            Some(other) => {
                let message = format!(
                    "the host {:.100} has the adminState '{other:.40}', expected NORMAL, DECOMMISSIONED or IN_MAINTENANCE",
                    self.name
                );
                return Err(Error::new(Kind::Invalid, message));
            }
        };
        let port = Some(self.port).filter(|port| *port > 0);
        Ok(Host { port, ..host_named(&self.name, duty)? })
    }
}

/// A host by a word: a name, an IPv4 address, an IPv6 address, or one of them with a colon and a port.
fn host(word: &str, duty: Duty) -> Result<Host> {
    let (name, port) = match word.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (word, None),
    };
    let name = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let invalid =
        || Error::new(Kind::Invalid, format!("'{word:.100}' is no host, such as node7 or 10.0.0.7:9866"));
    let port = port.map(|port| port.parse().map_err(|_| invalid())).transpose()?;
    Ok(Host { port, ..host_named(name, duty)? })
}

fn host_named(name: &str, duty: Duty) -> Result<Host> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let message = format!("the name of a host has {} bytes, expected 1 to {NAME_BYTES_MAX}", name.len());
        return Err(Error::new(Kind::Invalid, message));
    }
    Ok(Host { name: name.to_owned(), port: None, addresses: BTreeSet::new(), duty })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_words_and_comments() {
        let hosts = Hosts::of_lists("# all\n node1 10.0.0.2:9866\n\n::1\n", "node1 # it is old\n").unwrap();
        assert_eq!(hosts.duty_of("NODE1", "10.0.0.1", 9866), Some(Duty::Leave), "who is in both leaves");
        assert_eq!(hosts.duty_of("node2", "10.0.0.2", 9866), Some(Duty::Serve));
        assert_eq!(hosts.duty_of("node2", "10.0.0.2", 9867), None, "another DataNode of the host");
        assert_eq!(hosts.duty_of("x", "::1", 1), Some(Duty::Serve));
        assert_eq!(hosts.duty_of("node3", "10.0.0.3", 9866), None);
        let all = Hosts::of_lists("# nobody is kept away\n", "").unwrap();
        assert_eq!(all.duty_of("node3", "10.0.0.3", 9866), Some(Duty::Serve));
        assert_eq!(all, Hosts::default());
        for bad in ["node:x", "node:70000", ":9866", &"n".repeat(256)] {
            assert_eq!(Hosts::of_lists(bad, "").unwrap_err().kind(), Kind::Invalid, "{bad}");
        }
    }

    #[test]
    fn there_are_not_more_hosts_than_a_namenode_keeps() {
        let names = |count| "node ".repeat(count);
        assert!(Hosts::of_lists(&names(HOSTS_MAX - 1), "old").is_ok());
        let error = Hosts::of_lists(&names(HOSTS_MAX), "old").unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (Kind::Invalid, "100001 hosts are more than 100000".to_owned())
        );
    }

    #[test]
    fn a_name_is_known_by_the_addresses_that_it_leads_to() {
        let mut hosts = Hosts::of_lists("", "old.example").unwrap();
        assert_eq!(hosts.duty_of("10.0.0.9", "10.0.0.9", 1), Some(Duty::Serve));
        hosts.iter_mut().for_each(|host| host.addresses = BTreeSet::from(["10.0.0.9".to_owned()]));
        assert_eq!(hosts.duty_of("10.0.0.9", "10.0.0.9", 1), Some(Duty::Leave));
    }

    #[test]
    fn json_has_states_and_what_is_cut_is_refused() {
        let text = r#"[{"hostName": "a", "port": 7}, {"hostName": "b", "adminState": "DECOMMISSIONED"},
            {"hostName": "c", "adminState": "IN_MAINTENANCE", "maintenanceExpireTimeInMS": 5, "upgradeDomain": "u"}]"#;
        let hosts = Hosts::of_json(text).unwrap();
        assert_eq!(hosts.duty_of("a", "1.1.1.1", 7), Some(Duty::Serve));
        assert_eq!(hosts.duty_of("a", "1.1.1.1", 8), None);
        assert_eq!(hosts.duty_of("b", "1.1.1.1", 8), Some(Duty::Leave));
        assert_eq!(hosts.duty_of("c", "1.1.1.1", 8), Some(Duty::Pause { until_ms: 5 }));
        let behind = Hosts::of_json(
            "{\"hostName\": \"b\", \"adminState\": \"DECOMMISSIONED\"}\n{\"hostName\": \"c\", \"adminState\": \"IN_MAINTENANCE\"}\n",
        );
        let behind = behind.unwrap();
        assert_eq!(behind.duty_of("b", "1.1.1.1", 8), Some(Duty::Leave));
        assert_eq!(behind.duty_of("c", "1.1.1.1", 8), Some(Duty::Pause { until_ms: u64::MAX }));
        assert_eq!(behind.duty_of("d", "1.1.1.1", 8), Some(Duty::Serve), "nobody is named to be let in");
        assert_eq!(Hosts::of_json(" \n").unwrap(), Hosts::default());
        for bad in [
            &text[..text.len() - 2],
            "x",
            "[{}]",
            r#"{"hostName": "a", "adminState": "GONE"}"#,
            r#"{"hostName": "a"} {"#,
        ] {
            assert_eq!(Hosts::of_json(bad).unwrap_err().kind(), Kind::Invalid, "{bad}");
        }
    }
}
