//! The reference page of the settings, made from the table.

use yeoul_settings::{Group, Page};

use super::{TABLE, group};

/// The page `docs/reference/dfs-settings.md`.
pub fn page() -> String {
    Page { table: &TABLE, head: HEAD, system: "Hadoop", groups: GROUPS }.text()
}

const HEAD: &str = "# Hadoop's settings in `yeoul dfs`

This page is made from the table that the servers use; a test compares them.

`yeoul dfs` reads `core-site.xml` and `hdfs-site.xml` of the directory that `--conf` or `HADOOP_CONF_DIR` names, and `-D key=value` of the
command line, which wins over the files; a flag such as `--port` wins over both. The tables have all `dfs.` keys of Hadoop 3.4.2
and those of `core-site.xml` that concern a file system; any other key is named once and ignored. Clients
(`yeoul dfs -ls` and its like) read the keys of the first and the last table, and say nothing of the others.

Deprecated names, listed after *formerly*, work too. In values, `${env.NAME}` stands for a variable of the environment and `${key}` for
another key's value or default; a reference that does not resolve is an error.

- **honoured**: does what it does in HDFS
- **other mechanism**: its purpose is met in another way; accepted, without effect
- **no effect**: nothing here corresponds to it; accepted
- **refused**: any value but Hadoop's default would promise something that Yeoul does not do; the server does not start
";

const GROUPS: &[Group] = &[
    Group { name: group::CORE, title: "Core", intro: "Of `core-site.xml`." },
    Group { name: group::NAMENODE, title: "NameNode", intro: "With high availability, limits and repair." },
    Group { name: group::DATANODE, title: "DataNode", intro: "With security of the data port." },
    Group {
        name: group::CLIENT,
        title: "Client",
        intro: "The unmodified client reads these; `yeoul dfs -put` and its like read those that are honoured.",
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
        let path = &std::path::Path::new(&package).join("../../docs/reference/dfs-settings.md");
        if std::env::var_os("YEOUL_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "run the test with YEOUL_WRITE_DOCS=1 and commit the page");
    }
}
