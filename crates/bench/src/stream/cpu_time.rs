//! CPU time of processes and of all that they have started, from `/proc`.

use std::collections::HashMap;
use std::fs;

/// Numbers of a process from `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: u32,
    parent: u32,
    /// Clock ticks in user and kernel mode, with those of children that have ended and were waited for.
    ticks: u64,
}

/// Seconds of CPU time that the processes and their descendants have taken so far.
pub(super) fn cpu_seconds(roots: &[u32]) -> f64 {
    let names =
        fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok).map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
    let stats = pids.filter_map(|pid| parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?));
    ticks_of(roots, &stats.collect::<Vec<_>>()) as f64 / rustix::param::clock_ticks_per_second() as f64
}

fn ticks_of(roots: &[u32], stats: &[Stat]) -> u64 {
    let mut children: HashMap<u32, Vec<Stat>> = HashMap::new();
    for stat in stats {
        children.entry(stat.parent).or_default().push(*stat);
    }
    // One of the roots may be the child of another.
    let mut todo: Vec<Stat> = stats.iter().filter(|stat| roots.contains(&stat.pid)).copied().collect();
    let mut sum = 0;
    while let Some(stat) = todo.pop() {
        sum += stat.ticks;
        let inner = children.remove(&stat.pid).unwrap_or_default();
        todo.extend(inner.into_iter().filter(|child| !roots.contains(&child.pid)));
    }
    sum
}

/// The name, in parentheses, may hold anything, parentheses and blanks too.
fn parse(line: &str) -> Option<Stat> {
    let (pid, rest) = line.split_once(' ')?;
    let fields: Vec<&str> = rest.get(rest.rfind(')')? + 1..)?.split_whitespace().collect();
    // From the third field of proc(5) on: state, ppid, …; utime, stime, cutime and cstime are 14 to 17.
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>());
    Some(Stat {
        pid: pid.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        ticks: ticks.sum::<Result<u64, _>>().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read_whatever_its_name() {
        let line = "42 (a (b) c) S 7 42 42 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 12345 1000 200";
        assert_eq!(parse(line), Some(Stat { pid: 42, parent: 7, ticks: 110 }));
        assert_eq!(parse("42 (short) S 7"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_tree_is_counted_once() {
        let stat = |pid, parent, ticks| Stat { pid, parent, ticks };
        let stats = [stat(1, 0, 1000), stat(2, 1, 1), stat(3, 2, 10), stat(4, 3, 100), stat(5, 1, 5000)];
        assert_eq!(ticks_of(&[2], &stats), 111);
        assert_eq!(ticks_of(&[3, 2], &stats), 111, "a root below another one counts once");
        assert_eq!(ticks_of(&[9], &stats), 0);
    }

    #[test]
    fn our_own_time_grows_with_work() {
        let own = [std::process::id()];
        let (before, mut n) = (cpu_seconds(&own), 0_u64);
        while cpu_seconds(&own) < before + 0.05 {
            n = std::hint::black_box(n + 1);
        }
        assert!(cpu_seconds(&own) >= before + 0.05);
    }
}
