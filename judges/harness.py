"""What judges share: where clients are kept, virtual environments, free ports, and that nothing stays when a judge ends."""

import collections.abc
import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

# By itself Python would end at SIGTERM without `finally` and `with`, and leave servers behind.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

CACHE = pathlib.Path(os.environ.get("YEOUL_JUDGE_CACHE", pathlib.Path.home() / ".cache" / "yeoul"))


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
    """Ends a process that leads a group of its own, and all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def ending(process: subprocess.Popen):
    """Such a process, of which nothing stays, whatever happens."""
    try:
        yield process
    finally:
        end(process)


def wait_until(is_there: collections.abc.Callable, what: str, is_alive: collections.abc.Callable[[], bool] = lambda: True):
    """Asks until there is an answer and no error of the system, for a minute and while it is alive."""
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
    """Ports that nobody listens on, below the range from which the kernel takes ports for outgoing connections. None is given
    twice: who was given one may not have bound it yet."""
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
