//! Links the binary at a fixed address, and OpenSSL into it.
//!
//! A quarter of a million pointers, most of them of the SQL engine's tables of functions, would otherwise be relocated at
//! each start: 10 MB that an idle shuffle worker holds for nothing, and a third of the time of `yeoul sql -c 'select 1'`.
//!
//! The client of Kafka asks the linker for `-lssl -lcrypto`, which takes a shared library if its folder has one; the binary would
//! then not start where OpenSSL is not installed. So the linker gets a folder in front of all others that has the archives alone.
//! Without archives it takes the shared libraries.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const ARCHIVES: [&str; 2] = ["libssl.a", "libcrypto.a"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // Only the streams have a client of Kafka.
    if env::var_os("CARGO_FEATURE_STREAM").is_some() {
        link_archives();
    }
}

fn link_archives() {
    println!("cargo::rerun-if-env-changed=CC");
    let found: Vec<(&str, PathBuf)> =
        ARCHIVES.into_iter().filter_map(|name| Some((name, archive(name)?))).collect();
    if found.len() < ARCHIVES.len() {
        println!(
            "cargo::warning=no archives of OpenSSL ({}): the binary needs its shared libraries where it runs",
            ARCHIVES.join(", ")
        );
        return;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("archives");
    // What an earlier run left, if there was one.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("cargo made the folder above");
    for (name, archive) in found {
        println!("cargo::rerun-if-changed={}", archive.display());
        symlink(&archive, folder.join(name)).expect("the folder is empty");
    }
    println!("cargo::rustc-link-search=native={}", folder.display());
}

/// The archive that the linker would find under this name.
fn archive(name: &str) -> Option<PathBuf> {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).arg(format!("-print-file-name={name}")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    // A compiler that finds no such file repeats the name.
    let path = Path::new(text.trim());
    path.is_absolute().then(|| path.canonicalize().ok())?
}
