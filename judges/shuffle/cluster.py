"""A master and workers, as processes of their own, for judges to use and to kill."""

import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

import fetch  # noqa: F401 (it finds `harness`)
from harness import free_ports


def binary() -> str:
    """$YEOUL, or the one that `make` built."""
    target = os.environ.get("CARGO_TARGET_DIR", f"{pathlib.Path.home()}/.cache/yeoul/target")
    return os.environ.get("YEOUL", f"{target}/release/yeoul")


def command() -> list[str]:
    """How `yeoul shuffle` is called; YEOUL_SHUFFLE replaces the whole call, as in "nice -n -10 yeoul shuffle"."""
    return shlex.split(os.environ.get("YEOUL_SHUFFLE", f"{shlex.quote(binary())} shuffle"))


class Process:
    """One server. It keeps its command line, so that it can be restarted as the same one."""

    def __init__(self, name: str, command_line: list[str], log: pathlib.Path):
        self.name, self.command_line, self.log, self.process = name, command_line, log, None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command_line, stdout=log, stderr=log)

    def kill(self):
        """kill -9, and proof that it is dead."""
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL, f"{self.name} had ended before it was killed, see {self.log}"

    def stop(self, within: float = 60):
        """A graceful stop."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)

    def alive(self) -> bool:
        return self.process.poll() is None

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
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=5) as answer:
            return answer.read().decode()

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

    def check_that_workers_worked(self):
        """Ends the judge if the workers did nothing: right answers then prove nothing about them."""
        if sum(worker.cpu_seconds() for worker in self.workers) < 0.1:
            raise SystemExit("the workers did nothing: who was to use them did not")

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
        )
        for index in range(workers):
            rpc, fetch, replicate, *push = free_ports(11)
            push = ",".join(map(str, push))
            ports = ["--rpc-port", rpc, "--push-port", push, "--fetch-port", fetch, "--replicate-port", replicate]
            folder = dirs[index] if dirs else f"{self.folder}/worker-{index}"
            line = [*command(), "worker", "--host", "127.0.0.1", "--master", self.endpoint, "--dir", folder]
            line += ["--memory", memory, *map(str, ports), *worker_arguments]
            self.workers.append(Process(f"worker-{index}", line, self.folder / f"worker-{index}.log"))
        self.wait_for_workers(workers)

    def get(self, path: str):
        return json.loads(self.page(path))

    def registered(self) -> int:
        return len(self.get("/api/v1/workers")["workers"])
