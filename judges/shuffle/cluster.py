"""A master and workers, as processes of their own, for judges to use and to kill."""

import json
import os
import shlex
import re
import time

import fetch  # noqa: F401 (it finds `harness`)
import harness
from harness import Process, binary, free_ports, page, wait_until


# What workers count if they could not do what a client asked of them. Clients try again, so that answers stay right.
FAILURES = ["WriteDataFailCount", "ReplicateDataFailCount", "OpenStreamFailCount", "FetchChunkFailCount"]


def command() -> list[str]:
    """How `yeoul shuffle` is called; YEOUL_SHUFFLE replaces the whole call, as in "nice -n -10 yeoul shuffle"."""
    whole = os.environ.get("YEOUL_SHUFFLE")
    return shlex.split(whole) if whole else [binary(), "shuffle"]


class Servers(harness.Servers):
    """A master and workers."""

    def __init__(self):
        super().__init__()
        port, self.http_port = free_ports(2)
        self.endpoint, self.port = f"127.0.0.1:{port}", port
        self.workers = []

    def page(self, path: str) -> str:
        """The master's answer to an HTTP request."""
        return page(self.http_port, path)

    def registered(self) -> int:
        """How many workers have registered with the master."""
        raise NotImplementedError

    def wait_for_workers(self, count: int, within: float = 30):
        deadline = time.monotonic() + within
        found = None
        while time.monotonic() < deadline:
            try:
                found = self.registered()
                if found >= count:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        self.kill()
        raise SystemExit(f"{found} of {count} workers registered within {within} s, see {self.folder}")

    def count(self, worker: Process, name: str) -> float:
        """A counter of a worker's `/metrics/prometheus`, since it was last started. Celeborn's have the time behind them."""
        text = page(worker.http_port, "/metrics/prometheus")
        return float(re.search(rf"^metrics_{name}_Count{{.*}} (\S+)( \d+)?$", text, re.MULTILINE)[1])

    def check_that_workers_worked(self):
        """Ends the judge if the workers took no push: right answers then prove nothing about them."""
        if not any(self.count(worker, "WriteDataSuccessCount") for worker in self.workers):
            raise SystemExit("the workers took no push: who was to use them did not")

    def servers(self) -> list[Process]:
        return [self.master, *self.workers]


class Cluster(Servers):
    """Our servers."""

    def __init__(self, workers: int = 3, memory: str = "512MiB", master_arguments=(), worker_arguments=(), dirs=None):
        super().__init__()
        self.master = Process(
            "master",
            [*command(), "master", "--host", "127.0.0.1", "--port", f"{self.port}", "--http-port", f"{self.http_port}"]
            + ["--dir", f"{self.folder}/master", *master_arguments],
            self.folder / "master.log",
            self.http_port,
            self.port,
        )
        for index in range(workers):
            rpc, fetch_port, replicate, http, *push = free_ports(12)
            push = ",".join(map(str, push))
            ports = ["--rpc-port", rpc, "--push-port", push, "--fetch-port", fetch_port, "--replicate-port", replicate]
            ports += ["--http-port", http]
            folder = dirs[index] if dirs else f"{self.folder}/worker-{index}"
            line = [*command(), "worker", "--host", "127.0.0.1", "--master", self.endpoint, "--dir", folder]
            line += ["--memory", memory, *map(str, ports), *worker_arguments]
            self.workers.append(Process(f"worker-{index}", line, self.folder / f"worker-{index}.log", http, rpc))
        self.wait_for_workers(workers)

    def get(self, path: str):
        return json.loads(self.page(path))

    def registered(self) -> int:
        return len(self.get("/api/v1/workers")["workers"])

    def wait_until_back(self, worker: Process):
        """Waits until a worker that was started again has registered."""
        wait_until(lambda: self.check_registered(worker), worker.name, worker.alive)

    def check_registered(self, worker: Process):
        if " registered master=" not in worker.said():
            raise OSError(f"it has not registered, see {worker.log}")

    def check_that_nothing_failed(self):
        """Ends the judge if a server crashed or a request failed: a client's second try may have hidden it."""
        self.check_that_none_crashed()
        counts = {(worker.name, name): self.count(worker, name) for worker in self.workers for name in FAILURES}
        failed = [f"{name} of {worker} is {count:g}" for (worker, name), count in counts.items() if count]
        if failed:
            raise SystemExit(f"answers are right, but requests failed: {', '.join(failed)}")

    def check_that_copies_were_made(self):
        """Ends the judge if no worker took a copy of another one's pushes."""
        if not any(self.count(worker, "ReplicaPushDataTime") for worker in self.workers):
            raise SystemExit("nothing was replicated")
