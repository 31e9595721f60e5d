"""What judges share: the binary, the cache of clients, virtual environments, free ports, and cleaning up when a judge ends."""

import collections.abc
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

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
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
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


def wait_until(is_there: collections.abc.Callable, what: str, is_alive: collections.abc.Callable[[], bool] = lambda: True):
    """Returns the answer of `is_there` once it raises no OSError: within a minute, and while `is_alive`."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return is_there()
        except OSError as error:
            if time.monotonic() > deadline or not is_alive():
                raise SystemExit(f"{what} did not start: {error}")
            time.sleep(0.1)


_given = set()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below the range from which the kernel takes ports for outgoing connections. None is
    returned twice: the process that it was for may not have bound it yet."""
    found = []
    while len(found) < count:
        port = random.randint(12000, 30000)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        found.append(port)
    return found
