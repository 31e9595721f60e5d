"""Calls of Hadoop's FileSystem that a seed chooses (`RandomCalls.java`), on our servers and on HDFS's own (`peer.py`): each has the same
outcome, the class of the exception too, and what is there in the end is the same, byte by byte.

Usage: random_calls.py [--seed N] [--rounds N] [--calls N] [--short]    exits 1 if something differs
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from cluster import HERE, Findings, Servers
from hadoop import class_path
from peer import Hdfs

DATANODES = 3
# As of ours: small blocks, and a DataNode is told soon what to do.
SETTINGS = {"dfs.namenode.fs-limits.min-block-size": "0", "dfs.heartbeat.interval": "1", "dfs.namenode.acls.enabled": "true"}


# What is otherwise on purpose, by the call and what came of it with ours and with HDFS.
KNOWN = [
    # HDFS tells somebody who may not go to a file whether it is there.
    ("read", "AccessControlException", "FileNotFoundException"),
    ("getFileChecksum", "AccessControlException", "FileNotFoundException"),
    # HDFS says so of a file whose last block is being recovered from the client that closes it.
    ("close", "LeaseExpiredException", "IOException"),
]


def is_known(ours: str, theirs: str) -> bool:
    """Whether it is one of those."""
    if " -> " not in ours or " -> " not in theirs:
        return False
    call = ours.split()[2]
    return (call, *[line.split(" -> ")[1].split(" | ")[0] for line in (ours, theirs)]) in KNOWN


def outcomes(address: str, seed: int, calls: int) -> list[str]:
    """The lines of one run."""
    command = ["java", "-Xmx512m", "-cp", class_path(), HERE / "RandomCalls.java", address, str(seed), str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise SystemExit(f"the calls of seed {seed} ended: {done.stderr[-2000:]}")
    return done.stdout.splitlines()


def compare(findings: Findings, seed: int, ours: list[str], theirs: list[str]):
    """The same calls had the same outcomes. Words of exceptions may differ."""
    asked = [line.split(" -> ")[0] for line in ours if not line.startswith("= ")]
    made = sum(" -> " in line and " | " not in line for line in theirs)
    findings.right(f"seed {seed}: {len(asked)} calls, of which HDFS carried out {made}", made > len(asked) // 4)
    pairs = [(one, other) for one, other in zip(ours, theirs) if one.split(" | ")[0] != other.split(" | ")[0]]
    differing = [pair for pair in pairs if not is_known(*pair)]
    for one, other in differing[:20]:
        findings.right(f"seed {seed}: {one.split(' -> ')[0]}", False, f"\n    ours {one}\n    HDFS {other}")
    findings.right(f"seed {seed}: all are the same", not differing and len(ours) == len(theirs), (len(differing), len(ours), len(theirs)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2000, help="of a round")
    parser.add_argument("--short", action="store_true", help="one round of 600 calls")
    arguments = parser.parse_args()
    rounds, calls = (1, 600) if arguments.short else (arguments.rounds, arguments.calls)
    findings = Findings()
    for seed in range(arguments.seed, arguments.seed + rounds):
        # One after the other, each with new servers.
        with tempfile.TemporaryDirectory(prefix="random-calls-") as place, Servers(pathlib.Path(place), DATANODES) as servers:
            ours = outcomes(servers.address, seed, calls)
        with Hdfs() as hdfs:
            hdfs.start(DATANODES, SETTINGS)
            theirs = outcomes(hdfs.address, seed, calls)
        compare(findings, seed, ours, theirs)
    return findings.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
