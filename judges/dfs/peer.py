"""HDFS's own servers at the pinned version, each a process of its own, as the peer of ours. (MiniDFSCluster does not sync.)"""

import pathlib
import re
import subprocess

from cluster import class_path
from harness import Process, Servers, free_ports, page, wait_until

NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
LIVE = re.compile(r'"NumLiveDataNodes"\s*:\s*(\d+)')
# Ten virtual machines that start at a time take most of a minute of two idle processors.
START_SECONDS_MAX = 300


def configured(folder: pathlib.Path, settings: dict) -> pathlib.Path:
    """A folder for the class path with these settings."""
    folder.mkdir(parents=True)
    for name in ["core-site.xml", "hdfs-site.xml"]:
        parts = [f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items()]
        (folder / name).write_text(f"<configuration>{''.join(parts)}</configuration>\n")
    return folder


class Hdfs(Servers):
    """A NameNode and DataNodes, with the heaps of small clusters. Nothing runs before `start`."""

    def __init__(self):
        super().__init__()
        port, self.http_port = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        self.running = []

    def start(self, datanodes: int, settings: dict | None = None):
        """Starts the servers, with these settings beside the addresses."""
        common = (settings or {}) | {
            "fs.defaultFS": f"hdfs://{self.address}",
            "dfs.namenode.rpc-address": self.address,
            "dfs.namenode.http-address": f"127.0.0.1:{self.http_port}",
        }
        conf = configured(self.folder / "conf-namenode", common | {"dfs.namenode.name.dir": self.folder / "name"})
        with open(self.folder / "format.log", "wb") as log:
            format = ["java", "-cp", f"{conf}:{class_path()}", NAMENODE, "-format", "-nonInteractive", "-force"]
            subprocess.run(format, stdout=log, stderr=log, check=True)
        self.server("namenode", conf, "1g", NAMENODE, self.http_port)
        for number in range(datanodes):
            ports = free_ports(3)
            keys = ["dfs.datanode.address", "dfs.datanode.ipc.address", "dfs.datanode.http.address"]
            own = {key: f"127.0.0.1:{port}" for key, port in zip(keys, ports)}
            own |= {"dfs.datanode.data.dir": self.folder / f"data{number}"}
            conf = configured(self.folder / f"conf-datanode{number}", common | own)
            self.server(f"datanode{number}", conf, "256m", DATANODE, ports[2])
        wait_until(lambda: self.check_registered(datanodes), "HDFS", self.servers()[0].alive, START_SECONDS_MAX)

    def server(self, name: str, conf: pathlib.Path, heap: str, main: str, http_port: int):
        line = ["java", f"-Xmx{heap}", "-cp", f"{conf}:{class_path()}", main]
        self.running.append(Process(name, line, self.folder / f"{name}.log", http_port))

    def check_registered(self, datanodes: int):
        state = page(self.http_port, "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")
        found = LIVE.search(state)
        if not found or int(found[1]) < datanodes:
            raise OSError(f"{found[1] if found else 'no'} DataNodes have registered")

    def servers(self) -> list[Process]:
        return self.running
