//! Goal: one file runs on a bare Debian. Method: ask `readelf`, which comes with the linker, what the binary wants of the loader, and
//! which sections it has.

use std::process::Command;

use crate::harness::Folder;

/// What every Debian has: the libraries of C, and the one that unwinds panics.
const LIBRARIES: [&str; 4] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux"];

fn readelf(flag: &str) -> String {
    let output = Command::new("readelf").args([flag, "--wide", env!("CARGO_BIN_EXE_yeoul")]).output();
    let output = output.expect("readelf comes with the linker");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_binary_needs_only_the_libraries_of_c() {
    let dynamic = readelf("--dynamic");
    let needed: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split_once('[')?.1.split_once(']'))
        .map(|(name, _)| name)
        .collect();
    assert!(needed.contains(&"libc.so.6"), "{dynamic}");
    let others: Vec<_> =
        needed.iter().filter(|name| !LIBRARIES.iter().any(|library| name.starts_with(library))).collect();
    assert!(
        others.is_empty(),
        "{others:?} have to be installed beside the binary: crates/yeoul/build.rs links archives"
    );
}

#[test]
fn the_binary_has_no_symbols_and_a_panic_still_says_where() {
    let sections = readelf("--sections");
    assert!(sections.contains(" .text "), "{sections}");
    assert!(!sections.contains(" .symtab ") && !sections.contains(" .debug_"), "{sections}");
    let folder = Folder::new();
    let mut run = folder.yeoul(["shuffle", "master", "--port", "0", "--http-port", "0", "--dir", "master"]);
    run.command.env("YEOUL_FAILPOINTS", "master-tick");
    let seen = run.done();
    assert!(seen.contains("panicked at crates/base/src/failpoint.rs:"), "{seen}");
    assert!(seen.contains("failpoint master-tick"), "{seen}");
}
