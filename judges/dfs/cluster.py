"""Clusters of `yeoul dfs` and the stock client, for the judges beside this file."""

import contextlib
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hadoop import class_path
from harness import binary, ending

HERE = pathlib.Path(__file__).resolve().parent


def started(arguments: list, log: pathlib.Path) -> tuple[subprocess.Popen, str]:
    """A server and the address that it says it has. Its pages have a free port: several servers are on one machine."""
    if "--http-port" not in arguments:
        arguments = [*arguments, "--http-port", "0"]
    with open(log, "ab") as out:
        server = subprocess.Popen([binary(), "dfs", *arguments], stdout=subprocess.PIPE, stderr=out, start_new_session=True, text=True)
    address = server.stdout.readline().strip()
    if not address:
        server.wait()
        raise SystemExit(f"yeoul dfs {arguments[0]} did not start: {log.read_text()[-2000:]}")
    return server, address


@contextlib.contextmanager
def local(folder: pathlib.Path, datanodes: int = 3, *more: str):
    """A cluster in one process; its address."""
    arguments = ["local", "--datanodes", str(datanodes), "--dir", folder / "cluster", "--port", "0", *more]
    server, address = started(arguments, folder / "log")
    with ending(server):
        yield address


class Shell:
    """Hadoop's file system shell against an address, many commands in one process."""

    def __init__(self, address: str, *flags: str, settings: dict | None = None, user: str | None = None):
        settings = {"fs.defaultFS": f"hdfs://{address}"} | (settings or {})
        self.settings = [f"-D{name}={value}" for name, value in settings.items()]
        command = ["java", "-Xmx512m", "-cp", class_path(), HERE / "Shell.java", *flags]
        environment = os.environ | ({"HADOOP_USER_NAME": user} if user else {})
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, env=environment, start_new_session=True)

    def __call__(self, *arguments) -> tuple[int, bytes]:
        """The exit code of a command, and what it printed."""
        line = "\t".join([*self.settings, *map(str, arguments)])
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        printed = []
        while line := self.process.stdout.readline():
            if line.startswith(b"exit "):
                # The line end before it is ours.
                return int(line.split()[1]), b"".join(printed)[:-1]
            printed.append(line)
        raise SystemExit(f"the shell ended: {b''.join(printed).decode(errors='replace')[-2000:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with ending(self.process):
            pass


class Findings:
    """What was right and what was not."""

    def __init__(self):
        self.wrong = 0

    def right(self, what: str, is_right: bool, seen: object = ""):
        print(f"{'ok  ' if is_right else 'FAIL'} {what}{'' if is_right else f': {seen}'}", flush=True)
        self.wrong += not is_right
