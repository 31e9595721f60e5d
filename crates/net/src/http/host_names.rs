//! Names under which a server may be asked for its pages.

use std::fs;
use std::net::IpAddr;

/// Names of this machine and of the network that it is part of. An address is always one: nobody can rebind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HostNames {
    /// In lower case: the machine's own, and those that the server was told.
    own: Vec<String>,
    /// The domains in which this machine looks up names that have no dot.
    domains: Vec<String>,
}

impl HostNames {
    /// What Linux says of this machine; where it says nothing, only addresses, `localhost` and what was told are names.
    pub fn of_machine() -> Self {
        let [hostname, hosts, resolver] = ["/proc/sys/kernel/hostname", "/etc/hosts", "/etc/resolv.conf"]
            .map(|path| fs::read_to_string(path).unwrap_or_default());
        Self::of(hostname.trim(), &hosts, &resolver)
    }

    /// The names of a machine with this host name, table of hosts, and resolver's configuration.
    pub fn of(hostname: &str, hosts: &str, resolver: &str) -> Self {
        let mut names = Self::default();
        names.add(hostname);
        // As in `127.0.1.1 worker-7.example.com worker-7`: also Kubernetes writes the full name of a pod there.
        for line in hosts.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let aliases: Vec<&str> = line.split_whitespace().skip(1).collect();
            if aliases.contains(&hostname) {
                aliases.into_iter().for_each(|alias| names.add(alias));
            }
        }
        for line in resolver.lines() {
            let mut words = line.split_whitespace();
            if matches!(words.next(), Some("search" | "domain")) {
                names.domains.extend(words.map(canonical).filter(|domain| !domain.is_empty()));
            }
        }
        names
    }

    /// Adds a name that the server was told.
    pub fn add(&mut self, name: &str) {
        let name = canonical(name);
        if !name.is_empty() && !self.own.contains(&name) {
            self.own.push(name);
        }
    }

    /// Whether a request may name this server so. On another address than a loopback one, names without a dot and those of
    /// this machine's domains are let in, too: no site of the internet has such a name.
    pub fn has(&self, name: &str, is_local: bool) -> bool {
        let name = canonical(name);
        if name.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost") {
            return true;
        }
        if self.own.contains(&name) {
            return true;
        }
        let is_below =
            |domain: &String| name.strip_suffix(domain.as_str()).is_some_and(|front| front.ends_with('.'));
        !is_local && !name.is_empty() && (!name.contains('.') || self.domains.iter().any(is_below))
    }
}

/// In lower case, and without the dot of the root.
fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_names_that_its_own_tables_give_it() {
        let hosts = "127.0.0.1 localhost\n10.1.2.3\tMaster-0.masters.ns.svc.cluster.local master-0 # a pod\n10.9.9.9 other.example\n";
        let names = HostNames::of(
            "master-0",
            hosts,
            "nameserver 10.0.0.1\nsearch ns.svc.cluster.local svc.cluster.local\n",
        );
        assert_eq!(names.own, ["master-0", "master-0.masters.ns.svc.cluster.local"]);
        assert!(names.has("master-0.masters.ns.svc.cluster.local.", true));
        assert!(
            names.has("masters.ns.svc.cluster.local", false)
                && !names.has("masters.ns.svc.cluster.local", true)
        );
        assert!(!names.has("other.example", false));
        assert!(!names.has("evilns.svc.cluster.local.example", false));
    }

    #[test]
    fn a_machine_that_says_nothing_has_addresses_and_what_it_was_told() {
        let mut names = HostNames::of("", "", "search .\n");
        assert!(names.has("::1", true) && names.has("10.0.0.1", true) && names.has("localhost", true));
        assert!(!names.has("console.example.com", false) && !names.has("evil.example", false));
        names.add("Console.example.com");
        assert!(names.has("console.EXAMPLE.com", true));
    }
}
