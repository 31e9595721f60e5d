//! The tables in a store, from which a cluster reads them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::runtime::Runtime;
use yeoul_base::ErrorKind;
use yeoul_dfs::client::{FileSystem, NewFile};

use crate::dfs::Scene;
use crate::error::{Error, Result};

/// DataNodes of the store.
const DATANODES: usize = 3;

/// The most that is read at a time of a file that is copied.
const PIECE_BYTES: usize = 1 << 20;

/// The directory of the tables.
const DIRECTORY: &str = "/tables";

/// A store in this process with copies of the tables, until it is dropped.
pub(super) struct Store {
    runtime: Runtime,
    scene: Option<Scene>,
    data: PathBuf,
}

impl Store {
    /// Starts it with directories under `dir`, and copies the tables of the directory `data` into it.
    ///
    /// # Errors
    /// `Unavailable` if it does not start or take them; `Cancelled` by `stop`.
    pub(super) fn start(dir: &Path, data: &Path, tables: &[String], stop: &AtomicBool) -> Result<Self> {
        let runtime = Runtime::new().map_err(|e| Error::io("start", Path::new("a store"), e))?;
        let scene = runtime.block_on(Scene::start(dir, DATANODES))?;
        let address = scene.files().address().to_owned();
        let store = Self { runtime, scene: Some(scene), data: format!("hdfs://{address}{DIRECTORY}").into() };
        let made = async { store.files().make_directory(DIRECTORY, true).await };
        store.runtime.block_on(made)?;
        for table in tables {
            let name = format!("{table}.parquet");
            store.copy(&data.join(&name), &format!("{DIRECTORY}/{name}"), stop)?;
        }
        Ok(store)
    }

    /// The directory of the tables, as contestants on a cluster name it.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    fn files(&self) -> &FileSystem {
        self.scene.as_ref().expect("it has not ended").files()
    }

    fn copy(&self, from: &Path, to: &str, stop: &AtomicBool) -> Result<()> {
        let mut file = File::open(from).map_err(|e| Error::io("open", from, e))?;
        self.runtime.block_on(async {
            let mut writer = self.files().create(to, NewFile { mode: 0o644, may_replace: false }).await?;
            loop {
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
                }
                let mut piece = Vec::with_capacity(PIECE_BYTES);
                let read = file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece);
                if read.map_err(|e| Error::io("read", from, e))? == 0 {
                    return Ok(writer.close().await?);
                }
                writer.write(Bytes::from(piece)).await?;
            }
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(scene) = self.scene.take() {
            self.runtime.block_on(scene.stop());
        }
    }
}
