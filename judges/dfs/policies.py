"""Erasure-coded files of each policy under the stock client, on 14 DataNodes: written and read with all of them, and with as
many stopped as a policy can lose.

Usage: policies.py [--short]    exits 1 if a byte, a length on disk or an answer is not what it must be
"""

import argparse
import pathlib
import random
import sys
import tempfile
import time

from cluster import Findings, Servers, Shell

CELL = 1 << 20
DATANODES = 14
# The name, data and parity units.
POLICIES = [
    ("RS-6-3-1024k", 6, 3),
    ("RS-3-2-1024k", 3, 2),
    ("RS-LEGACY-6-3-1024k", 6, 3),
    ("XOR-2-1-1024k", 2, 1),
    ("RS-10-4-1024k", 10, 4),
]
# Two cells: a group of two and a half stripes takes two of them.
BLOCK = 2 * CELL


def lengths(data: int) -> list[int]:
    """Around cells and stripes, 3.5 stripes, and one more than a group holds."""
    stripe = data * CELL
    return [0, 1, CELL - 1, CELL, CELL + 1, stripe - 1, stripe, stripe + 1, 7 * stripe // 2, data * BLOCK + 5]


def space(length: int, data: int, parity: int) -> int:
    """What HDFS says that a file takes: each stripe's parity cells are as long as its first cell."""
    taken = length
    for start in range(0, length, data * BLOCK):
        group = min(length - start, data * BLOCK)
        stripes, rest = divmod(group, data * CELL)
        taken += parity * (stripes * CELL + min(rest, CELL))
    return taken


def content(policy: str, length: int) -> bytes:
    return random.Random(f"{policy} {length}").randbytes(length)


def write(findings: Findings, shell: Shell, folder: pathlib.Path, base: str, policy: str, some: list[int]):
    for length in some:
        sent = folder / "sent"
        sent.write_bytes(content(policy, length))
        code, printed = shell("-put", sent, f"{base}/{length}")
        findings.right(f"{policy}: {length} bytes are written to {base}", code == 0, printed[-500:])


def read(findings: Findings, shell: Shell, folder: pathlib.Path, base: str, policy: str, some: list[int], when: str):
    for length in some:
        got = folder / "got"
        got.unlink(missing_ok=True)
        code, printed = shell("-get", f"{base}/{length}", got)
        is_same = code == 0 and got.read_bytes() == content(policy, length)
        findings.right(f"{policy}: {length} bytes of {base} are read {when}", is_same, printed[-500:])


def admin(findings: Findings, shell: Shell):
    """The verbs of `hdfs ec`, and what they refuse."""

    def says(arguments: list[str], code: int, *texts: str):
        found, printed = shell("ec", *arguments)
        text = printed.decode(errors="replace")
        is_right = (found == 0) == (code == 0) and all(part in text for part in texts)
        findings.right(f"hdfs ec {' '.join(arguments)}", is_right, f"{found} {text}")

    shell("-mkdir", "-p", "/admin/inner", "/admin/plain")
    says(["-listPolicies"], 0, "Name=RS-6-3-1024k", "State=ENABLED", "Name=RS-10-4-1024k", "State=DISABLED")
    says(["-listCodecs"], 0, "RS", "RS-LEGACY", "XOR")
    says(["-setPolicy", "-path", "/admin", "-policy", "XOR-2-1-1024k"], 1, "does not match any enabled erasure coding policies")
    says(["-enablePolicy", "-policy", "NOPE"], 1, "does not exist")
    for policy, _, _ in POLICIES:
        says(["-enablePolicy", "-policy", policy], 0, "is enabled")
    says(["-setPolicy", "-path", "/admin"], 0, "Set default erasure coding policy on /admin", "non-empty directory")
    says(["-getPolicy", "-path", "/admin/inner"], 0, "RS-6-3-1024k")
    says(["-setPolicy", "-path", "/admin/plain", "-replicate"], 0, "replication")
    says(["-getPolicy", "-path", "/admin/plain"], 0, "is unspecified")
    says(["-unsetPolicy", "-path", "/admin/inner"], 1)
    says(["-unsetPolicy", "-path", "/admin"], 0, "Unset erasure coding policy")
    says(["-getPolicy", "-path", "/admin"], 0, "is unspecified")
    says(["-getPolicy", "-path", "/none"], 1)
    says(["-removePolicy", "-policy", "RS-3-2-1024k"], 1, "cannot be removed")
    says(["-verifyClusterSetup", "-policy", "RS-10-4-1024k"], 1, "racks are required")


def refused(findings: Findings, shell: Shell, address: str):
    """What would hang the client, and what HDFS refuses."""
    # A JVM of its own: the client keeps the settings of the first command.
    with Shell(address, settings={"dfs.blocksize": 3 * CELL // 2}) as odd:
        code, printed = odd("-touchz", "/RS-6-3-1024k/odd")
        findings.right("a block size of one and a half cells", code == 1 and b"is not a multiple of the cell size" in printed, printed)
    code, printed = shell("-setrep", "2", f"/RS-6-3-1024k/{CELL + 1}")
    seen = shell("-stat", "%r", f"/RS-6-3-1024k/{CELL + 1}")
    findings.right("-setrep of a coded file changes nothing", seen == (0, b"1\n"), (printed, seen))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="two policies and a few lengths")
    short = parser.parse_args().short
    policies = [POLICIES[1], POLICIES[0]] if short else POLICIES
    findings = Findings()
    settings = {"dfs.blocksize": BLOCK, "dfs.client.socket-timeout": 5000}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with Servers(folder, DATANODES) as servers, Shell(servers.address, settings=settings) as shell:
            admin(findings, shell)
            for policy, data, parity in policies:
                some = lengths(data)[1::3] if short else lengths(data)
                shell("-mkdir", f"/{policy}")
                shell("ec", "-setPolicy", "-path", f"/{policy}", "-policy", policy)
                write(findings, shell, folder, f"/{policy}", policy, some)
                read(findings, shell, folder, f"/{policy}", policy, some, "with all DataNodes")
                _, printed = shell("-du", f"/{policy}")
                taken = {int(line.split()[2].rsplit("/", 1)[1]): int(line.split()[1]) for line in printed.decode().splitlines() if line.strip()}
                expected = {length: space(length, data, parity) for length in some}
                findings.right(f"{policy}: -du", taken == expected, f"{taken} {expected}")
            refused(findings, shell, servers.address)
            for policy, data, parity in policies:
                some = lengths(data)[1::3] if short else lengths(data)
                stopped = random.Random(policy).sample([name for name in servers.running if name != "namenode"], parity)
                for name in stopped:
                    servers.kill(name)
                # The NameNode names a DataNode to nobody that has been silent for 3 s.
                time.sleep(4)
                read(findings, shell, folder, f"/{policy}", policy, some, f"with {parity} DataNodes stopped")
                shell("-mkdir", f"/{policy}/degraded")
                write(findings, shell, folder, f"/{policy}/degraded", policy, some)
                read(findings, shell, folder, f"/{policy}/degraded", policy, some, f"with {parity} DataNodes stopped")
                for name in stopped:
                    servers.start(name)
                time.sleep(2)
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
