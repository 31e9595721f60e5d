//! The reference page of the settings, made from the table.

use yeoul_settings::{Group, Page};

use super::{TABLE, group};

/// The page `docs/reference/shuffle-settings.md`.
pub fn page() -> String {
    Page { table: &TABLE, head: HEAD, system: "Celeborn", groups: GROUPS }.text()
}

const HEAD: &str = "# Celeborn's settings in `yeoul shuffle`

This page is made from the table that the servers use; a test compares them.

`yeoul shuffle master` and `yeoul shuffle worker` read Celeborn's own file with `--conf celeborn-defaults.conf`, or from the
directory that `CELEBORN_CONF_DIR` names. A flag wins over the file. The tables have all keys that Celeborn documents, from
0.5.4 to 0.7.0; any other key is named once and ignored.

Deprecated names, listed after *formerly*, work too; if a file sets several names of one key, the current name wins, then the
first one listed. In values, `${env:NAME}` stands for a variable of the environment and `${celeborn.…}` for another key's value or
default. A reference that does not resolve is an error, and so is `${system:…}`: there is no JVM.

- **honoured**: does what it does in Celeborn
- **other mechanism**: its purpose is met in another way; accepted, without effect
- **no effect**: nothing here corresponds to it; accepted
- **refused**: any value but Celeborn's default would promise something that Yeoul does not do; the server does not start
";

const GROUPS: &[Group] = &[
    Group { name: group::MASTER, title: "Master", intro: "With high availability, quotas and racks." },
    Group { name: group::WORKER, title: "Worker", intro: "Keys shared with the master are listed above." },
    Group {
        name: group::NETWORK,
        title: "Network",
        intro: "For `<module>` Celeborn documents `rpc_app`, `rpc_service`, `rpc` (for both), `push`, `fetch`, `replicate`, \
                `data`. A server whose file sets a key that only the client honours says at its start that the key has no \
                effect there; `rpc_app` and `data` are exempt.",
    },
    Group {
        name: group::METRICS,
        title: "Metrics",
        intro: "Prometheus finds them at `/metrics/prometheus` of the HTTP port.",
    },
    Group {
        name: group::CLIENT,
        title: "Client",
        intro: "These stand in Spark's configuration, with `spark.` before them, and the unmodified client reads them.",
    },
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
