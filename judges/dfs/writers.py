"""Writers whose DataNodes die, freeze or are started again under them; three copies of each block, or RS-6-3.

Usage: writers.py [--rounds N] [--only WORDS] [--short]    exits 1 if a write fails, or a byte that was acknowledged is lost
"""

import argparse
import dataclasses
import errno
import hashlib
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from cluster import HERE, Findings, Servers, Shell, class_path
from harness import ending, wait_until

MIB = 1 << 20
# The client tries a call again that a NameNode did not live to answer.
RETRIES = {"dfs.client.retry.policy.enabled": "true", "dfs.client.retry.policy.spec": "500,80"}
# Each command asks anew where the blocks are.
NO_CACHE = {"fs.hdfs.impl.disable.cache": "true"}


def writing(servers: Servers) -> list[str]:
    """The DataNodes that run and have an unfinished replica, those with most bytes first."""
    sizes = {}
    for path in servers.folder.glob("datanode*/current/BP-*/current/rbw/blk_*"):
        if path.suffix != ".meta":
            name = path.relative_to(servers.folder).parts[0]
            sizes[name] = sizes.get(name, 0) + path.stat().st_size
    return [name for name in sorted(sizes, key=lambda name: -sizes[name]) if name in servers.running]


def writing_at(servers: Servers, at: int = 0) -> str:
    """A DataNode that has an unfinished replica."""

    def found() -> str:
        if len(names := writing(servers)) > at:
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


@dataclasses.dataclass
class Round:
    """A write during which something fails, each fault at its share of the bytes."""

    name: str
    datanodes: int
    faults: list
    length: int = 200 * MIB
    seconds: float = 5
    policy: str | None = None
    disk_bytes: int | None = None
    settings: dict = dataclasses.field(default_factory=dict)

    def run(self, findings: Findings):
        """It ends well, and reads back."""
        what = self.name
        with tempfile.TemporaryDirectory(prefix="writers-") as place, Servers(pathlib.Path(place), self.datanodes, self.disk_bytes) as servers:
            if self.policy:
                with Shell(servers.address) as shell:
                    code, printed = shell("ec", "-setPolicy", "-path", "/", "-policy", self.policy)
                    findings.right(f"{what}: the policy is set", code == 0, printed)
            happened = []
            writer = Writer(servers, "/file", self.length, self.seconds, self.settings)
            expected, took = writer.run([(share, lambda act=act: happened.append(act(servers))) for share, act in self.faults])
            printed = writer.log.read_text(errors="replace")[-2000:]
            findings.right(f"{what}: the write ends well ({took:.0f} s)", writer.process.returncode == 0, printed)
            findings.right(f"{what}: it happened: {happened}", all(happened) and len(happened) == len(self.faults), happened)
            findings.right(f"{what}: it reads back", digest_of(servers, "/file") == expected)
            if not self.policy:
                findings.right(f"{what}: the replicas of a block are equal", not servers.unequal(), servers.unequal())


def flushing(servers: Servers, path: str, local: pathlib.Path, pace: float, seed: int, settings: list[str], log: pathlib.Path) -> subprocess.Popen:
    """A writer that flushes now and then, and says so on its stdout."""
    command = ["java", "-Xmx512m", "-cp", class_path(), HERE / "Flushes.java", servers.address, path, local, str(pace), str(seed), *settings]
    with open(log, "wb") as out:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=out, start_new_session=True, text=True)


@dataclasses.dataclass
class FlushedRound:
    """A writer that flushes while something fails, each fault once so many bytes are flushed. The client's settings want another
    DataNode for one that is lost, once something is flushed: there has to be one."""

    name: str
    datanodes: int
    faults: list
    length: int = 60 * MIB
    seconds: float = 25
    settings: dict = dataclasses.field(default_factory=dict)

    def run(self, findings: Findings):
        """What was flushed can be read after each fault, while the file is open, and all of it in the end."""
        what, content = self.name, random.Random(self.name).randbytes(self.length)
        with tempfile.TemporaryDirectory(prefix="writers-") as place, Servers(pathlib.Path(place), self.datanodes) as servers:
            local, log = servers.folder / "content", servers.folder / "writer.log"
            local.write_bytes(content)
            settings = [f"{name}={value}" for name, value in self.settings.items()]
            writer = flushing(servers, "/file", local, self.length / self.seconds, 7, settings, log)
            waiting, happened = sorted(self.faults, key=lambda fault: fault[0]), []
            with ending(writer), Shell(servers.address, settings=NO_CACHE | self.settings) as shell:
                for line in writer.stdout:
                    if line.startswith("flushed") and waiting and (flushed := int(line.split()[1])) >= waiting[0][0] * self.length:
                        happened.append(waiting.pop(0)[1](servers))
                        code, found = shell.got("/file", servers.folder / "got")
                        is_there = code == 0 and len(found) >= flushed and content.startswith(found)
                        findings.right(f"{what}: {flushed} flushed bytes are there after {happened[-1]}", is_there, (code, len(found)))
                writer.wait(timeout=300)
                findings.right(f"{what}: the write ends well", writer.returncode == 0, log.read_text(errors="replace")[-2000:])
                findings.right(f"{what}: it happened: {happened}", all(happened) and len(happened) == len(self.faults), happened)
                findings.right(f"{what}: it reads back", shell.got("/file", servers.folder / "got") == (0, content))
            findings.right(f"{what}: the replicas of a block are equal", not servers.unequal(), servers.unequal())


def kill_writing(at: int):
    """Kills a DataNode of the pipeline."""

    def act(servers: Servers) -> str:
        name = writing_at(servers, at)
        servers.kill(name)
        return f"{name} killed"

    return act


def restart_writing(servers: Servers) -> str:
    """Ends a DataNode of the pipeline as an operator does, and starts it again."""
    return restart(writing_at(servers))(servers)


def restart(name: str):
    """Ends a DataNode as an operator does, and starts it again."""

    def act(servers: Servers) -> str:
        servers.stop(name)
        servers.start(name)
        return f"{name} restarted"

    return act


def kill_namenode(servers: Servers) -> str:
    """Kills the NameNode and starts it again."""
    servers.kill("namenode")
    servers.start("namenode")
    return "NameNode killed"


def fill_writing(servers: Servers) -> str:
    """Fills the disk of a DataNode of the pipeline."""
    name = writing_at(servers)
    with open(servers.folder / name / "ballast", "wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(MIB)):
                pass
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return f"{name} is full"
            raise
    return ""


def freeze_writing(seconds: float):
    """Stops a DataNode of the pipeline for a while."""

    def act(servers: Servers) -> str:
        name = writing_at(servers)
        process = servers.running[name]
        process.send_signal(signal.SIGSTOP)
        waiting = f"sleep {seconds}; kill -CONT {process.pid} 2> /dev/null"
        subprocess.Popen(["sh", "-c", waiting], start_new_session=True)
        return f"{name} frozen"

    return act


def short_rounds() -> list:
    """A minute: one DataNode killed, three copies and RS-6-3; and a writer that flushes while one is killed."""
    return [
        Round("3 nodes, one killed", 3, [(0.5, kill_writing(0))], 60 * MIB, 4),
        Round("RS-6-3, one killed", 11, [(0.5, kill_writing(0))], 100 * MIB, 4, "RS-6-3-1024k"),
        FlushedRound("flushes, 4 nodes, one killed", 4, [(0.5, kill_writing(0))], 30 * MIB, 12),
    ]


def rounds(number: int) -> list:
    """One round of each kind."""
    two = [(0.3, kill_writing(0)), (0.6, kill_writing(0))]
    namenode = [(0.2, kill_namenode), (0.5, kill_writing(0)), (0.8, kill_namenode)]
    rolling = [(0.08 * (at + 1), restart(f"datanode{at}")) for at in range(11)]
    disk = {"disk_bytes": 600 * MIB}
    coded = {"policy": "RS-6-3-1024k"}
    each = [
        *[Round(f"3 nodes, node {at} killed", 3, [(0.5, kill_writing(at))]) for at in range(3)],
        Round("11 nodes, one killed", 11, [(0.5, kill_writing(0))]),
        Round("11 nodes, two killed", 11, two),
        Round("11 nodes, one restarted", 11, [(0.5, restart_writing)]),
        Round("11 nodes, one frozen for 90 s", 11, [(0.5, freeze_writing(90))]),
        Round("11 nodes, one full", 11, [(0.5, fill_writing)], **disk),
        Round("11 nodes, all restarted in turn", 11, rolling, seconds=60),
        Round("11 nodes, NameNode killed twice, one killed", 11, namenode, seconds=12, settings=RETRIES),
        Round("RS-6-3, one killed", 11, [(0.5, kill_writing(0))], **coded),
        Round("RS-6-3, two killed", 11, two, **coded),
        Round("RS-6-3, one restarted", 11, [(0.5, restart_writing)], **coded),
        Round("RS-6-3, one frozen for 90 s", 11, [(0.5, freeze_writing(90))], **coded),
        Round("RS-6-3, one full", 11, [(0.5, fill_writing)], **coded, **disk),
        # While a group is written the client gives up each unit whose DataNode is restarted, and stands three of them.
        Round("RS-6-3, all restarted in turn", 11, rolling, seconds=60, settings={"dfs.blocksize": str(4 * MIB)}, **coded),
        Round("RS-6-3, NameNode killed twice, one killed", 11, namenode, seconds=12, settings=RETRIES, **coded),
        FlushedRound("flushes, 4 nodes, one killed", 4, [(0.5, kill_writing(0))]),
        FlushedRound("flushes, 11 nodes, two killed", 11, two),
        FlushedRound("flushes, 11 nodes, NameNode killed twice, one killed", 11, namenode, settings=RETRIES),
        FlushedRound("flushes, 11 nodes, one restarted", 11, [(0.5, restart_writing)]),
    ]
    return [dataclasses.replace(one, name=f"{number}: {one.name}") for one in each]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each kind; a disk that is full needs root")
    parser.add_argument("--only", default="", help="those whose name has this in it")
    parser.add_argument("--short", action="store_true", help=short_rounds.__doc__)
    arguments = parser.parse_args()
    findings = Findings()
    chosen = short_rounds() if arguments.short else [one for number in range(arguments.rounds) for one in rounds(number)]
    for one in chosen:
        if arguments.only in one.name:
            one.run(findings)
    return findings.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
