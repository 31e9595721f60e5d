//! Hadoop's way to write a command line, as clap takes it.

use std::ffi::OsString;

use yeoul_base::Report;

/// Words that Hadoop writes with one dash.
const WORDS: [&str; 6] = ["-conf", "-fs", "-path", "-policy", "-replicate", "-skipTrash"];

/// Verbs of Hadoop's shell that are not here.
const ABSENT: [&str; 36] = [
    "-appendToFile",
    "-checksum",
    "-chgrp",
    "-chmod",
    "-chown",
    "-concat",
    "-copyFromLocal",
    "-copyToLocal",
    "-count",
    "-cp",
    "-createSnapshot",
    "-deleteSnapshot",
    "-df",
    "-expunge",
    "-find",
    "-getfacl",
    "-getfattr",
    "-getmerge",
    "-head",
    "-moveFromLocal",
    "-moveToLocal",
    "-renameSnapshot",
    "-rmdir",
    "-rmr",
    "-setfacl",
    "-setfattr",
    "-setrep",
    "-tail",
    "-test",
    "-text",
    "-touch",
    "-touchz",
    "-truncate",
    "dfsadmin",
    "fsck",
    "haadmin",
];

/// Where a verb that is not here has its purpose met.
const INSTEAD: [(&str, &str); 8] = [
    ("-copyFromLocal", "-put does the same"),
    ("-copyToLocal", "-get does the same"),
    ("-df", "yeoul dfs report shows the space"),
    ("-rmr", "-rm -r does the same"),
    ("-rmdir", "-rm -r removes a directory"),
    ("-text", "-cat shows the bytes as they are"),
    ("dfsadmin", "yeoul dfs report shows nodes and space; hdfs dfsadmin works, too"),
    ("fsck", "yeoul dfs report shows what is missing; hdfs fsck works, too"),
];

/// The arguments of the process with two dashes before Hadoop's words of one dash, if they are of `yeoul dfs`.
///
/// # Errors
/// A verb of Hadoop's shell that is not here.
pub fn prepared(args: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, Box<Report>> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_none_or(|verb| verb != "dfs") {
        return Ok(args);
    }
    let mut is_option_value = false;
    let mut has_verb = false;
    for arg in args.iter_mut().skip(2) {
        let Some(text) = arg.to_str() else { continue };
        if text == "--" {
            break;
        }
        if !has_verb && !std::mem::take(&mut is_option_value) {
            is_option_value = ["--fs", "--conf", "--log", "-fs", "-conf", "-D"].contains(&text);
            has_verb = !is_option_value && !text.starts_with("--") && !text.starts_with("-D");
            if has_verb && ABSENT.contains(&text) {
                return Err(Box::new(absent(text)));
            }
        }
        if WORDS.contains(&text) {
            *arg = format!("-{text}").into();
        }
    }
    Ok(args)
}

fn absent(verb: &str) -> Report {
    let instead = INSTEAD.iter().find(|(name, _)| *name == verb).map(|(_, instead)| (*instead).to_owned());
    let hint = instead.unwrap_or_else(|| format!("hdfs dfs {verb} of Hadoop works on the same files"));
    Report::new(format!("yeoul dfs has no {verb}")).hint(Some(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<String, String> {
        let args = line.split(' ').map(OsString::from);
        let words = |args: Vec<OsString>| args.join(" ".as_ref()).into_string().unwrap();
        prepared(args).map(words).map_err(|report| report.text())
    }

    #[test]
    fn hadoops_words_get_a_second_dash() {
        for (line, expected) in [
            ("yeoul dfs -fs hdfs://n1 -rm -skipTrash /a", "yeoul dfs --fs hdfs://n1 -rm --skipTrash /a"),
            ("yeoul dfs ec -setPolicy -path /a -policy X", "yeoul dfs ec -setPolicy --path /a --policy X"),
            ("yeoul dfs -put -- -path /a", "yeoul dfs -put -- -path /a"),
            ("yeoul sql -path", "yeoul sql -path"),
        ] {
            assert_eq!(read(line).unwrap(), expected);
        }
    }

    #[test]
    fn a_verb_that_is_not_here_is_refused_by_its_name() {
        let refused = read("yeoul dfs -D a=b -fs hdfs://n1 -chmod 700 /a").unwrap_err();
        assert_eq!(
            refused,
            "error: yeoul dfs has no -chmod\nhint: hdfs dfs -chmod of Hadoop works on the same files\n"
        );
        assert!(read("yeoul dfs -df").unwrap_err().contains("yeoul dfs report"));
        assert!(read("yeoul dfs -ls fsck").is_ok(), "a path is no verb");
    }
}
