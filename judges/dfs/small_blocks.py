"""Many small blocks are copied at once: 100,000 of 1 kB with one copy each on 11 DataNodes are to have two. It takes at most a tenth of the
time that one block a second and DataNode takes, and all are what they were.

Usage: small_blocks.py [--blocks N]    exits 1 if a byte is not as it was, or comes too late
"""

import argparse
import pathlib
import random
import re
import sys
import tempfile
import time

from cluster import Findings, Servers, Shell

DATANODES = 11
BLOCK = 1024
# Blocks of a file.
PER_FILE = 100
# Of the time that one block a second and DataNode takes.
SHARE_MAX = 0.1
LACKING = re.compile(rb"Replicated Blocks:\s*Under replicated blocks: (\d+)")
SETTINGS = {"dfs.blocksize": BLOCK, "dfs.replication": 1, "dfs.bytes-per-checksum": 512}


def lacking(shell: Shell) -> int:
    """Blocks with fewer copies than they are to have, as an operator is told."""
    code, printed = shell("dfsadmin", "-report")
    found = LACKING.search(printed)
    if code != 0 or not found:
        raise SystemExit(f"dfsadmin -report: {code} {printed[:500]}")
    return int(found[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=100_000)
    blocks, findings = parser.parse_args().blocks, Findings()
    with tempfile.TemporaryDirectory(prefix="small-") as place, Servers(pathlib.Path(place), DATANODES) as servers:
        sent, got = servers.folder / "sent", servers.folder / "got"
        sent.mkdir()
        for number in range(blocks // PER_FILE):
            (sent / f"f{number}").write_bytes(random.Random(number).randbytes(BLOCK * PER_FILE))
        with Shell(servers.address, settings=SETTINGS) as shell:
            began = time.monotonic()
            code, printed = shell("-put", "-t", "16", sent, "/small")
            findings.right(f"{blocks} blocks are written in {time.monotonic() - began:.0f} s", code == 0, printed[-500:])
            before = len(servers.block_files())
            findings.right("each of them once", before == blocks and lacking(shell) == 0, before)
            began = time.monotonic()
            code, printed = shell("-setrep", "-R", "2", "/small")
            findings.right("they are to have two copies", code == 0, printed[-500:])
            at_once = lacking(shell)
            longest = SHARE_MAX * blocks / DATANODES
            while (left := lacking(shell)) > 0 and time.monotonic() - began < 2 * longest:
                time.sleep(1)
            took = time.monotonic() - began
            told = f"{at_once} lack one at once, and {left} after {took:.0f} s: {took * DATANODES / blocks:.3f} of a second a block and DataNode"
            findings.right(told, at_once > 0 and left == 0 and took <= longest)
            after = len(servers.block_files())
            findings.right(f"there are {after} replicas", after == 2 * blocks, after)
            findings.right("the replicas of a block are equal", not servers.unequal(), servers.unequal()[:5])
            code, printed = shell("-get", "-t", "8", "/small", got)
            is_same = all((got / path.name).read_bytes() == path.read_bytes() for path in sent.iterdir()) if code == 0 else False
            findings.right("all read back", is_same, printed[-500:])
    return findings.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
