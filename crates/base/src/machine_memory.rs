use std::fs;
use std::path::Path;

use crate::ByteSize;

/// The memory that this process can have: the machine's, or less if its control groups limit it, as a container's do.
/// `None` where the system does not say.
pub fn machine_memory() -> Option<ByteSize> {
    memory_by(|path| fs::read_to_string(path).ok())
}

/// [`machine_memory`], with `read` to read the kernel's files.
fn memory_by(read: impl Fn(&str) -> Option<String>) -> Option<ByteSize> {
    let said = read("/proc/meminfo")?;
    let total = said.lines().find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB"))?;
    let machine = total.trim().parse::<u64>().ok()?.saturating_mul(1024);
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    // A group without a limit says `max`, or a number that no machine has.
    let limit = |file: String| read(&file)?.trim().parse().ok();
    let limits = groups.lines().flat_map(limit_files).filter_map(limit);
    limits.chain([machine]).min().map(ByteSize::from_bytes)
}

/// The limit files of the control group on a line of `/proc/self/cgroup`, and of its ancestors. Within a container, its
/// own group may be visible only as the root.
fn limit_files(line: &str) -> Vec<String> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let named = |group: &Path| format!("{root}{}/{file}", group.display().to_string().trim_end_matches('/'));
    Path::new(group).ancestors().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       2097152 kB\nMemFree:        1048576 kB\n";

    fn of(groups: &str, files: &[(&str, &str)]) -> Option<ByteSize> {
        memory_by(|path| match path {
            "/proc/meminfo" => Some(MEMINFO.to_owned()),
            "/proc/self/cgroup" => Some(groups.to_owned()),
            _ => files.iter().find(|(file, _)| *file == path).map(|(_, text)| (*text).to_owned()),
        })
    }

    #[test]
    fn the_least_limit_around_the_process_counts() {
        let mib = |mib| Some(ByteSize::from_mib(mib));
        assert_eq!(of("", &[]), mib(2048));
        let unified = "0::/outer/inner\n";
        let inner = ("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
        let outer = ("/sys/fs/cgroup/outer/memory.max", "1073741824\n");
        assert_eq!(of(unified, &[inner]), mib(2048));
        assert_eq!(of(unified, &[inner, outer]), mib(1024));
        assert_eq!(of("0::/\n", &[("/sys/fs/cgroup/memory.max", "536870912\n")]), mib(512));
        let split = "5:cpu,cpuacct:/docker/7\n4:memory:/docker/7\n0::/\n";
        let host = ("/sys/fs/cgroup/memory/docker/7/memory.limit_in_bytes", "9223372036854771712\n");
        let container = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
        assert_eq!(of(split, &[host]), mib(2048), "no limit");
        assert_eq!(of(split, &[container]), mib(256));
        assert_eq!(memory_by(|_| None), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(machine_memory().unwrap() > ByteSize::from_mib(64));
    }
}
