//! Hadoop's XML configurations: the files, and the references in their values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use yeoul_settings::hadoop::{self, File};
use yeoul_settings::{References, Rules, Table, apply};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let table = Table::parse("@a\ndfs.replication\t3\thonoured\t\tdfs.<x>.old\n", &[]);
    let core = "<configuration><property name='a' value='${dfs.replication}' final='true'/></configuration>";
    let files = [File { name: "core", text: core }, File { name: "site", text }];
    let Ok((entries, _)) = hadoop::read(&files, &table) else { return };
    // What a variable holds may refer to others, and lead back.
    let environment = |name: &str| (name != "NONE").then(|| format!("{name}${{env.{name}1}}"));
    let rules = Rules {
        table: &table,
        references: References::Hadoop { environment: &environment, properties: &|_| None },
        elsewhere: &|_, _| None,
        promises: &|_| None,
        page: "",
    };
    let _ = apply(&entries, &rules, |_, value| value().map(drop));
});
