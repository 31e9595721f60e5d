//! Pages about the process and the machine that it runs on, the same for a master and a worker: `thread_dump` and
//! `container_info` of Celeborn's `/api/v1`. They read the kernel's files, which wait for no disk.

use std::fs;

use serde_json::{Value, json};

/// The most threads that one page lists; each is some 150 bytes of JSON. A server has tens of them.
const THREADS_MAX: usize = 4096;

/// The machine or container: what tells it from others, and what of it may be used. Celeborn's other fields are empty, because
/// nobody here knows a data center or a zone.
pub fn container_info(address: &str) -> Value {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    json!({
        "containerName": host,
        "containerAddress": address,
        "containerHostName": host,
        "containerDataCenter": "",
        "containerAvailabilityZone": "",
        "containerUser": std::env::var("USER").unwrap_or_default(),
        "containerCluster": "",
        "containerTags": [],
        // Beyond Celeborn's fields:
        "memoryBytes": yeoul_base::machine_memory().map(|memory| memory.as_u64()),
        "processors": std::thread::available_parallelism().ok().map(std::num::NonZero::get),
    })
}

/// The threads of this process. A stack has one line at most: where in the kernel the thread waits, if that may be read.
pub fn thread_dump() -> Value {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    // One may end while it is looked at.
    let threads = tasks.flatten().take(THREADS_MAX).filter_map(|task| {
        let (id, folder) = (task.file_name().to_str()?.parse::<u64>().ok()?, task.path());
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        let state = state_in(&fs::read_to_string(folder.join("stat")).ok()?)?;
        let waits_in = fs::read_to_string(folder.join("wchan")).unwrap_or_default();
        let stack: Vec<&str> =
            Some(waits_in.trim()).filter(|name| !matches!(*name, "" | "0")).into_iter().collect();
        Some(json!({
            "threadId": id,
            "threadName": name.trim_end(),
            "threadState": state,
            "stackTrace": stack,
            "holdingLocks": [],
            "synchronizers": [],
            "monitors": [],
        }))
    });
    json!({ "threadStacks": threads.collect::<Vec<_>>() })
}

/// The state of a thread in Java's words, from its `stat` file.
fn state_in(stat: &str) -> Option<&'static str> {
    // The second field is a name in parentheses that may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(match fields.chars().next()? {
        'R' => "RUNNABLE",
        'D' => "BLOCKED",
        'Z' | 'X' | 'x' => "TERMINATED",
        _ => "WAITING",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_listed_with_its_name_while_it_runs() {
        let (told, hears) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("a (name) R".to_owned());
        let thread = thread.spawn(move || _ = hears.recv()).unwrap();
        let find = || {
            let threads = thread_dump();
            let threads = threads["threadStacks"].as_array().unwrap().clone();
            assert!(threads.iter().any(|thread| thread["threadState"] == "RUNNABLE"), "the one that asks");
            threads.into_iter().find(|thread| thread["threadName"] == "a (name) R")
        };
        // A thread gets its name as the first thing that it does.
        let found = std::iter::repeat_with(find).take(100_000).flatten().next().expect("it runs");
        assert!(found["threadId"].as_u64().unwrap() > 0 && found["stackTrace"].is_array());
        drop(told);
        thread.join().unwrap();
    }

    #[test]
    fn states_are_read_behind_the_name() {
        for (stat, state) in [
            ("7 (R) R) S 1", Some("WAITING")),
            ("7 (x) D 1", Some("BLOCKED")),
            ("7 (x) Z 1", Some("TERMINATED")),
            ("7 (x)", None),
        ] {
            assert_eq!(state_in(stat), state, "{stat}");
        }
    }

    #[test]
    fn the_machine_has_a_name_and_memory() {
        let info = container_info("10.0.0.1");
        assert_eq!(info["containerAddress"], "10.0.0.1");
        assert!(info["containerHostName"].as_str().is_some_and(|host| !host.is_empty()));
        assert!(info["memoryBytes"].as_u64() > Some(1 << 20) && info["processors"].as_u64() > Some(0));
    }
}
