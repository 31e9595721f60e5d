//! Hadoop's settings from files, the command line and the environment.

use std::path::{Path, PathBuf};

use clap::Args;
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_dfs::client;
use yeoul_dfs::settings::TABLE;
use yeoul_dfs::settings::apply::{self, Surroundings};
use yeoul_settings::{Entry, Notice, Origin, hadoop};

/// Files of a directory of settings, in the order in which Hadoop loads them.
const FILES: [&str; 2] = ["core-site.xml", "hdfs-site.xml"];

/// Where settings come from.
#[derive(Args, Debug)]
pub struct Conf {
    /// A directory with core-site.xml and hdfs-site.xml; flags win over them [default: HADOOP_CONF_DIR, if it is set]
    #[arg(long, global = true, value_name = "DIR", env = "YEOUL_DFS_CONF")]
    conf: Option<PathBuf>,

    /// A setting of Hadoop; it wins over the files
    #[arg(short = 'D', global = true, value_name = "KEY=VALUE", value_parser = key_and_value)]
    define: Vec<(String, String)>,

    /// The NameNode for files, as fs.defaultFS
    #[arg(long, global = true, value_name = "hdfs://HOST:PORT", env = "YEOUL_DFS_FS")]
    fs: Option<String>,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected a key, = and a value")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl Conf {
    /// What a client does.
    ///
    /// # Errors
    /// A file cannot be read, or has what is refused.
    pub fn client(&self) -> Result<client::Options> {
        let mut options = client::Options::default();
        let (entries, _) = self.entries()?;
        apply::to_client(&entries, &surroundings(), &mut options)?;
        Ok(options)
    }

    /// Applies the settings to a server's options, and says once what is unknown or changes nothing.
    ///
    /// # Errors
    /// A file cannot be read, or has what is refused.
    pub fn apply(
        &self,
        apply: impl FnOnce(&[Entry], &Surroundings<'_>) -> Result<Vec<Notice>>,
    ) -> Result<()> {
        let (entries, notices) = self.entries()?;
        let more = apply(&entries, &surroundings())?;
        for notice in notices.iter().chain(&more) {
            tracing::warn!("{notice}");
        }
        Ok(())
    }

    /// All settings, with what is to be said of the files.
    fn entries(&self) -> Result<(Vec<Entry>, Vec<Notice>)> {
        let mut texts = Vec::new();
        if let Some(dir) = self.conf.clone().or_else(from_environment) {
            for name in FILES {
                let path = dir.join(name);
                texts.extend(text_of(&path)?.map(|text| (path.display().to_string(), text)));
            }
            if texts.is_empty() && self.conf.is_some() {
                let message = format!("there is no {} in {}", FILES.join(" and no "), dir.display());
                let hint = "--conf names the directory of Hadoop's settings";
                return Err(Error::new(ErrorKind::NotFound, message).with_hint(hint));
            }
        }
        let files: Vec<_> = texts.iter().map(|(name, text)| hadoop::File { name, text }).collect();
        let (mut entries, notices) = hadoop::read(&files, &TABLE)?;
        let entry = |key: &str, value: &str, from: &str| Entry {
            key: key.to_owned(),
            value: value.to_owned(),
            origin: Origin::named(from),
        };
        entries.extend(self.define.iter().map(|(key, value)| entry(key, value, "-D")));
        entries.extend(self.fs.iter().map(|fs| entry("fs.defaultFS", fs, "--fs")));
        Ok((entries, notices))
    }
}

/// The text of a file, if there is one.
fn text_of(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("cannot read {}", path.display());
            Err(Error::new(ErrorKind::of_io(&error), message).with_source(error))
        }
    }
}

/// The directory that the environment names, as Hadoop's own scripts find it.
fn from_environment() -> Option<PathBuf> {
    std::env::var_os("HADOOP_CONF_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// What values of settings may refer to.
fn surroundings() -> Surroundings<'static> {
    Surroundings { environment: &variable, properties: &property }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What Hadoop's settings know of their JVM.
fn property(name: &str) -> Option<String> {
    match name {
        "user.name" => variable("HADOOP_USER_NAME").or_else(|| variable("USER")),
        "user.home" => variable("HOME"),
        "java.io.tmpdir" => Some(std::env::temp_dir().display().to_string()),
        _ => None,
    }
}
