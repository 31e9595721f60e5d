"""Erasure-coded files of each policy under the stock client, on 14 DataNodes: written and read with all of them, and with as
many stopped as a policy can lose. Then policies of users: added, enabled, removed, kept over a restart of the NameNode, and what
is lost of their files is made anew.

Usage: policies.py [--short]    exits 1 if a byte, a length on disk or an answer is not what it must be
"""

import argparse
import pathlib
import random
import sys
import tempfile
import time

from cluster import Findings, Servers, Shell
from harness import free_ports

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
# Those that a user adds: cells of 64 KiB, and all units that a group can have.
USERS = [
    ("RS-4-2-64k", "rs", 4, 2, 64 << 10),
    ("RS-LEGACY-5-3-64k", "rs-legacy", 5, 3, 64 << 10),
    ("XOR-3-1-64k", "xor", 3, 1, 64 << 10),
    ("RS-9-5-32k", "rs", 9, 5, 32 << 10),
]
# Two cells: a group of two and a half stripes takes two of them.
BLOCK = 2 * CELL


def lengths(data: int, cell: int = CELL) -> list[int]:
    """Around cells and stripes, 3.5 stripes, and one more than a group holds."""
    stripe = data * cell
    return [0, 1, cell - 1, cell, cell + 1, stripe - 1, stripe, stripe + 1, 7 * stripe // 2, data * BLOCK + 5]


def some_lengths(data: int, cell: int) -> list[int]:
    """Some of them, with several stripes and several groups."""
    return lengths(data, cell)[1::3] + lengths(data, cell)[-2:]


def space(length: int, data: int, parity: int, cell: int = CELL) -> int:
    """What HDFS says that a file takes: each stripe's parity cells are as long as its first cell."""
    taken = length
    for start in range(0, length, data * BLOCK):
        group = min(length - start, data * BLOCK)
        stripes, rest = divmod(group, data * cell)
        taken += parity * (stripes * cell + min(rest, cell))
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


def sizes(findings: Findings, shell: Shell, policy: str, expected: dict[int, int]):
    """What files take on disk, by their lengths, which are their names."""
    _, printed = shell("-du", f"/{policy}")
    rows = [line.split() for line in printed.decode().splitlines() if line.strip()]
    taken = {int(path.rsplit("/", 1)[1]): int(on_disk) for _, on_disk, path in rows}
    findings.right(f"{policy}: -du", taken == expected, f"{taken} {expected}")


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


def policy_file(folder: pathlib.Path, policies: list[tuple]) -> pathlib.Path:
    """A file for `hdfs ec -addPolicies`; of each policy are used the codec, the units and the cell."""
    schema = '<schema id="s{}"><codec>{}</codec><k>{}</k><m>{}</m></schema>'
    schemas = [schema.format(at, codec, data, parity) for at, (_, codec, data, parity, _) in enumerate(policies)]
    cells = [f"<policy><schema>s{at}</schema><cellsize>{cell}</cellsize></policy>" for at, (*_, cell) in enumerate(policies)]
    path = folder / "policies.xml"
    path.write_text(
        f"<configuration><layoutversion>1</layoutversion><schemas>{''.join(schemas)}</schemas>"
        f"<policies>{''.join(cells)}</policies></configuration>"
    )
    return path


def made_anew(shell: Shell, base: str, dead: int, seconds: int = 120) -> str:
    """Waits until so many DataNodes are known to be dead, and nothing below a path lacks a unit; what fsck says then."""
    until = time.monotonic() + seconds
    while f"Dead datanodes ({dead}):".encode() not in shell("dfsadmin", "-report")[1]:
        if time.monotonic() > until:
            return f"{dead} DataNodes are not known to be dead"
        time.sleep(1)
    # What they had counts as lost once they have said nothing for 10 seconds.
    time.sleep(12)
    while True:
        _, printed = shell("fsck", base)
        text = printed.decode(errors="replace")
        lacking = [line for line in text.splitlines() if "Under-erasure-coded block groups:" in line]
        is_whole = "HEALTHY" in text and lacking and lacking[0].split()[3] == "0"
        if is_whole or time.monotonic() > until:
            return "" if is_whole else text
        time.sleep(1)


def users(findings: Findings, shell: Shell, servers: Servers, folder: pathlib.Path, policies: list[tuple]):
    """Policies that users add."""
    wrong = [("", "rs", 12, 5, 65536), ("", "rs", 7, 3, 8 << 20), ("", "xor", 2, 2, 65536), ("", "rs", 6, 3, CELL)]
    code, printed = shell("ec", "-addPolicies", "-policyFile", policy_file(folder, [*policies, *wrong]))
    text = printed.decode(errors="replace")
    for policy, *_ in policies:
        findings.right(f"{policy} is added", f"Add ErasureCodingPolicy {policy} succeed" in text, f"{code} {text}")
    for policy in ["RS-12-5-64k", "RS-7-3-8192k", "XOR-2-2-64k", "RS-6-3-1024k"]:
        findings.right(f"{policy} is not added", f"Add ErasureCodingPolicy {policy} failed" in text, text)
    for policy, _, data, parity, cell in policies:
        some = some_lengths(data, cell)
        shell("-mkdir", f"/{policy}")
        code, printed = shell("ec", "-setPolicy", "-path", f"/{policy}", "-policy", policy)
        findings.right(f"{policy}: it is disabled at first", code != 0 and b"does not match any enabled" in printed, printed)
        code, printed = shell("ec", "-enablePolicy", "-policy", policy)
        findings.right(f"{policy}: it is enabled", code == 0, printed)
        code, printed = shell("ec", "-setPolicy", "-path", f"/{policy}", "-policy", policy)
        findings.right(f"{policy}: it is set", code == 0, printed)
        write(findings, shell, folder, f"/{policy}", policy, some)
        read(findings, shell, folder, f"/{policy}", policy, some, "with all DataNodes")
        sizes(findings, shell, policy, {length: space(length, data, parity, cell) for length in some})
    removed, _, data, _, cell = policies[0]
    code, printed = shell("ec", "-removePolicy", "-policy", removed)
    findings.right(f"{removed}: it is removed", code == 0, printed)
    checksum = shell("-checksum", f"/{removed}/{lengths(data, cell)[1]}")
    servers.kill("namenode")
    servers.start("namenode")
    until = time.monotonic() + 60
    while b"Safe mode is OFF" not in shell("dfsadmin", "-safemode", "get")[1] and time.monotonic() < until:
        time.sleep(1)
    _, printed = shell("ec", "-listPolicies")
    states = [line.rsplit("State=", 1)[1] for line in printed.decode().splitlines() if f"Name={removed}," in line]
    findings.right(f"{removed}: it is listed as removed after a restart", states == ["REMOVED"], printed)
    findings.right(f"{removed}: the checksum is the same after a restart", shell("-checksum", f"/{removed}/{lengths(data, cell)[1]}") == checksum, checksum)
    code, printed = shell("-touchz", f"/{removed}/new")
    findings.right(f"{removed}: files of a directory that has it are still made", code == 0, printed)
    for policy, _, data, parity, cell in policies:
        some = some_lengths(data, cell)
        stopped = random.Random(policy).sample([name for name in servers.running if name != "namenode"], parity)
        for name in stopped:
            servers.kill(name)
        time.sleep(4)
        read(findings, shell, folder, f"/{policy}", policy, some, f"with {parity} DataNodes stopped")
        if data + parity + parity <= DATANODES:
            findings.right(f"{policy}: what {parity} DataNodes had is made anew", not (said := made_anew(shell, f"/{policy}", parity)), said)
            read(findings, shell, folder, f"/{policy}", policy, some, "after repairs")
            for length in some:
                code, printed = shell("debug", "verifyEC", "-file", f"/{policy}/{length}")
                findings.right(f"{policy}: hdfs debug verifyEC of {length} bytes", code == 0 and b"All EC block group status: OK" in printed, printed[-500:])
        for name in stopped:
            servers.start(name)
        time.sleep(2)


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
    [http_port] = free_ports(1)
    settings = {"dfs.blocksize": BLOCK, "dfs.client.socket-timeout": 5000, "dfs.namenode.http-address": f"127.0.0.1:{http_port}"}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with Servers(folder, DATANODES, namenode=("--http-port", str(http_port))) as servers, Shell(servers.address, settings=settings) as shell:
            admin(findings, shell)
            for policy, data, parity in policies:
                some = lengths(data)[1::3] if short else lengths(data)
                shell("-mkdir", f"/{policy}")
                shell("ec", "-setPolicy", "-path", f"/{policy}", "-policy", policy)
                write(findings, shell, folder, f"/{policy}", policy, some)
                read(findings, shell, folder, f"/{policy}", policy, some, "with all DataNodes")
                sizes(findings, shell, policy, {length: space(length, data, parity) for length in some})
            refused(findings, shell, servers.address)
            users(findings, shell, servers, folder, USERS[:2] if short else USERS)
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
