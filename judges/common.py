"""What judges share: where clients are kept, virtual environments, jars by name, free ports."""

import os
import pathlib
import random
import socket
import subprocess
import sys

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
