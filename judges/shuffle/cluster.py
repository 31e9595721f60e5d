"""A master and workers, as processes of their own, for judges to use and to kill."""

import json
import os
import pathlib
import shlex
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

import fetch  # noqa: F401 (it finds `harness`)
from harness import binary, free_ports, wait_until


# What workers count if they could not do what a client asked of them. Clients try again, so that answers stay right.
FAILURES = ["WriteDataFailCount", "ReplicateDataFailCount", "OpenStreamFailCount", "FetchChunkFailCount"]


def command() -> list[str]:
    """How `yeoul shuffle` is called; YEOUL_SHUFFLE replaces the whole call, as in "nice -n -10 yeoul shuffle"."""
    whole = os.environ.get("YEOUL_SHUFFLE")
    return shlex.split(whole) if whole else [binary(), "shuffle"]


def page(port, path: str) -> str:
    """A server's answer to an HTTP request."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read().decode()


class Process:
    """One server. It keeps its command line, so that it can be restarted as the same one."""

    def __init__(self, name: str, command_line: list[str], log: pathlib.Path, http_port: int):
        self.name, self.command_line, self.log, self.process = name, command_line, log, None
        self.http_port = http_port
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.log_start = log.seek(0, os.SEEK_END)
            # Judges read some of what servers say at this level.
            environment = os.environ | {"YEOUL_LOG": "info"}
            self.process = subprocess.Popen(self.command_line, stdout=log, stderr=log, env=environment)
        self.was_ended = False

    def kill(self):
        """kill -9, and proof that it is dead."""
        self.was_ended = True
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL, f"{self.name} had ended before it was killed, see {self.log}"
        # The process may only have been a wrapper of the server.
        port = int(self.option("--port" if "--port" in self.command_line else "--rpc-port"))
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, f"{self.name} lives on: port {port} answers after kill -9"

    def stop(self, within: float = 60):
        """A graceful stop."""
        self.was_ended = True
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)

    def alive(self) -> bool:
        return self.process.poll() is None

    def crashed(self) -> bool:
        """Whether it has ended, and no judge has ended it."""
        return not self.alive() and not self.was_ended

    def option(self, name: str) -> str:
        """The value of an option on its command line."""
        return self.command_line[self.command_line.index(name) + 1]

    def said(self) -> str:
        """Its log since it was last started."""
        return self.log.read_bytes()[self.log_start :].decode()

    def rss(self) -> int:
        """Resident bytes now."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(fields.split("VmRSS:")[1].split()[0]) * 1024

    def rss_max(self) -> int:
        """The most resident bytes ever."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(fields.split("VmHWM:")[1].split()[0]) * 1024

    def cpu_seconds(self) -> float:
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Servers:
    """A master and workers in a new folder; use it with `with`."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="yeoul-judge-", dir=os.environ.get("YEOUL_JUDGE_TMP")))
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

    def print_use(self):
        for server in self.servers():
            print(f"{server.name}: {server.rss_max() >> 20} MiB at most, {server.cpu_seconds():.1f} CPU-s")

    def __enter__(self):
        return self

    def kill(self):
        for server in self.servers():
            if server.alive():
                server.process.kill()
                server.process.wait()

    def __exit__(self, kind, *_):
        self.kill()
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"logs: {self.folder}")


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
        )
        for index in range(workers):
            rpc, fetch, replicate, http, *push = free_ports(12)
            push = ",".join(map(str, push))
            ports = ["--rpc-port", rpc, "--push-port", push, "--fetch-port", fetch, "--replicate-port", replicate]
            ports += ["--http-port", http]
            folder = dirs[index] if dirs else f"{self.folder}/worker-{index}"
            line = [*command(), "worker", "--host", "127.0.0.1", "--master", self.endpoint, "--dir", folder]
            line += ["--memory", memory, *map(str, ports), *worker_arguments]
            self.workers.append(Process(f"worker-{index}", line, self.folder / f"worker-{index}.log", http))
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
        crashed = [server.name for server in self.servers() if server.crashed()]
        if crashed:
            raise SystemExit(f"crashed: {', '.join(crashed)}")
        counts = {(worker.name, name): self.count(worker, name) for worker in self.workers for name in FAILURES}
        failed = [f"{name} of {worker} is {count:g}" for (worker, name), count in counts.items() if count]
        if failed:
            raise SystemExit(f"answers are right, but requests failed: {', '.join(failed)}")

    def check_that_copies_were_made(self):
        """Ends the judge if no worker took a copy of another one's pushes."""
        if not any(self.count(worker, "ReplicaPushDataTime") for worker in self.workers):
            raise SystemExit("nothing was replicated")
