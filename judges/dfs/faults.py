"""Servers that are killed, and files that are damaged, under the stock client; three copies of each block, or RS-6-3.

Usage: faults.py [--runs N]    exits 1 if a byte or an acknowledged change is lost, or a call fails
"""

import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from cluster import HERE, Findings, Servers, Shell, class_path
from harness import ending, wait_until

MIB = 1 << 20
# Seconds until damaged replicas are replaced while readers come upon them.
REPLACED_MAX = 60


def written(shell: Shell, folder: pathlib.Path, length: int) -> bytes:
    content = random.Random(length).randbytes(length)
    (folder / "sent").write_bytes(content)
    code, printed = shell("-put", "-f", folder / "sent", "/file")
    if code != 0:
        raise SystemExit(f"cannot write: {printed.decode(errors='replace')}")
    return content


def killed_readers(findings: Findings, folder: pathlib.Path, runs: int, length: int, datanodes: int, killed: int, policy: str | None = None):
    """Some DataNodes are killed while a file is read."""
    kind = policy or "three copies"
    settings = {"dfs.blocksize": 8 * MIB, "dfs.client.socket-timeout": 5000}
    for run in range(runs):
        place = folder / f"readers-{kind.replace(' ', '-')}-{killed}-{run}"
        place.mkdir()
        with Servers(place, datanodes) as servers, Shell(servers.address, settings=settings) as shell:
            if policy:
                code, printed = shell("ec", "-setPolicy", "-path", "/", "-policy", policy)
                findings.right(f"the policy {policy}", code == 0, printed)
            content = written(shell, place, length)
            reader = subprocess.Popen(
                ["java", "-cp", class_path(), HERE / "Shell.java"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            )
            with ending(reader):
                options = [f"-D{name}={value}" for name, value in settings.items()]
                line = "\t".join([f"-Dfs.defaultFS=hdfs://{servers.address}", *options, "-cat", "/file"])
                reader.stdin.write(line.encode() + b"\n")
                reader.stdin.close()
                got = reader.stdout.read(20 * MIB)
                for name in random.Random(run).sample(sorted(set(servers.running) - {"namenode"}), killed):
                    servers.kill(name)
                got += reader.stdout.read()
            seen = f"{len(got)} bytes, {got[-200:]!r}"
            findings.right(f"{kind}, run {run}: a read while {killed} of {datanodes} DataNodes are killed", got == content + b"\nexit 0\n", seen)
        shutil.rmtree(place)


def killed_namenode(findings: Findings, folder: pathlib.Path, kills: int):
    """The NameNode is killed again and again under threads that change names."""
    place = folder / "namenode-killed"
    place.mkdir()
    with Servers(place, 1) as servers:
        command = ["java", "-Xmx512m", "-cp", class_path(), HERE / "Changes.java", servers.address, "16"]
        pipe = subprocess.PIPE
        with open(place / "changes.log", "wb") as log:
            changes = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True, text=True)
        with ending(changes):
            if changes.stdout.readline() != "ready\n":
                raise SystemExit((place / "changes.log").read_text()[-2000:])
            chance = random.Random(kills)
            for _ in range(kills):
                time.sleep(chance.uniform(0.2, 1.5))
                servers.kill("namenode")
                servers.start("namenode")
            time.sleep(1)
            said, _ = changes.communicate("\n", timeout=120)
            findings.right(f"the NameNode killed {kills} times: {said.splitlines()[-1]}", changes.returncode == 0, said)


def restarted(findings: Findings, folder: pathlib.Path):
    """All are killed and started again, and what was written is there; then replicas are damaged, cut and removed."""
    place = folder / "restarted"
    place.mkdir()
    with Servers(place, 3) as servers:
        with Shell(servers.address, settings={"dfs.blocksize": MIB}) as shell:
            content = written(shell, place, 5 * MIB + 333)
        for name in list(servers.running):
            servers.kill(name)
        servers.start("namenode")
        with Shell(servers.address, settings={"dfs.blocksize": MIB}) as shell:
            code, printed = shell("-mkdir", "/early")
            is_refused = code == 1 and b"safe mode" in printed
            findings.right("without its blocks the NameNode takes no changes", is_refused, printed)
            code, printed = shell("-cat", "/file")
            findings.right("and says so to readers", code == 1 and b"safe mode" in printed, printed)
            for name in servers.arguments:
                if name != "namenode":
                    servers.start(name)

            def leaves_safe_mode():
                if shell("-mkdir", "-p", "/late")[0] != 0:
                    raise OSError("still in safe mode")

            wait_until(leaves_safe_mode, "the cluster")
            code, printed = shell("-cat", "/file")
            findings.right("all killed and started again", (code, printed) == (0, content), printed[-300:])
            damage(findings, servers, shell, content)


def damage(findings: Findings, servers: Servers, shell: Shell, content: bytes):
    """One replica of each block is flipped, cut or removed; readers find it, and it is replaced."""
    by_block = {}
    for path in servers.block_files():
        by_block.setdefault(path.name, []).append(path)
    findings.right("each block is on three DataNodes", [len(paths) for paths in by_block.values()] == [3] * 6, by_block)
    expected = {path: path.read_bytes() for paths in by_block.values() for path in paths}
    for at, paths in enumerate(by_block.values()):
        # One DataNode stays as it was: the client gives a read up that has come upon damage on all of them, in whatever blocks.
        path = paths[at % 2]
        whole = expected[path]
        match at % 3:
            case 0:
                path.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
            case 1:
                path.write_bytes(whole[: len(whole) // 2])
            case 2:
                path.unlink()
    reads_until_replaced(findings, servers, shell, "/file", content, expected)


def reads_until_replaced(findings: Findings, servers: Servers, shell: Shell, path: str, content: bytes, expected: dict[pathlib.Path, bytes]):
    """Reads a file, right each time, until the replicas are what they were: a reader takes one at random, and not all find all."""
    def wrong() -> list[pathlib.Path]:
        return [at for at, whole in expected.items() if not at.exists() or at.read_bytes() != whole]

    findings.right("there is damage", bool(wrong()))
    deadline, turns = time.monotonic() + REPLACED_MAX, 0
    while (left := wrong()) and time.monotonic() < deadline:
        turns += 1
        got = servers.folder / f"got{turns}"
        code, printed = shell("-get", path, got)
        is_same = code == 0 and got.read_bytes() == content
        got.unlink(missing_ok=True)
        if not is_same:
            findings.right(f"a read of damaged replicas, turn {turns}", False, printed[-300:])
            return
        time.sleep(0.5)
    findings.right(f"{turns} reads of damaged replicas are right, and they are replaced", not left and turns > 0, left)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="reads while DataNodes are killed; the NameNode is killed so often, too")
    runs = parser.parse_args().runs
    findings = Findings()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        restarted(findings, folder)
        killed_namenode(findings, folder, runs)
        for policy in [None, "RS-6-3-1024k"]:
            for killed in [1, 2]:
                killed_readers(findings, folder, runs, 200 * MIB, 11, killed, policy)
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
