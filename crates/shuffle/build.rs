//! Generates the protobuf messages from `proto/` with protox, so that no `protoc` has to be installed.
//!
//! Twice: as they are sent, and as they are received. A list grows when it is decoded, by far more than a peer has sent,
//! so the received form has no lists, and nothing that holds one. In their place it has a constant for each, by which
//! `wire::lists` finds them in the payload.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// Read from the master's own disk, and short.
const NOT_RECEIVED: &str = "yeoul.shuffle.journal";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut files =
        protox::compile(["celeborn.proto", "internal.proto", "executor.proto", "journal.proto"], ["proto"])?;
    config().compile_fds(files.clone())?;

    files.file.retain(|file| file.package() != NOT_RECEIVED);
    let mut messages = Vec::new();
    for file in &mut files.file {
        file.source_code_info = None; // it counts fields, and some of them go
        let (name, package) = (file.name().to_owned(), file.package().to_owned());
        for mut message in std::mem::take(&mut file.message_type) {
            for entry in &mut message.nested_type {
                entry.options = None; // an entry of a map is a message like others
            }
            messages.push((name.clone(), package.clone(), message));
        }
    }
    // Messages with lists, or with messages that have some.
    let mut deep = BTreeSet::new();
    loop {
        let before = deep.len();
        for (_, package, message) in &messages {
            let name = format!(".{package}.{}", message.name());
            let nested = message.nested_type.iter().map(|entry| (format!("{name}.{}", entry.name()), entry));
            for (name, message) in nested.chain([(name.clone(), message)]) {
                let mut fields = message.field.iter();
                if fields
                    .any(|field| is_list(field.label().as_str_name()) || deep.contains(field.type_name()))
                {
                    deep.insert(name);
                }
            }
        }
        if deep.len() == before {
            break;
        }
    }
    let mut lists = String::new();
    for (_, _, message) in &mut messages {
        let outer = message.name().to_owned();
        let nested = message
            .nested_type
            .iter_mut()
            .map(|entry| (format!("{}::{}", snake_case(&outer), entry.name()), &mut entry.field));
        for (path, fields) in nested.chain([(outer.clone(), &mut message.field)]) {
            writeln!(lists, "impl {path} {{")?;
            fields.retain(|field| {
                let list = is_list(field.label().as_str_name());
                let element = match field.r#type().as_str_name() {
                    "TYPE_MESSAGE" if list => format!("Messages<Self, {}>", rust_path(field.type_name())),
                    "TYPE_MESSAGE" if deep.contains(field.type_name()) => {
                        format!("Part<Self, {}>", rust_path(field.type_name()))
                    }
                    _ if !list => return true,
                    "TYPE_STRING" => "Texts<Self>".to_owned(),
                    "TYPE_INT32" | "TYPE_ENUM" => "Numbers<Self, i32>".to_owned(),
                    "TYPE_INT64" => "Numbers<Self, i64>".to_owned(),
                    "TYPE_BOOL" => "Numbers<Self, bool>".to_owned(),
                    "TYPE_BYTES" => return false, // nobody reads one
                    other => panic!("{path}: no list of {other} is known"),
                };
                let (name, number) = (field.name().to_uppercase(), field.number());
                let _ = writeln!(lists, "    pub const {name}: {element} = <{element}>::of({number});");
                false
            });
            writeln!(lists, "}}")?;
        }
    }
    for file in &mut files.file {
        let own = messages.iter().filter(|(name, ..)| name == file.name());
        file.message_type = own.map(|(.., message)| message.clone()).collect();
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("received");
    fs::create_dir_all(&out)?;
    config().out_dir(&out).compile_fds(files)?;
    fs::write(out.join("lists.rs"), lists)?;
    Ok(())
}

fn config() -> prost_build::Config {
    let mut config = prost_build::Config::new();
    config.bytes(["."]); // payloads are slices of the received frame, not copies
    config.btree_map(["."]); // one value has one encoding
    config
}

fn is_list(label: &str) -> bool {
    label == "LABEL_REPEATED"
}

/// `.package.Outer.Inner` as prost names it: `outer::Inner`.
fn rust_path(name: &str) -> String {
    let parts = name.split('.').filter(|part| part.starts_with(char::is_uppercase));
    let parts: Vec<&str> = parts.collect();
    match parts.as_slice() {
        [outer, inner] => format!("{}::{inner}", snake_case(outer)),
        parts => parts.concat(),
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
