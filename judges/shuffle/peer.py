"""Celeborn's own master and workers, as the peer of ours, from the folder of a Celeborn distribution."""

import pathlib

from cluster import Process, Servers
from harness import free_ports

# As in Celeborn's own start scripts.
MEMORY = ["-Xmx1g", "-XX:MaxDirectMemorySize=1g"]
OPENED = ["java.lang", "java.nio", "java.util", "jdk.internal.misc", "sun.nio.ch"]


class Peer(Servers):
    """Celeborn's own servers."""

    def __init__(self, home: pathlib.Path, workers: int):
        super().__init__()
        conf = {
            "celeborn.master.endpoints": self.endpoint,
            "celeborn.master.host": "127.0.0.1",
            "celeborn.master.port": self.port,
            "celeborn.master.http.host": "127.0.0.1",
            "celeborn.master.http.port": self.http_port,
        }
        self.master = self.server(home, "master", conf, self.http_port)
        for index in range(workers):
            storage = {"celeborn.worker.storage.dirs": f"{self.folder}/worker-{index}"}
            (port,) = free_ports(1)
            http = {"celeborn.worker.http.host": "127.0.0.1", "celeborn.worker.http.port": port}
            self.workers.append(self.server(home, f"worker-{index}", conf | storage | http, port))
        self.wait_for_workers(workers, 60)

    def server(self, home: pathlib.Path, name: str, conf: dict, http_port: int) -> Process:
        properties = self.folder / f"{name}.conf"
        properties.write_text("".join(f"{key} {value}\n" for key, value in conf.items()))
        kind = name.split("-")[0]
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        line = ["java", *MEMORY, "-Dio.netty.tryReflectionSetAccessible=true", *opened]
        line += ["-cp", f"{home}/jars/*:{home}/{kind}-jars/*"]
        line += [f"org.apache.celeborn.service.deploy.{kind}.{kind.capitalize()}", "--host", "127.0.0.1"]
        return Process(name, [*line, "--properties-file", str(properties)], self.folder / f"{name}.log", http_port)

    def registered(self) -> int:
        return self.page("/workerInfo").count("PushPort:")
