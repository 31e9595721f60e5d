"""Files that change once they are closed, by the stock client: appended to, joined, and made shorter, while writers and servers are
killed; and which are open.

Usage: append.py [--rounds N] [--short]    exits 1 if a byte is wrong, or a change does not come to its end
"""

import argparse
import pathlib
import random
import sys
import tempfile
import time

from cluster import Findings, Servers, Shell
from harness import ending, wait_until
from writers import NO_CACHE, RETRIES, flushing, kill_namenode, kill_writing, restart_writing

MIB = 1 << 20
BLOCK = MIB
DATANODES = 5
SETTINGS = NO_CACHE | RETRIES | {"dfs.blocksize": BLOCK}
# What happens while a writer appends.
FAULTS = [[kill_writing(0)], [kill_namenode], [restart_writing], [kill_writing(1), kill_namenode]]


class Files:
    """Files that are written through the shell, with their bytes."""

    def __init__(self, findings: Findings, servers: Servers, shell: Shell, seed: int):
        self.findings, self.servers, self.shell, self.chance = findings, servers, shell, random.Random(seed)

    def put(self, path: str, length: int) -> bytes:
        local, content = self.servers.folder / "content", self.chance.randbytes(length)
        local.write_bytes(content)
        self.does(f"-put of {length} bytes", "-put", local, path)
        return content

    def does(self, what: str, *command):
        code, printed = self.shell(*command)
        self.findings.right(what, code == 0, printed[-1000:])

    def refuses(self, what: str, text: bytes, *command):
        code, printed = self.shell(*command)
        self.findings.right(what, code != 0 and text in printed, (code, printed[-1000:]))

    def has(self, what: str, path: str, expected: bytes):
        code, found = self.shell.got(path, self.servers.folder / "got")
        self.findings.right(f"{what}: {len(expected)} bytes", code == 0 and found == expected, (code, len(found)))

    def open_file(self, path: str) -> bytes:
        """The bytes of a file that is written. As with HDFS, the client finds no length as long as a block has been given to a DataNode
        that is gone, and to others that have nothing of it yet."""

        def read() -> bytes:
            code, found = self.shell.got(path, self.servers.folder / "got")
            if code != 0:
                raise OSError("there is no length")
            return found

        return wait_until(read, "a file that is written", seconds=120)

    def equal(self, what: str):
        unequal = self.servers.unequal()
        self.findings.right(f"{what}: the replicas of a block are equal", not unequal, unequal)

    def has_after_restart(self, what: str, path: str, expected: bytes):
        """Its NameNode is killed and started again; the client tries until that has left safe mode."""
        self.servers.kill("namenode")
        self.servers.start("namenode")

        def writes():
            if self.shell("-touchz", f"{path}.late")[0] != 0:
                raise OSError("still in safe mode")

        wait_until(writes, "the end of safe mode")
        self.has(f"{what}, after a restart of the NameNode", path, expected)


def grown(files: Files, number: int):
    """Some bytes at a time: within a chunk of a checksum, to its end, behind it, and to the end of a block."""
    path, kinds = f"/grown-{number}", ["CRC32C", "CRC32", "NULL"]
    content = files.put(path, files.chance.randrange(1, 600))
    for length in [1, files.chance.randrange(2, 511), 512, 5 * 512 + 1, BLOCK - 3, BLOCK, 2]:
        local, more = files.servers.folder / "more", files.chance.randbytes(length)
        local.write_bytes(more)
        kind = files.chance.choice(kinds)
        files.does(f"{number}: -appendToFile of {length} bytes, {kind}", f"-Ddfs.checksum.type={kind}", "-appendToFile", local, path)
        content += more
        files.has(f"{number}: appended {length} bytes", path, content)
    files.has_after_restart(f"{number}: appended", path, content)
    files.equal(f"{number}: appended")
    files.refuses(f"{number}: to none", b"No such file", "-truncate", 0, f"{path}.none")


def appended(files: Files, number: int, faults: list):
    """A writer appends and flushes while servers are killed."""
    path, local = f"/appended-{number}", files.servers.folder / "content"
    before = files.put(path, files.chance.randrange(1, 3 * BLOCK))
    content = before + files.chance.randbytes(20 * MIB)
    local.write_bytes(content)
    log, settings = files.servers.folder / "writer.log", [f"{name}={value}" for name, value in SETTINGS.items()]
    happened = []
    with ending(flushing(files.servers, path, local, 4 * MIB, number, settings, log)) as writer:
        for line in writer.stdout:
            if line.startswith("flushed") and len(happened) < len(faults):
                flushed = int(line.split()[1])
                happened.append(faults[len(happened)](files.servers))
                found = files.open_file(path)
                is_there = len(found) >= flushed and content.startswith(found)
                what = f"{number}: {flushed} flushed bytes, of {len(before)} and more, are there after {happened[-1]}"
                files.findings.right(what, is_there, len(found))
        writer.wait(timeout=300)
        files.findings.right(f"{number}: appending ends well, {happened}", writer.returncode == 0, log.read_text(errors="replace")[-2000:])
    files.findings.right(f"{number}: it happened", len(happened) == len(faults), happened)
    files.has(f"{number}: appended, {happened}", path, content)
    for name in files.servers.arguments:
        if name not in files.servers.running:
            files.servers.start(name)
    files.equal(f"{number}: appended, {happened}")


def writer_killed(files: Files, number: int):
    """A writer that appends is killed at any moment: what was there and what it flushed stays."""
    path, local = f"/killed-{number}", files.servers.folder / "content"
    before = files.put(path, files.chance.randrange(1, 3 * BLOCK))
    content, least = before + files.chance.randbytes(20 * MIB), len(before)
    local.write_bytes(content)
    log, settings = files.servers.folder / "writer.log", [f"{name}={value}" for name, value in SETTINGS.items()]
    with ending(flushing(files.servers, path, local, 4 * MIB, number, settings, log)) as writer:
        if writer.stdout.readline() != "created\n":
            raise SystemExit(log.read_text()[-2000:])
        end = time.monotonic() + files.chance.uniform(0, 2)
        for line in writer.stdout:
            if line.startswith("flushed"):
                least = int(line.split()[1])
            if time.monotonic() > end:
                writer.kill()
        writer.wait(timeout=60)
    code, printed = files.shell("debug", "recoverLease", "-path", path, "-retries", 12)
    files.findings.right(f"{number}: the lease of a writer that appended is recovered", code == 0, printed[-500:])
    code, found = files.shell.got(path, files.servers.folder / "got")
    is_right = code == 0 and least <= len(found) and content.startswith(found)
    files.findings.right(f"{number}: {len(before)} bytes, {least} with what was flushed, {len(found)} are there", is_right, code)
    files.equal(f"{number}: a writer that appended is killed")


def joined(files: Files, number: int):
    folder = f"/joined/{number}"
    files.does(f"{number}: -mkdir", "-mkdir", "-p", folder)
    lengths = [3 * BLOCK + 7, BLOCK, 511]
    content = [files.put(f"{folder}/{at}", length) for at, length in enumerate(lengths)]
    files.refuses(f"{number}: a file is not joined with itself", b"", "-concat", f"{folder}/0", f"{folder}/0")
    files.does(f"{number}: -concat", "-concat", f"{folder}/0", f"{folder}/2", f"{folder}/1")
    expected = content[0] + content[2] + content[1]
    files.has(f"{number}: joined", f"{folder}/0", expected)
    files.refuses(f"{number}: what was joined is gone", b"No such file", "-ls", f"{folder}/1")
    files.has_after_restart(f"{number}: joined", f"{folder}/0", expected)


def shortened(files: Files, number: int, kills: bool):
    path, length = f"/short-{number}", 3 * BLOCK + files.chance.randrange(1, BLOCK)
    content = files.put(path, length)
    at = files.chance.randrange(2 * BLOCK + 1, 3 * BLOCK)
    name = f"{number}: truncated" + (", a DataNode and the NameNode killed" if kills else "")
    if kills:
        files.servers.kill("datanode0")
        files.does(f"{name}: -truncate", "-truncate", at, path)
        files.servers.kill("namenode")
        files.servers.start("namenode")
        files.servers.start("datanode0")
    else:
        files.does(f"{name}: -truncate -w", "-truncate", "-w", at, path)

    def closes():
        if files.shell("debug", "recoverLease", "-path", path)[0] != 0:
            raise OSError("it is open")

    wait_until(closes, "the end of a truncation", seconds=120)
    files.has(name, path, content[:at])
    files.does(f"{number}: -truncate at the end of a block", "-truncate", "-w", 2 * BLOCK, path)
    files.has(f"{number}: at the end of a block", path, content[: 2 * BLOCK])
    files.refuses(f"{number}: to a larger size", b"Cannot truncate to a larger file size", "-truncate", length, path)
    files.equal(f"{number}: truncated")


def opened(files: Files, number: int):
    """A file that is written is listed with its writer, and refused."""
    path, local = f"/open-{number}", files.servers.folder / "long"
    local.write_bytes(files.chance.randbytes(20 * MIB))
    writer = flushing(files.servers, path, local, MIB, number, [], files.servers.folder / "writer.log")
    with ending(writer):
        if writer.stdout.readline() != "created\n":
            raise SystemExit((files.servers.folder / "writer.log").read_text()[-2000:])
        code, printed = files.shell("dfsadmin", "-listOpenFiles")
        is_listed = code == 0 and path.encode() in printed and b"127.0.0.1" in printed
        files.findings.right(f"{number}: an open file is listed with its writer", is_listed, printed)
        code, printed = files.shell("dfsadmin", "-listOpenFiles", "-path", "/joined")
        files.findings.right(f"{number}: not below another path", code == 0 and path.encode() not in printed, printed)
        files.refuses(f"{number}: an open file is not truncated", b"Failed to TRUNCATE_FILE", "-truncate", 0, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--short", action="store_true", help="one round")
    arguments = parser.parse_args()
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="append-") as place, Servers(pathlib.Path(place), DATANODES) as servers:
        with Shell(servers.address, settings=SETTINGS) as shell:
            for number in range(1 if arguments.short else arguments.rounds):
                files = Files(findings, servers, shell, number)
                grown(files, number)
                for at, faults in enumerate(FAULTS if not arguments.short else FAULTS[-1:]):
                    appended(files, 10 * number + at, faults)
                writer_killed(files, number)
                joined(files, number)
                opened(files, number)
                shortened(files, number, kills=False)
                shortened(files, number + 1000, kills=True)
    return findings.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
