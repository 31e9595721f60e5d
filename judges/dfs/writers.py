"""Writers whose DataNodes die, freeze or are started again under them; three copies of each block, or RS-6-3.

Usage: writers.py [--rounds N] [--short]    exits 1 if a write fails, or a byte that was acknowledged is lost
"""

import argparse
import hashlib
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from cluster import Findings, Shell, class_path, started
from harness import end, free_ports, wait_until

MIB = 1 << 20


class Servers:
    """A NameNode and DataNodes, each a process of its own."""

    def __init__(self, folder: pathlib.Path, datanodes: int):
        self.folder, self.running = folder, {}
        [port] = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.arguments = {"namenode": ["namenode", "--dir", str(folder / "namenode"), "--port", str(port)]}
        for number in range(datanodes):
            ports = free_ports(2)
            more = ["--port", str(ports[0]), "--ipc-port", str(ports[1])]
            name = f"datanode{number}"
            self.arguments[name] = ["datanode", "--namenode", self.address, "--dir", str(folder / name), *more]
        for name in self.arguments:
            self.start(name)

    def start(self, name: str):
        self.running[name], _ = started(self.arguments[name], self.folder / f"{name}.log")

    def kill(self, name: str):
        end(self.running.pop(name))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            end(process)

    def writing(self) -> list[str]:
        """The DataNodes that have an unfinished replica, those with most bytes first."""
        sizes = {}
        for path in self.folder.glob("datanode*/current/BP-*/current/rbw/blk_*"):
            if path.suffix != ".meta":
                name = path.relative_to(self.folder).parts[0]
                sizes[name] = sizes.get(name, 0) + path.stat().st_size
        return [name for name in sorted(sizes, key=lambda name: -sizes[name]) if name in self.running]

    def writer(self, at: int = 0) -> str:
        """A DataNode that has an unfinished replica."""

        def found() -> str:
            if len(names := self.writing()) > at:
                return names[at]
            raise OSError("nobody writes")

        return wait_until(found, "a pipeline", seconds=20)


class Writer:
    """`hdfs dfs -put` of a stream that comes at a pace."""

    def __init__(self, servers: Servers, path: str, length: int, seconds: float, settings: dict):
        flags = [f"-D{name}={value}" for name, value in settings.items()]
        command = ["java", "-Xmx512m", "-cp", class_path(), "org.apache.hadoop.fs.FsShell", "-fs", f"hdfs://{servers.address}"]
        log = open(servers.folder / "writer.log", "wb")
        command += [*flags, "-put", "-", path]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
        self.log, self.length, self.seconds = servers.folder / "writer.log", length, seconds

    def run(self, faults: list) -> tuple[bytes, float]:
        """Writes all, with each fault at its share of the bytes; the digest of what was written, and the seconds from then to the end."""
        numbers, digest, sent, part = random.Random(self.length), hashlib.md5(), 0, MIB
        began, waiting = time.monotonic(), sorted(faults, key=lambda fault: fault[0])
        while sent < self.length:
            while waiting and sent >= waiting[0][0] * self.length:
                waiting.pop(0)[1]()
            bytes_now = numbers.randbytes(min(part, self.length - sent))
            digest.update(bytes_now)
            try:
                self.process.stdin.write(bytes_now)
            except BrokenPipeError:
                break
            sent += len(bytes_now)
            time.sleep(max(0.0, began + self.seconds * sent / self.length - time.monotonic()))
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait(timeout=300)
        return digest.digest(), time.monotonic() - began


def digest_of(servers: Servers, path: str) -> bytes:
    command = ["java", "-Xmx512m", "-cp", class_path(), "org.apache.hadoop.fs.FsShell", "-fs", f"hdfs://{servers.address}", "-cat", path]
    return hashlib.md5(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout).digest()


def replicas(servers: Servers) -> dict[str, set[bytes]]:
    """The digests of the whole replicas of each block."""
    found: dict[str, set[bytes]] = {}
    for path in servers.folder.glob("datanode*/current/BP-*/current/finalized/subdir*/subdir*/blk_*"):
        if path.suffix != ".meta":
            found.setdefault(path.name, set()).add(hashlib.md5(path.read_bytes()).digest())
    return found


def round_of(findings: Findings, what: str, datanodes: int, length: int, seconds: float, fault, policy: str | None = None):
    """A write during which something fails: it ends well, and reads back."""
    with tempfile.TemporaryDirectory(prefix="writers-") as place:
        folder = pathlib.Path(place)
        with Servers(folder, datanodes) as servers:
            path = "/file"
            if policy:
                with Shell(servers.address) as shell:
                    code, printed = shell("ec", "-setPolicy", "-path", "/", "-policy", policy)
                    findings.right(f"{what}: the policy is set", code == 0, printed)
            happened = []
            writer = Writer(servers, path, length, seconds, {})
            expected, took = writer.run([(share, lambda act=act: happened.append(act(servers))) for share, act in fault])
            printed = writer.log.read_text(errors="replace")[-2000:]
            findings.right(f"{what}: the write ends well ({took:.0f} s)", writer.process.returncode == 0, printed)
            findings.right(f"{what}: it happened: {happened}", all(happened) and len(happened) == len(fault), happened)
            findings.right(f"{what}: it reads back", digest_of(servers, path) == expected)
            if not policy:
                unequal = [name for name, digests in replicas(servers).items() if len(digests) > 1]
                findings.right(f"{what}: the replicas of a block are equal", not unequal, unequal)


def kill_writing(at: int):
    """Kills a DataNode of the pipeline."""

    def act(servers: Servers) -> str:
        name = servers.writer(at)
        servers.kill(name)
        return f"{name} killed"

    return act


def restart_writing(servers: Servers) -> str:
    """Ends a DataNode of the pipeline as an operator does, and starts it again."""
    return restart(servers.writer())(servers)


def restart(name: str):
    """Ends a DataNode as an operator does, and starts it again."""

    def act(servers: Servers) -> str:
        process = servers.running.pop(name)
        process.terminate()
        process.wait(timeout=30)
        servers.start(name)
        return name

    return act


def freeze_writing(seconds: float):
    """Stops a DataNode of the pipeline for a while."""

    def act(servers: Servers) -> str:
        name = servers.writer()
        process = servers.running[name]
        process.send_signal(signal.SIGSTOP)
        waiting = f"sleep {seconds}; kill -CONT {process.pid}"
        subprocess.Popen(["sh", "-c", waiting], start_new_session=True)
        return f"{name} frozen"

    return act


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--short", action="store_true", help="a minute: one DataNode killed, three copies and RS-6-3")
    arguments = parser.parse_args()
    findings = Findings()
    size = 200 * MIB
    if arguments.short:
        round_of(findings, "3 nodes, one killed", 3, 60 * MIB, 4, [(0.5, kill_writing(0))])
        round_of(findings, "RS-6-3, one killed", 11, 100 * MIB, 4, [(0.5, kill_writing(0))], "RS-6-3-1024k")
        return findings.wrong
    for number in range(arguments.rounds):
        for at in range(3):
            round_of(findings, f"{number}: 3 nodes, node {at} killed", 3, size, 5, [(0.5, kill_writing(at))])
        two = [(0.3, kill_writing(0)), (0.6, kill_writing(0))]
        round_of(findings, f"{number}: 5 nodes, two killed", 5, size, 5, two)
        round_of(findings, f"{number}: 5 nodes, one restarted", 5, size, 5, [(0.5, restart_writing)])
        round_of(findings, f"{number}: 5 nodes, one frozen for 90 s", 5, size, 5, [(0.5, freeze_writing(90))])
        round_of(findings, f"{number}: RS-6-3, one killed", 11, size, 5, [(0.5, kill_writing(0))], "RS-6-3-1024k")
        round_of(findings, f"{number}: RS-6-3, two killed", 11, size, 5, two, "RS-6-3-1024k")
        rolling = [(0.08 * (at + 1), restart(f"datanode{at}")) for at in range(11)]
        round_of(findings, f"{number}: 11 nodes, all restarted in turn", 11, size, 60, rolling)
        round_of(findings, f"{number}: RS-6-3, all restarted in turn", 11, size, 60, rolling, "RS-6-3-1024k")
        round_of(findings, f"{number}: RS-6-3, one restarted", 11, size, 5, [(0.5, restart_writing)], "RS-6-3-1024k")
    return findings.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
