"""What judges share: the binary, the cache of clients, virtual environments, free ports, servers that they start and kill, and
cleaning up when a judge ends."""

import collections.abc
import contextlib
import fcntl
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing
import urllib.request

# By default Python ends at SIGTERM without running `finally` and `with`, and leaves servers behind.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

CACHE = pathlib.Path(os.environ.get("YEOUL_JUDGE_CACHE", pathlib.Path.home() / ".cache" / "yeoul"))


def binary() -> str:
    """$YEOUL, or the one that `make` built."""
    target = os.environ.get("CARGO_TARGET_DIR", f"{pathlib.Path.home()}/.cache/yeoul/target")
    path = os.environ.get("YEOUL", f"{target}/release/yeoul")
    if shutil.which(path) is None:
        raise SystemExit(f"error: no binary at {path}\nhint: build it with 'make build', or name another one in $YEOUL")
    return path


def venv(name: str, packages: list[str]) -> pathlib.Path:
    """The `bin` folder of a virtual environment with these packages."""
    folder = CACHE / f"venv-{name}"
    stamp = folder / "packages"
    wanted = "\n".join(packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        # What a run that was ended left there is not whole.
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *packages], check=True)
        stamp.write_text(wanted)
    return folder / "bin"


def end(process: subprocess.Popen):
    """Kills a process that leads a process group, and all that it started, which may outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def ending(process: subprocess.Popen):
    """Kills such a process and all that it started on leaving, whatever happens."""
    try:
        yield process
    finally:
        end(process)


def wait_until(
    is_there: collections.abc.Callable, what: str, is_alive: collections.abc.Callable[[], bool] = lambda: True, seconds: float = 60
):
    """Returns the answer of `is_there` once it raises no OSError: within so many seconds, and while `is_alive`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return is_there()
        except OSError as error:
            if time.monotonic() > deadline or not is_alive():
                raise SystemExit(f"{what} did not start: {error}") from error
            time.sleep(0.1)


# The ports that judges take are below the range from which the kernel takes ports for outgoing connections.
PORTS = range(12000, 30000)
PORTS_PER_SHARE = 100

_shares: list[typing.IO] = []
_ports: list[int] = []


def _take_share():
    """Takes a share of the ports that no other process has: a lock keeps it until this process ends, as a port is bound only some
    time after it was given, and judges run beside each other."""
    starts = list(PORTS[::PORTS_PER_SHARE])
    for start in random.sample(starts, len(starts)):
        path = pathlib.Path(tempfile.gettempdir()) / f"yeoul-judge-ports-{start}"
        # One of another user is no less taken.
        with contextlib.suppress(OSError):
            lock = open(path, "ab")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                raise
            _shares.append(lock)
            _ports.extend(range(start, start + PORTS_PER_SHARE))
            return
    raise SystemExit(f"error: other judges have all ports from {PORTS.start} to {PORTS.stop}")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on. None is returned twice, nor to another judge."""
    found = []
    while len(found) < count:
        if not _ports:
            _take_share()
        port = _ports.pop(0)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def page(port, path: str) -> str:
    """A server's answer to an HTTP request."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read().decode()


class Process:
    """One server. It keeps its command line, so that it can be restarted as the same one. Nobody may answer at `port`, if it has
    one, once it is dead."""

    def __init__(self, name: str, command_line: list[str], log: pathlib.Path, http_port: int, port: int | None = None):
        self.name, self.command_line, self.log, self.process = name, command_line, log, None
        self.http_port, self.port = http_port, port
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
        with socket.socket() as probe:
            is_gone = self.port is None or probe.connect_ex(("127.0.0.1", self.port)) != 0
            assert is_gone, f"{self.name} lives on: port {self.port} answers after kill -9"

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
    """Servers in a new folder, which stays if something fails; use it with `with`."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="yeoul-judge-", dir=os.environ.get("YEOUL_JUDGE_TMP")))

    def servers(self) -> list[Process]:
        """All of them."""
        raise NotImplementedError

    def print_use(self):
        for server in self.servers():
            print(f"{server.name}: {server.rss_max() >> 20} MiB at most, {server.cpu_seconds():.1f} CPU-s")

    def check_that_none_crashed(self):
        """Ends the judge if a server has ended that no judge has ended."""
        crashed = [server.name for server in self.servers() if server.crashed()]
        if crashed:
            raise SystemExit(f"crashed: {', '.join(crashed)}")

    def kill(self):
        for server in self.servers():
            if server.alive():
                server.process.kill()
                server.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.kill()
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"logs: {self.folder}")
