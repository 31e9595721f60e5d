"""Writers that are killed with -9 at random moments: another client recovers the lease and reads at least what was flushed, and at
most what was written, and all replicas of a block are the same; three copies of each block, and RS-6-3.

Usage: leases.py [--rounds N] [--short]    exits 1 if a byte that was flushed is lost, or a file does not close
"""

import argparse
import pathlib
import random
import sys
import tempfile
import threading
import time

from cluster import Findings, Servers, Shell
from harness import ending, wait_until
from writers import NO_CACHE, flushing, writing

MIB = 1 << 20
LENGTH = 60 * MIB
BLOCK = 8 * MIB
DATANODES = 11
# Seconds of silence after which the NameNode closes a file by itself, in the round that waits for it.
HARD_LIMIT = 10
# Calls of recoverLease, each 5 s after the one before.
RETRIES = 12


class Round:
    """A file whose writer is killed."""

    def __init__(self, findings: Findings, servers: Servers, shell: Shell, chance: random.Random):
        self.findings, self.servers, self.shell, self.chance = findings, servers, shell, chance
        self.content, self.flushed, self.said = chance.randbytes(LENGTH), 0, []

    def write(self, path: str):
        """Writes, and is killed after some seconds."""
        local = self.servers.folder / "content"
        local.write_bytes(self.content)
        settings = [f"dfs.blocksize={BLOCK}"]
        writer = flushing(self.servers, path, local, 10 * MIB, self.chance.randrange(1 << 30), settings, self.servers.folder / "writer.log")
        with ending(writer):
            if writer.stdout.readline() != "created\n":
                raise SystemExit((self.servers.folder / "writer.log").read_text()[-2000:])
            killer = threading.Timer(self.chance.uniform(0.05, 5), writer.kill)
            killer.start()
            for line in writer.stdout:
                if line.startswith("flushed"):
                    self.flushed = int(line.split()[1])
                self.said.append(line)
            writer.wait(timeout=60)
            killer.cancel()

    def read(self, what: str, path: str, least: int):
        code, found = self.shell.got(path, self.servers.folder / "got")
        is_right = code == 0 and least <= len(found) and self.content.startswith(found)
        self.findings.right(f"{what}: {least} bytes were flushed, {len(found)} are there", is_right, code)
        return found

    def recover(self, what: str, path: str):
        began = time.monotonic()
        code, printed = self.shell("debug", "recoverLease", "-path", path, "-retries", RETRIES)
        self.findings.right(f"{what}: the lease is recovered ({time.monotonic() - began:.0f} s)", code == 0, printed[-500:])

    def end(self, what: str, path: str, coded: bool):
        """The file is closed: what is there stays, and other clients may replace it."""
        least = 0 if coded else self.flushed
        whole = self.read(what, path, least)
        code, printed = self.shell("-stat", "%b", path)
        self.findings.right(f"{what}: its length is known", code == 0 and printed.split()[-1:] == [str(len(whole)).encode()], printed)
        self.findings.right(f"{what}: the replicas of a block are equal", not self.servers.unequal(), self.servers.unequal())


def killed(findings: Findings, servers: Servers, shell: Shell, number: int):
    """The writer alone is killed."""
    one, path, what = Round(findings, servers, shell, random.Random(number)), f"/copied/{number}", f"{number}: three copies"
    one.write(path)
    one.read(f"{what}, still open", path, one.flushed)
    one.recover(what, path)
    one.end(what, path, False)


def coded(findings: Findings, servers: Servers, shell: Shell, number: int):
    """The writer of a coded file is killed."""
    one, path, what = Round(findings, servers, shell, random.Random(number)), f"/coded/{number}", f"{number}: RS-6-3"
    one.write(path)
    one.recover(what, path)
    one.end(what, path, True)


def with_datanodes(findings: Findings, servers: Servers, shell: Shell, number: int):
    """Then two of its DataNodes are killed, and one of them is started again."""
    one, path, what = Round(findings, servers, shell, random.Random(number)), f"/copied/{number}", f"{number}: two DataNodes killed"
    one.write(path)
    names = writing(servers)[:2]
    for name in names:
        servers.kill(name)
    for name in names[1:]:
        servers.start(name)
    one.recover(f"{what} {names}", path)
    one.end(what, path, False)
    for name in names[:1]:
        servers.start(name)


def with_all(findings: Findings, servers: Servers, shell: Shell, number: int):
    """Then all servers are killed and started again."""
    one, path, what = Round(findings, servers, shell, random.Random(number)), f"/copied/{number}", f"{number}: all servers killed"
    one.write(path)
    for name in list(servers.running):
        servers.kill(name)
    for name in servers.arguments:
        servers.start(name)

    def leaves_safe_mode():
        if shell("-mkdir", "-p", "/late")[0] != 0:
            raise OSError("still in safe mode")

    wait_until(leaves_safe_mode, "the cluster")
    one.recover(what, path)
    one.end(what, path, False)


def by_itself(findings: Findings, number: int):
    """Nobody asks for the file: the NameNode closes it."""
    more = ("-D", f"dfs.namenode.lease-hard-limit-sec={HARD_LIMIT}")
    with tempfile.TemporaryDirectory(prefix="leases-") as place, Servers(pathlib.Path(place), 3, namenode=more) as servers:
        with Shell(servers.address, settings=NO_CACHE) as shell:
            one, path, what = Round(findings, servers, shell, random.Random(number)), "/file", f"{number}: nobody asks"
            one.write(path)

            def closes():
                (code, length), (_, found) = shell("-stat", "%b", path), shell.got(path, servers.folder / "got")
                if code != 0 or int(length.split()[-1]) != len(found) or writing(servers):
                    raise OSError("it is open")

            wait_until(closes, "the file's end", seconds=HARD_LIMIT + 20)
            one.end(what, path, False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12, help="of each kind but the last, which waits for the NameNode")
    parser.add_argument("--short", action="store_true", help="one of each kind")
    arguments = parser.parse_args()
    findings, kinds = Findings(), [killed, coded, with_datanodes, with_all]
    rounds = 1 if arguments.short else arguments.rounds
    by_itself(findings, 0)
    with tempfile.TemporaryDirectory(prefix="leases-") as place, Servers(pathlib.Path(place), DATANODES) as servers:
        with Shell(servers.address, settings=NO_CACHE) as shell:
            for command in [("-mkdir", "/copied", "/coded"), ("ec", "-setPolicy", "-path", "/coded", "-policy", "RS-6-3-1024k")]:
                code, printed = shell(*command)
                findings.right(" ".join(command), code == 0, printed)
            for number in range(rounds * len(kinds)):
                kinds[number % len(kinds)](findings, servers, shell, number + 1)
    return findings.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
