"""Clusters of `yeoul dfs` and the stock client, for the judges beside this file."""

import contextlib
import hashlib
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hadoop import class_path
from harness import binary, end, ending, free_ports

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


class Servers:
    """A NameNode and DataNodes, each a process of its own that can be killed and started again."""

    def __init__(self, folder: pathlib.Path, datanodes: int, disk_bytes: int | None = None, namenode: tuple = (), idle: int = 0, racks: bool = True):
        """`namenode` are more arguments of the NameNode. With `disk_bytes` each DataNode has a file system of that size for itself, which root only can mount. The last `idle` DataNodes are left to be started. Without `racks` DataNodes do not say where they stand."""
        self.folder, self.running, self.mounted = folder, {}, []
        [port] = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.arguments = {"namenode": ["namenode", "--dir", folder / "namenode", "--port", str(port), "--min-block-size", "0", *namenode]}
        for number in range(datanodes):
            ports = free_ports(2)
            more = ["--port", str(ports[0]), "--ipc-port", str(ports[1])]
            more += ["--rack", f"/rack{number % 2}"] if racks else []
            name = f"datanode{number}"
            self.arguments[name] = ["datanode", "--namenode", self.address, "--dir", folder / name, *more]
            if disk_bytes:
                (folder / name).mkdir()
                subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "none", folder / name], check=True)
                self.mounted.append(folder / name)
        for name in [*self.arguments][: 1 + datanodes - idle]:
            self.start(name)

    def start(self, name: str):
        self.running[name], _ = started(self.arguments[name], self.folder / f"{name}.log")

    def kill(self, name: str):
        end(self.running.pop(name))

    def stop(self, name: str):
        """Ends a server as an operator does."""
        process = self.running.pop(name)
        process.terminate()
        process.wait(timeout=30)

    def block_files(self) -> list[pathlib.Path]:
        """Whole replicas, of all DataNodes."""
        found = self.folder.glob("datanode*/current/BP-*/current/finalized/subdir*/subdir*/blk_*")
        return sorted(path for path in found if path.suffix != ".meta")

    def unequal(self) -> list[str]:
        """Blocks whose whole replicas differ."""
        found: dict[str, set[bytes]] = {}
        for path in self.block_files():
            # A needless one may go meanwhile.
            with contextlib.suppress(FileNotFoundError):
                found.setdefault(path.name, set()).add(hashlib.md5(path.read_bytes()).digest())
        return [name for name, digests in found.items() if len(digests) > 1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            end(process)
        for folder in self.mounted:
            subprocess.run(["umount", folder], check=True)


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

    def got(self, path: str, local: pathlib.Path) -> tuple[int, bytes]:
        """The exit code of `-get`, and the bytes of the file, apart from what the client logs."""
        local.unlink(missing_ok=True)
        code, printed = self("-get", path, local)
        if code != 0:
            print(printed.decode(errors="replace")[-2000:], file=sys.stderr)
        return code, local.read_bytes() if local.exists() else b""

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
