"""DataNodes that are killed for good: what they had is made again elsewhere, within the time that is promised and byte by byte, with
all settings as they are by default; and the checksums of files are those of real HDFS, before, without the lost units, and after.

Usage: repair.py [--short]    exits 1 if a byte is not as it was, or comes too late
"""

import argparse
import collections.abc
import contextlib
import pathlib
import random
import re
import sys
import tempfile
import time

from cluster import Findings, Servers, Shell

MIB = 1 << 20
DATANODES = 11
DATA, PARITY = 6, 3
BLOCK = 2 * MIB
# Seconds from the kill to the first repaired block.
FIRST_MAX = 20
# Seconds from the kill until nothing is missing any more.
ALL_MAX = 40
UNIT = re.compile(r"blk_(-?\d+)")
FILES = {"/coded/group": 7 * MIB + 12_345, "/coded/groups": 2 * DATA * BLOCK + 5 * MIB + 1, "/coded/small": 700, "/copied/file": 5 * MIB + 333}
# What `hdfs dfs -checksum` of real HDFS 3.4.2 says of these files, by `dfs.checksum.combine.mode`.
GOLDEN = {
    "MD5MD5CRC": {
        "/coded/group": "MD5-of-0MD5-of-512CRC32C 0000020000000000000000004e2b01a3aed3c19fdcd96bf5eb380a25",
        "/coded/groups": "MD5-of-4096MD5-of-512CRC32C 0000020000000000000010005abe6ca4c669c1c3e52a7f943eaaaccf",
        "/coded/small": "MD5-of-0MD5-of-512CRC32C 000002000000000000000000e175761365b5348da9f21d9f51d13778",
        "/copied/file": "MD5-of-4096MD5-of-512CRC32C 000002000000000000001000258e928d6f3f8eb923aeffddab03671e",
    },
    "COMPOSITE_CRC": {
        "/coded/group": "COMPOSITE-CRC32C 84ede1b8",
        "/coded/groups": "COMPOSITE-CRC32C d773dda3",
        "/coded/small": "COMPOSITE-CRC32C c55d0c73",
        "/copied/file": "COMPOSITE-CRC32C f8eee255",
    },
}


def content(length: int) -> bytes:
    return random.Random(length).randbytes(length)


def replicas(servers: Servers, of: set[str]) -> dict[tuple[str, str], pathlib.Path]:
    """All whole replicas of some DataNodes, by DataNode and file name, and their checksum files. A replica without its checksums
    is none yet."""
    found = {}
    for name in of:
        for path in (servers.folder / name).glob("current/BP-*/current/finalized/subdir*/subdir*/blk_*.meta"):
            data = path.with_name(path.name.rsplit("_", 1)[0])
            if data.exists():
                found[name, data.name] = data
                found[name, path.name] = path
    return found


def unit_of(name: str) -> int | None:
    """The unit of a striped group that a file is of; None for a replica."""
    number = int(UNIT.match(name)[1])
    return number % 16 if number < 0 else None


def datanodes(servers: Servers) -> set[str]:
    return {name for name in servers.running if name != "namenode"}


def checksums(findings: Findings, shells: dict[str, Shell], when: str):
    """What `-checksum` says of the files, against what real HDFS says of the same bytes."""
    for mode, shell in shells.items():
        for path, expected in GOLDEN[mode].items():
            code, printed = shell("-checksum", path)
            # The client tells of DataNodes that do not answer before.
            said = printed.decode(errors="replace").strip().splitlines()[-1].split()[1:]
            findings.right(f"-checksum of {path}, {mode}, {when}", (code, said) == (0, expected.split()), (said, expected))


def write(findings: Findings, shell: Shell, folder: pathlib.Path):
    for path, length in FILES.items():
        sent = folder / "sent"
        sent.write_bytes(content(length))
        code, printed = shell("-put", sent, path)
        findings.right(f"{length} bytes are written to {path}", code == 0, printed[-500:])


def read(findings: Findings, shell: Shell, folder: pathlib.Path, files: dict[str, int], when: str):
    for path, length in files.items():
        got = folder / "got"
        got.unlink(missing_ok=True)
        code, printed = shell("-get", path, got)
        is_same = code == 0 and got.read_bytes() == content(length)
        findings.right(f"{path} is read {when}", is_same, printed[-500:])


def verify(findings: Findings, shell: Shell, when: str):
    """HDFS's own check of parity against data."""
    for path in FILES:
        if path.startswith("/coded/"):
            code, printed = shell("debug", "verifyEC", "-file", path)
            findings.right(f"hdfs debug verifyEC {path} {when}", code == 0 and b"All EC block group status: OK" in printed, printed[-500:])


def first_unit(servers: Servers) -> str:
    """The file with the first cell of `/coded/group`."""
    cell = content(FILES["/coded/group"])[:MIB]
    there = replicas(servers, datanodes(servers)).items()
    [base] = {file for (_, file), at in there if not file.endswith(".meta") and unit_of(file) == 0 and at.read_bytes()[:MIB] == cell}
    return base


def damaged(findings: Findings, servers: Servers, shell: Shell, base: str):
    """One unit of a group is flipped and one is removed; readers come upon them, and they are replaced."""
    path, number = "/coded/group", int(UNIT.match(base)[1])
    units = {int(UNIT.match(file)[1]) - number: at for (_, file), at in replicas(servers, datanodes(servers)).items() if not file.endswith(".meta")}
    expected = {units[unit]: units[unit].read_bytes() for unit in [1, 2]}
    # A bit in the second cell's last chunk.
    whole = expected[units[1]]
    units[1].write_bytes(whole[:-9] + bytes([whole[-9] ^ 16]) + whole[-8:])
    units[2].unlink()
    sizes = {unit: at.stat().st_size for unit, at in units.items() if unit in (1, 2) and at.exists()}
    findings.right("unit 1 is flipped and unit 2 is gone", sizes == {1: len(whole)}, sizes)
    # What is made may be on other DataNodes.
    names = {at.name: bytes_ for at, bytes_ in expected.items()}
    began = time.monotonic()
    while True:
        got = servers.folder / "got"
        got.unlink(missing_ok=True)
        code, printed = shell("-get", path, got)
        is_same = code == 0 and got.read_bytes() == content(FILES[path])
        there = {}
        for (_, file), at in replicas(servers, datanodes(servers)).items():
            if file in names:
                there.setdefault(file, []).append(at.read_bytes())
        is_replaced = all(there.get(file) == [bytes_] for file, bytes_ in names.items())
        if not is_same or is_replaced or time.monotonic() - began > ALL_MAX:
            break
        time.sleep(0.5)
    findings.right(f"{path} is read with damaged units", is_same, printed[-500:])
    findings.right(f"the damaged units are replaced after {time.monotonic() - began:.1f} s", is_replaced, {file: len(all_) for file, all_ in there.items()})


def killed(findings: Findings, servers: Servers, names: list[str], meanwhile: collections.abc.Callable) -> dict[str, bytes]:
    """Kills DataNodes, does something before the repair begins, and waits until what they had is elsewhere; it must be the same
    bytes. What they had."""
    lost = {file: path.read_bytes() for (_, file), path in replicas(servers, set(names)).items()}
    copies = {}
    for _, file in replicas(servers, datanodes(servers)):
        copies[file] = copies.get(file, 0) + 1
    for name in names:
        servers.kill(name)
    began, first = time.monotonic(), None
    known = set(replicas(servers, datanodes(servers)))
    meanwhile()
    findings.right("all of that before the repair began", set(replicas(servers, datanodes(servers))) == known)
    while True:
        there = replicas(servers, datanodes(servers))
        has = {}
        for _, file in there:
            has[file] = has.get(file, 0) + 1
        if first is None and set(there) - known:
            first = time.monotonic() - began
        missing = {file for file in lost if has.get(file, 0) < copies[file]}
        if not missing or time.monotonic() - began > ALL_MAX:
            break
        time.sleep(0.1)
    took = time.monotonic() - began
    kinds = f"{sum(unit_of(file) is not None for file in lost) // 2} units and {sum(unit_of(file) is None for file in lost) // 2} copies"
    findings.right(f"{' and '.join(names)} killed with {kinds}: the first is repaired after {first or 0:.1f} s", first is not None and first <= FIRST_MAX)
    findings.right(f"all after {took:.1f} s", not missing, sorted(missing))
    other = [file for (_, file), path in there.items() if file in lost and path.read_bytes() != lost[file]]
    findings.right("what was made is byte by byte what was lost, checksums, too", not other, other)
    return lost


def without_others(findings: Findings, servers: Servers, shell: Shell, folder: pathlib.Path, base: str, lost: dict[str, bytes]):
    """A file of one group is read from units that were made: of the others as many are gone as may be, parity first."""
    path, number = "/coded/group", int(UNIT.match(base)[1])
    holders = {}
    for name, file in replicas(servers, datanodes(servers)):
        unit = int(UNIT.match(file)[1]) - number
        if not file.endswith(".meta") and 0 <= unit < DATA + PARITY:
            holders.setdefault(name, set()).add(unit)
    made = {int(UNIT.match(file)[1]) - number for file in lost if not file.endswith(".meta")} & set(range(DATA + PARITY))
    units = sorted(unit for units in holders.values() for unit in units)
    is_spread = len(holders) == DATA + PARITY and units == list(range(DATA + PARITY))
    findings.right(f"units {sorted(made)} of {path} were made, and each unit is on a DataNode of its own", bool(made) and is_spread, holders)
    going = sorted((name for name, units in holders.items() if not units & made), key=lambda name: -max(holders[name]))[:PARITY]
    for name in going:
        servers.kill(name)
    # The NameNode names a DataNode to nobody that has been silent for 3 s.
    time.sleep(4)
    gone = sorted(unit for name in going for unit in holders[name])
    read(findings, shell, folder, {path: FILES[path]}, f"without units {gone}")


def rounds(findings: Findings, servers: Servers, shells: dict[str, Shell], folder: pathlib.Path, run: int):
    shell = next(iter(shells.values()))
    shell("-mkdir", "/coded", "/copied")
    shell("ec", "-setPolicy", "-path", "/coded", "-policy", "RS-6-3-1024k")
    write(findings, shell, folder)
    checksums(findings, shells, "with all DataNodes")
    verify(findings, shell, "with all DataNodes")
    # One of them has a data unit of the file that is read in the end.
    base = first_unit(servers)
    [owner] = {name for name, file in replicas(servers, datanodes(servers)) if file == base}
    damaged(findings, servers, shell, base)
    other = random.Random(run).choice(sorted(datanodes(servers) - {owner}))
    lost = killed(findings, servers, [owner, other], lambda: checksums(findings, shells, "without two DataNodes"))
    checksums(findings, shells, "repaired")
    verify(findings, shell, "repaired")
    read(findings, shell, folder, FILES, "repaired")
    without_others(findings, servers, shell, folder, base, lost)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="one round")
    short = parser.parse_args().short
    findings = Findings()
    settings = {"dfs.blocksize": BLOCK, "dfs.client.socket-timeout": 5000}
    for run in range(1 if short else 3):
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
            folder = pathlib.Path(name)
            servers = stack.enter_context(Servers(folder, DATANODES))
            # A JVM for each mode: the client keeps the settings of the first command.
            modes = {mode: settings | {"dfs.checksum.combine.mode": mode} for mode in GOLDEN}
            shells = {mode: stack.enter_context(Shell(servers.address, settings=more)) for mode, more in modes.items()}
            rounds(findings, servers, shells, folder, run)
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
