//! Goal: the parts stay apart as CONTRIBUTING.md draws them. Method: read the sources as text and look at paths, imports and words.
//!
//! - a codec (`wire/`) does no I/O; a decision (the files listed below) touches no runtime, socket, file or clock;
//! - dependencies between crates go one way; only `dialect` knows DataFusion's parser and planner of SQL;
//! - no `unsafe` but in `erasure` and for the allocator; no path of one machine; no file or folder with a name that says nothing; no file too large;
//! - one version of arrow, datafusion and tokio in the lock file;
//! - files are text, their names need no quotes in a shell, and the paths and headings that pages name exist;
//! - arithmetic that overflows panics, but in the crates listed below.

#![allow(clippy::unwrap_used)] // what helps a test fails it

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What decides, each by its file, or by the folder whose files all decide. `wire` folders are codecs, wherever they are.
const DECISIONS: [&str; 65] = [
    "crates/bench/src/compare/order.rs",
    "crates/dfs/src/datanode/checked_plan.rs",
    "crates/dfs/src/datanode/layout.rs",
    "crates/dfs/src/datanode/pace.rs",
    "crates/dfs/src/datanode/repairs.rs",
    "crates/dfs/src/datanode/replicas.rs",
    "crates/dfs/src/datanode/volume_choice.rs",
    "crates/dfs/src/namenode/admin_state.rs",
    "crates/dfs/src/namenode/blocks",
    "crates/dfs/src/namenode/checking",
    "crates/dfs/src/namenode/datanodes.rs",
    "crates/dfs/src/namenode/hosts.rs",
    "crates/dfs/src/namenode/journal_record.rs",
    "crates/dfs/src/namenode/leases.rs",
    "crates/dfs/src/namenode/namespace",
    "crates/dfs/src/namenode/placement.rs",
    "crates/dfs/src/namenode/policies.rs",
    "crates/dfs/src/namenode/refused.rs",
    "crates/dfs/src/namenode/repair",
    "crates/dfs/src/namenode/retry_cache.rs",
    "crates/dfs/src/namenode/safe_mode.rs",
    "crates/dfs/src/namenode/state",
    "crates/dfs/src/namenode/table.rs",
    "crates/dfs/src/policy.rs",
    "crates/dfs/src/storage_policy.rs",
    "crates/erasure/src/stripe.rs",
    "crates/journal/src/health.rs",
    "crates/journal/src/layout.rs",
    "crates/journal/src/parsed.rs",
    "crates/journal/src/record.rs",
    "crates/memory/src/shares.rs",
    "crates/shuffle/src/client/application/fate.rs",
    "crates/shuffle/src/client/application/routes.rs",
    "crates/shuffle/src/client/application/state.rs",
    "crates/shuffle/src/client/application/used_numbers.rs",
    "crates/shuffle/src/client/executor/known_routes.rs",
    "crates/shuffle/src/client/tasks/once.rs",
    "crates/shuffle/src/master/messages.rs",
    "crates/shuffle/src/master/record.rs",
    "crates/shuffle/src/master/record_layout.rs",
    "crates/shuffle/src/master/slots",
    "crates/shuffle/src/master/slots.rs",
    "crates/shuffle/src/master/state",
    "crates/shuffle/src/worker/index.rs",
    "crates/shuffle/src/worker/state.rs",
    "crates/shuffle/src/worker/store/record.rs",
    "crates/sql/src/catalog/pattern.rs",
    "crates/sql/src/memory/policy.rs",
    "crates/sql/src/output/layout.rs",
    "crates/sql/src/shell/statement.rs",
    "crates/stream/src/checkpoint/coordinator.rs",
    "crates/stream/src/checkpoint/output.rs",
    "crates/stream/src/checkpoint/resumption.rs",
    "crates/stream/src/checkpoint/state_files.rs",
    "crates/stream/src/connectors/kafka/lag.rs",
    "crates/stream/src/connectors/kafka/offsets.rs",
    "crates/stream/src/connectors/kafka/partition_changes.rs",
    "crates/stream/src/connectors/kafka/topic_pattern.rs",
    "crates/stream/src/dataflow/gathering.rs",
    "crates/stream/src/dataflow/pace.rs",
    "crates/stream/src/dataflow/phases.rs",
    "crates/stream/src/operators",
    "crates/stream/src/plan",
    "crates/stream/src/state",
    "crates/stream/src/state_function",
];

/// Words that shared crates do not say in their code: they know no part.
const PARTS: [&str; 3] = ["celeborn", "shuffle", "hadoop"];

/// The crates that parts are built on. The kernels of `erasure` shuffle bytes.
const SHARED: [&str; 8] = ["base", "console", "dialect", "disk", "journal", "memory", "net", "stores"];

/// What stands in one place, and where: a rename into place, a lock file, the resident set.
const ONCE: [(&str, &[&str]); 7] = [
    ("fs::rename(", &["crates/disk/src/owned_folder.rs", "crates/disk/src/real_disk.rs"]),
    ("TryLockError", &["crates/disk/src/folder_lock.rs"]),
    ("/proc/self/statm", &["crates/base/src/resident_set.rs"]),
    ("VmHWM:", &["crates/memory/src/peak.rs"]),
    ("VmRSS:", &[]),
    ("statfs(", &["crates/base/src/in_memory.rs"]),
    // What a browser sends for another site is refused there, for all pages.
    ("http1::Builder", &["crates/net/src/http/server.rs"]),
];

/// What neither a codec nor a decision imports or names.
const IO: [&str; 14] = [
    "yeoul_net::",
    "tokio::",
    "std::net",
    "net::",
    "std::fs",
    "fs::",
    "std::thread",
    "thread::",
    "std::process",
    "process::",
    "Instant::now",
    "SystemTime::now",
    ".elapsed()",
    "thread_rng",
];

/// Which crates of ours a crate may use. The binary, `yeoul`, may use all.
const DEPENDENCIES: [(&str, &[&str]); 17] = [
    ("base", &[]),
    ("cluster", &["base", "console", "dialect", "net", "shuffle", "sql"]),
    ("console", &["base"]),
    ("dialect", &["base"]),
    ("dfs", &["base", "console", "disk", "erasure", "journal", "memory", "net", "settings"]),
    ("disk", &["base"]),
    ("erasure", &["base"]),
    ("journal", &["base", "disk"]),
    ("memory", &["base"]),
    ("net", &["base", "simulation"]),
    ("settings", &["base"]),
    ("simulation", &["base"]),
    ("shuffle", &["base", "console", "disk", "journal", "memory", "net", "settings", "simulation"]),
    ("sql", &["base", "dialect", "disk", "memory", "stores"]),
    ("stores", &["base"]),
    ("stream", &["base", "console", "dialect", "disk", "memory", "net", "simulation", "stores"]),
    ("bench", &["base", "cluster", "dfs", "disk", "erasure", "memory", "shuffle", "sql", "stream"]),
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "helpers", "common", "manager", "misc"];

/// The most lines of a file before its tests.
const LINES_MAX: usize = 600;

/// What may be compiled without checks of overflow: libraries, and crates whose arithmetic is on data.
const UNCHECKED: [&str; 4] = ["\"*\"", "yeoul-bench", "yeoul-erasure", "yeoul-sql"];

/// Folders whose files may be binary: none yet. What is captured from a client stands as hexadecimal text.
const BINARY_FOLDERS: [&str; 0] = [];

/// Folders that tools write into: none of their files is ours.
const WRITTEN: [&str; 5] = ["__pycache__", "artifacts", "corpus", "node_modules", "target"];

/// Paths in pages that are other programs' or are made at run time, each with the page that names it.
const FOREIGN_PATHS: [(&str, &str); 8] = [
    ("CONTRIBUTING.md", "data/"),
    ("docs/internals/upstream.md", "expr/function.rs"),
    ("docs/internals/upstream.md", "functions-aggregate/src/utils.rs"),
    ("docs/internals/upstream.md", "relation/mod.rs"),
    ("docs/reference/shuffle-settings.md", "celeborn-worker/shuffle_data"),
    ("docs/reference/stream-semantics.md", "yeoul/condition"),
    ("docs/stream.md", "yeoul/condition"),
    ("docs/stream.md", "yeoul/state"),
];

fn root() -> PathBuf {
    // Asked for at run time: with a target folder that several clones share, the one that built this may be gone.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    Path::new(&package).join("../..").canonicalize().expect("the workspace is there")
}

/// Every file below the workspace that is ours, by its path from there.
fn paths() -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let mut todo = vec![root.clone()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                let ours = !name.starts_with('.') || name == ".ci";
                if ours && !WRITTEN.contains(&name.as_str()) {
                    todo.push(path);
                }
            } else if name != ".git" {
                found.push(path.strip_prefix(&root).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    assert!(!found.is_empty(), "the search finds nothing at all");
    found.sort();
    found
}

/// The text of each wanted file, with its path from the workspace.
fn files(wanted: impl Fn(&Path) -> bool) -> Vec<(String, String)> {
    let root = root();
    let wanted = paths().into_iter().filter(|path| wanted(Path::new(path)));
    wanted
        .map(|path| {
            let text = String::from_utf8_lossy(&fs::read(root.join(&path)).unwrap()).into_owned();
            (path, text)
        })
        .collect()
}

fn sources() -> Vec<(String, String)> {
    files(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .into_iter()
        .filter(|(path, _)| path.starts_with("crates/") || path.starts_with("fuzz/"))
        .collect()
}

/// The lines of a file before its unit tests, which are a module within it.
fn before_tests(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let is_start =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].contains("mod ") && pair[1].ends_with('{');
    let end = lines.windows(2).position(is_start).unwrap_or(lines.len());
    lines[..end].to_vec()
}

/// The part of a file before its unit tests, without comments.
fn code(text: &str) -> String {
    let lines = before_tests(text).into_iter();
    lines.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Whether a text has a word that is not the end of a longer one: `dfs::` is not `fs::`.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// The entry of [`DECISIONS`] by which a file decides, or the folder by which it is a codec.
fn decides(path: &str) -> Option<&'static str> {
    let is_in =
        |place: &&str| path == *place || path.strip_prefix(*place).is_some_and(|rest| rest.starts_with('/'));
    let codec = || path.split('/').any(|part| part == "wire").then_some("wire");
    DECISIONS.into_iter().find(|place| is_in(place)).or_else(codec)
}

/// The files and folders that `path` declares as tests only: `#[cfg(test)]`, then `mod name;`.
fn test_files(path: &str, text: &str) -> Vec<String> {
    let Some((dir, "lib.rs" | "mod.rs")) = path.rsplit_once('/') else { return Vec::new() };
    let lines: Vec<&str> = text.lines().collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    let names = declared.filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';'));
    names.flat_map(|name| [format!("{dir}/{name}.rs"), format!("{dir}/{name}/")]).collect()
}

/// Whether a file is one of these, or below one of their folders.
fn is_of(tests: &[String], path: &str) -> bool {
    tests.iter().any(|test| path == test || (test.ends_with('/') && path.starts_with(test.as_str())))
}

fn complain(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn codecs_and_decisions_do_no_io() {
    let sources = sources();
    let tests: Vec<String> = sources.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    let mut found = BTreeSet::new();
    let mut findings = Vec::new();
    for (path, text) in sources {
        if !path.contains("/src/") || is_of(&tests, &path) {
            continue;
        }
        if let Some(place) = decides(&path) {
            let code = code(&text);
            let used = IO.iter().filter(|word| has_word(&code, word));
            findings.extend(used.map(|word| format!("{path} uses {word}")));
            found.insert(place);
        }
    }
    for place in ["wire"].into_iter().chain(DECISIONS) {
        assert!(found.contains(place), "there is no {place}: the test looks in the wrong place");
    }
    complain(findings);
}

#[test]
fn dependencies_go_one_way() {
    let mut findings = Vec::new();
    for (path, text) in sources() {
        let Some(own) = path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()) else {
            continue;
        };
        let Some((_, allowed)) = DEPENDENCIES.iter().find(|(name, _)| *name == own) else { continue };
        for (other, _) in DEPENDENCIES {
            let used = code(&text).contains(&format!("yeoul_{other}::"));
            if used && other != own && !allowed.contains(&other) {
                findings.push(format!("{path} uses yeoul-{other}, which yeoul-{own} may not"));
            }
        }
    }
    complain(findings);
}

#[test]
fn shared_crates_know_no_part() {
    let mut findings = Vec::new();
    for (path, text) in sources() {
        let is_shared = SHARED.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
        let code = code(&text).to_lowercase();
        let said = PARTS.iter().filter(|word| is_shared && code.contains(**word));
        findings.extend(said.map(|word| format!("{path} says {word}")));
    }
    complain(findings);
}

#[test]
fn what_is_shared_is_there_once() {
    let sources = sources();
    let tests: Vec<String> = sources.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    let mut findings = Vec::new();
    for (word, places) in ONCE {
        assert!(
            places
                .iter()
                .all(|place| sources.iter().any(|(path, text)| path == place && code(text).contains(word)))
        );
        let others = sources.iter().filter(|(path, text)| {
            let is_test = is_of(&tests, path)
                || path.contains("/tests/")
                || path.ends_with("/tests.rs")
                || !path.contains("/src/");
            !is_test && !places.contains(&path.as_str()) && code(text).contains(word)
        });
        findings.extend(others.map(|(path, _)| format!("{path} has {word} of its own: use {places:?}")));
    }
    complain(findings);
}

#[test]
fn sql_has_one_meaning() {
    let (mut findings, mut uses) = (Vec::new(), 0);
    for (path, text) in sources().into_iter().filter(|(path, _)| path.contains("/src/")) {
        let code = code(&text);
        let used = ["datafusion::sql", "sqlparser::"].into_iter().filter(|word| code.contains(word));
        for word in used {
            match path.split('/').nth(1) {
                Some("dialect") => uses += 1,
                // It reads the queries of benchmarks as DuckDB means them.
                Some("bench") => {}
                _ => findings.push(format!("{path} names {word}: what SQL means, yeoul-dialect says")),
            }
        }
    }
    assert!(uses > 10, "the crate that has the meaning of SQL was not found");
    complain(findings);
}

#[test]
fn the_servers_know_nothing_of_datafusion() {
    for part in ["dfs", "shuffle"] {
        let manifest = fs::read_to_string(root().join(format!("crates/{part}/Cargo.toml"))).unwrap();
        assert!(!manifest.contains("datafusion") && !manifest.contains("yeoul-sql"), "{part}");
    }
}

#[test]
fn no_unsafe_code_but_in_the_kernels_of_erasure_codes_and_the_allocator() {
    // Spelled apart, so that this file does not find itself.
    let word = concat!("un", "safe ");
    let findings = sources()
        .into_iter()
        .filter(|(path, _)| !path.starts_with("crates/erasure/") && path != "crates/yeoul/src/allocator.rs")
        .filter(|(_, text)| code(text).lines().any(|line| line.contains(word)));
    complain(findings.map(|(path, _)| format!("{path} has {word}code")).collect());
}

#[test]
fn no_path_of_one_machine() {
    let homes = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
    let text_file = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        matches!(
            extension,
            "rs" | "md" | "toml" | "py" | "sh" | "java" | "proto" | "yml" | "conf" | "sql" | ""
        )
    };
    let mut findings = Vec::new();
    for (path, text) in files(text_file) {
        // The file system that is served has such paths of its own, as its users' clients give them.
        let is_served = |home: &str| home == homes[1] && path.starts_with("crates/dfs/");
        for (number, line) in text.lines().enumerate() {
            findings.extend(
                homes
                    .iter()
                    .filter(|home| line.contains(**home) && !is_served(home))
                    .map(|home| format!("{path}:{}: {home}", number + 1)),
            );
        }
    }
    complain(findings);
}

#[test]
fn modules_are_named_and_small() {
    let sources = sources();
    let test_files: Vec<String> = sources.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    assert!(!test_files.is_empty(), "no file of tests was found: the test looks for them wrongly");
    let mut findings = Vec::new();
    for (path, text) in sources {
        let stem = Path::new(&path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let parents: Vec<&str> = path.split('/').collect();
        if EMPTY_NAMES.iter().any(|name| *name == stem || parents.contains(name)) {
            findings.push(format!("{path}: name the module after what it knows"));
        }
        let lines = before_tests(&text).len();
        if lines > LINES_MAX && path.contains("/src/") && !is_of(&test_files, &path) {
            findings.push(format!("{path} has {lines} lines before its tests: are they still one subject?"));
        }
    }
    complain(findings);
}

#[test]
fn one_version_of_what_must_be_one() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |key: &str| {
            package
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
                .unwrap_or_default()
        };
        versions.entry(field("name")).or_default().push(field("version"));
    }
    for package in ["arrow", "arrow-array", "parquet", "datafusion", "object_store", "tokio", "prost"] {
        let found = versions.get(package).map(Vec::as_slice).unwrap_or_default();
        assert!(found.len() <= 1, "{package} is in the tree as {found:?}");
    }
    assert_eq!(versions.get("arrow").map(Vec::len), Some(1), "the lock file was read wrongly");
}

#[test]
fn files_are_text() {
    let mut findings = Vec::new();
    for path in paths() {
        let is_allowed = BINARY_FOLDERS.iter().any(|folder| Path::new(&path).starts_with(folder));
        let content = fs::read(root().join(&path)).unwrap();
        let is_text = std::str::from_utf8(&content).is_ok_and(|text| !text.contains('\0'));
        if !is_text && !is_allowed {
            findings.push(format!("{path} is binary, and in no folder that BINARY_FOLDERS names"));
        }
    }
    complain(findings);
}

#[test]
fn names_need_no_quotes_in_a_shell() {
    let is_plain = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphanumeric() || matches!(first, '.' | '_'))
            && letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-'))
    };
    for odd in ["~", "a b", "-f", "a*", "é", "$x"] {
        assert!(!is_plain(odd), "{odd}");
    }
    let odd = paths().into_iter().filter(|path| !path.split('/').all(is_plain));
    complain(odd.map(|path| format!("{path}: a shell takes this name for something else")).collect());
}

/// The words of a page that stand in backticks, with the number of their line; not those of fenced blocks.
fn in_backticks(page: &str) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let mut words = Vec::new();
    for (index, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            words.extend(line.split('`').skip(1).step_by(2).map(|word| (index + 1, word)));
        }
    }
    words
}

/// The paths that `a/{b,c}` stands for: `a/b` and `a/c`.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, (inside, after))) =
        path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![path.to_owned()];
    };
    inside.split(',').flat_map(|one| alternatives(&format!("{before}{one}{after}"))).collect()
}

/// The path that a word in backticks names, if it names one: `judges/dfs/repair.py --quick` does, `/metrics`, `http://…` and
/// `sources/I/N`, in which capitals stand for numbers, do not.
fn named_path(word: &str) -> Option<&str> {
    let path = word.split(' ').next()?;
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_.{},/-".contains(letter);
    let is_variable = |part: &str| {
        !part.is_empty() && part.chars().all(|letter| letter.is_ascii_uppercase() || letter == '-')
    };
    let is_path = path.contains('/') && !path.starts_with('/') && path.chars().all(is_letter);
    (is_path && !path.split('/').any(is_variable)).then_some(path)
}

/// Every path of ours, and what pages call it: without the folders before a part, and modules without `.rs`.
fn known_paths() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for path in paths() {
        for place in Path::new(&path).ancestors() {
            let place = place.to_str().expect("names are plain");
            let module = place.strip_suffix(".rs").unwrap_or(place);
            for name in [place, module] {
                let parts: Vec<&str> = name.split('/').collect();
                known.extend((0..parts.len()).map(|from| parts[from..].join("/")));
            }
        }
    }
    known
}

/// The pages whose paths are ours: those of `docs/`, and CONTRIBUTING.md.
fn pages() -> Vec<(String, String)> {
    let is_page = |path: &Path| {
        path == Path::new("CONTRIBUTING.md")
            || (path.starts_with("docs") && path.extension().is_some_and(|extension| extension == "md"))
    };
    files(is_page)
}

#[test]
fn paths_in_pages_exist() {
    let known = known_paths();
    let mut foreign = BTreeSet::new();
    let (mut checked, mut findings) = (0, Vec::new());
    for (page, text) in pages() {
        for (line, word) in in_backticks(&text) {
            for path in named_path(word).map(alternatives).unwrap_or_default() {
                checked += 1;
                if known.contains(path.trim_end_matches('/')) {
                    continue;
                }
                match FOREIGN_PATHS.iter().find(|(place, name)| *place == page && *name == path) {
                    Some(entry) => _ = foreign.insert(entry),
                    None => findings.push(format!("{page}:{line}: there is no {path}")),
                }
            }
        }
    }
    let unused = FOREIGN_PATHS.iter().filter(|entry| !foreign.contains(entry));
    findings.extend(
        unused.map(|(page, path)| format!("{page} does not name {path}: take it from FOREIGN_PATHS")),
    );
    assert!(checked > 100, "only {checked} paths were found: the test looks for them wrongly");
    complain(findings);
}

/// What links call the headings of a page: in lower case, with hyphens for spaces and without what else is no letter.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings =
        page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        letter => (letter.is_alphanumeric() || letter == '-' || letter == '_').then_some(letter),
    };
    headings.map(|heading| heading.to_lowercase().chars().filter_map(letter).collect()).collect()
}

#[test]
fn links_of_pages_lead_to_files_and_headings() {
    let (mut checked, mut findings) = (0, Vec::new());
    for (page, text) in files(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let folder = root().join(&page).parent().expect("a page is in a folder").to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            if file.contains("://") || file.contains(' ') {
                continue;
            }
            checked += 1;
            let text = match file {
                "" => Ok(text.clone()),
                file if file.ends_with(".md") => fs::read_to_string(folder.join(file)),
                file => fs::metadata(folder.join(file)).map(|_| String::new()),
            };
            match text {
                Err(_) => findings.push(format!("{page}: no file for the link to {target}")),
                Ok(text) if !heading.is_empty() && !anchors(&text).contains(heading) => {
                    findings.push(format!("{page}: no heading for the link to {target}"));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(checked > 20, "only {checked} links were found: the test looks for them wrongly");
    complain(findings);
}

#[test]
fn arithmetic_that_overflows_panics() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let profiles = manifest.split("[profile.release").skip(1).filter_map(|text| text.split_once(']'));
    let says = |checks: bool| {
        let line = format!("overflow-checks = {checks}");
        let saying = profiles.clone().filter(move |(_, text)| text.lines().any(|one| one == line));
        saying.map(|(name, _)| name.trim_start_matches(".package.").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(says(true), [""], "the profile checks, so that a new crate is checked, too");
    assert_eq!(says(false), UNCHECKED);
    // This test is a part of a crate of the workspace that no exception names.
    let sum = std::panic::catch_unwind(|| std::hint::black_box(u8::MAX) + std::hint::black_box(1));
    assert!(sum.is_err(), "{sum:?}");
}
