//! The reference page of the settings, made from the table.

use std::fmt::Write;

use super::{Group, Level, table};

/// The page `docs/reference/shuffle-settings.md`.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    for (group, title, intro) in GROUPS {
        let settings = || table().iter().filter(|setting| setting.group == *group);
        let count = |level| settings().filter(|setting| setting.level == level).count();
        let levels = [Level::Honoured, Level::OtherMechanism, Level::NoEffect, Level::Refused];
        let counts: Vec<String> =
            levels.iter().map(|level| format!("{} {}", count(*level), level.name())).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "\n## {title}\n\n{intro} Of {} keys: {}.\n",
            settings().count(),
            counts.join(", ")
        );
        page.push_str("| key | default in Celeborn | here | |\n| --- | --- | --- | --- |\n");
        for setting in settings() {
            let default = match cell(setting.default) {
                empty if empty.is_empty() => empty,
                text => format!("`{text}`"),
            };
            let deprecated: Vec<String> = setting.deprecated().map(|name| format!("`{name}`")).collect();
            let formerly = match deprecated.is_empty() {
                true => String::new(),
                false => format!("formerly {}", deprecated.join(", ")),
            };
            let notes = [cell(setting.note), cell(&formerly)];
            let note = notes.iter().filter(|note| !note.is_empty()).cloned().collect::<Vec<_>>().join("; ");
            let level = setting.level.name();
            let _ = writeln!(page, "| `{}` | {default} | {level} | {note} |", setting.key);
        }
    }
    page
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

const HEAD: &str = "# Celeborn's settings in `yeoul shuffle`

This page is made from the table that the servers use; a test compares them.

`yeoul shuffle master` and `yeoul shuffle worker` read Celeborn's own file with `--conf celeborn-defaults.conf`, or from the
directory that `CELEBORN_CONF_DIR` names. A flag wins over the file. The tables have all keys of Celeborn 0.5.4, and those of 0.6
for quotas, tags and object stores; any other key is named once and ignored.

Deprecated names, listed after *formerly*, work too; if a file sets several names of one key, the current name wins, then the
first one listed. In values, `${env:NAME}` stands for a variable of the environment and `${celeborn.…}` for another key's value or
default. A reference that does not resolve is an error, and so is `${system:…}`: there is no JVM.

- **honoured**: does what it does in Celeborn
- **other mechanism**: its purpose is met in another way; accepted, without effect
- **no effect**: nothing here corresponds to it; accepted
- **refused**: any value but Celeborn's default would promise something that Yeoul does not do; the server does not start
";

const GROUPS: &[(Group, &str, &str)] = &[
    (Group::Master, "Master", "With high availability, quotas and racks."),
    (Group::Worker, "Worker", "Keys shared with the master are listed above."),
    (
        Group::Network,
        "Network",
        "For `<module>` Celeborn documents `rpc_app`, `rpc_service`, `rpc` (for both), `push`, `fetch`, `replicate`, `data`. \
         A server whose file sets a key that only the client honours says at its start that the key has no effect there; \
         `rpc_app` and `data` are exempt.",
    ),
    (Group::Metrics, "Metrics", "Prometheus finds them at `/metrics/prometheus` of the HTTP port."),
    (
        Group::Client,
        "Client",
        "These stand in Spark's configuration, with `spark.` before them, and the unmodified client reads them.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// With `YEOUL_WRITE_DOCS` set it writes the page instead.
    #[test]
    fn the_page_in_the_documentation_is_the_tables() {
        // Read at run time: with a target folder that several clones share, the one that built this may be gone.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
        let path = &std::path::Path::new(&package).join("../../docs/reference/shuffle-settings.md");
        if std::env::var_os("YEOUL_WRITE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "run the test with YEOUL_WRITE_DOCS=1 and commit the page");
    }
}
