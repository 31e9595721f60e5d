//! A whole cluster in one process: a NameNode and some DataNodes, on the loopback address.

use std::net::SocketAddr;
use std::path::PathBuf;

use yeoul_net::supervise::Supervisor;

use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::{datanode, namenode};

/// How the cluster runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// DataNodes.
    pub datanodes: usize,
    /// The directory below which each of them has its own.
    pub dir: PathBuf,
    /// The most memory of the whole process, which the NameNode's and the DataNodes' own options do not say.
    pub memory_bytes: u64,
    /// The NameNode; its directory is below [`Self::dir`].
    pub namenode: namenode::Options,
}

impl Options {
    /// A cluster of so many DataNodes, on free ports but for the NameNode's.
    pub fn new(datanodes: usize, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let mut namenode = namenode::Options::new(dir.join("namenode"));
        namenode.may_format = true;
        Self { datanodes, memory_bytes: namenode.memory_bytes, namenode, dir }
    }
}

/// A running cluster. Dropping it ends it.
pub struct Cluster {
    namenode: namenode::Handle,
    datanodes: Vec<datanode::Handle>,
    _tasks: Supervisor,
}

impl Cluster {
    /// Starts all servers.
    ///
    /// # Errors
    /// The NameNode's port is taken, or a directory cannot be used.
    pub async fn start(options: Options) -> Result<Self> {
        let memory = Memory::new(options.memory_bytes)?;
        let namenode = namenode::Server::start_in(options.namenode, memory.clone()).await?;
        let mut datanodes = Vec::new();
        for number in 0..options.datanodes {
            let dir = options.dir.join(format!("datanode-{number}"));
            let address = namenode.address();
            let own = datanode::Options {
                host: Some(address.ip().to_string()),
                port: 0,
                ipc_port: 0,
                ..datanode::Options::new(address.to_string(), vec![dir])
            };
            datanodes.push(datanode::Server::start_in(own, memory.clone()).await?);
        }
        let mut tasks = Supervisor::new("cluster");
        tasks.run("governor", memory.keep());
        Ok(Self { namenode, datanodes, _tasks: tasks })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.namenode.address()
    }

    /// The address for the NameNode's pages, if they are served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.namenode.http_address()
    }

    /// Waits until the NameNode can keep nothing any more.
    pub async fn ended(&mut self) -> Error {
        self.namenode.ended().await
    }

    /// Ends the DataNode that has this address for blocks, with all its connections. False if there is none.
    pub async fn kill_datanode(&mut self, address: SocketAddr) -> bool {
        let Some(at) = self.datanodes.iter().position(|datanode| datanode.address() == address) else {
            return false;
        };
        self.datanodes.swap_remove(at).stop().await;
        true
    }

    /// Closes all connections.
    pub async fn stop(self) {
        self.namenode.stop().await;
        for datanode in self.datanodes {
            datanode.stop().await;
        }
    }
}
