"""Files moved from HDFS's own servers to ours and back by `hadoop distcp` and `hdfs dfs -cp`, as docs/moving-from-hdfs.md says: the
bytes by their checksums, and what is kept beside them.

Usage: moving.py    exits 1 if a file, a checksum or an attribute differs
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

from cluster import Findings, Shell, local
from hadoop import class_path, distcp
from harness import free_ports
from peer import Hdfs

MIB = 1 << 20
# The bytes of each file, and of its blocks if those are not of the usual size.
FILES = {"/data/empty": (0, None), "/data/small": (1, None), "/data/part/large": (9 * MIB + 5, None), "/data/part/blocks": (3 * MIB + 7, MIB)}
# Owner, group, mode, block size, ACL, extended attributes, times.
KEPT = "-pugpbaxt"
COMPOSITE = "-Ddfs.checksum.combine.mode=COMPOSITE_CRC"


class Moving:
    """Two clusters and the tools between them."""

    def __init__(self, findings: Findings, folder: pathlib.Path, old: str, new: str):
        self.findings, self.folder = findings, folder
        self.old, self.new = f"hdfs://{old}", f"hdfs://{new}"
        self.shell = Shell(old)

    def copied(self, what: str, *arguments: str):
        """A run of `hadoop distcp`, its work done in its own process."""
        settings = {"fs.defaultFS": self.old, "mapreduce.framework.name": "local", "hadoop.tmp.dir": self.folder / "tmp"}
        flags = [f"-D{key}={value}" for key, value in settings.items()]
        command = ["java", "-Xmx512m", "-cp", f"{class_path()}:{distcp()}", "org.apache.hadoop.tools.DistCp", *flags, *arguments]
        ended = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=600)
        self.findings.right(f"distcp: {what}", ended.returncode == 0, ended.stderr[-2000:])

    def does(self, *arguments: str):
        code, printed = self.shell(*arguments)
        self.findings.right(" ".join(map(str, arguments)), code == 0, printed[-500:])

    def sums(self, base: str, paths: list[str], shell: Shell | None = None) -> list[bytes]:
        """The checksums of files, without their names."""
        found = []
        for path in paths:
            code, printed = (shell or self.shell)("-checksum", f"{base}{path}")
            # A client may warn before its first answer.
            found.append(b" ".join(printed.strip().splitlines()[-1].split()[1:]) if code == 0 else printed)
        return found

    def same(self, what: str, there: str, paths: list[str], here: str | None = None):
        """That files have the same checksums on both sides."""
        expected, found = self.sums(here or self.old, paths), self.sums(there, paths)
        self.findings.right(f"{what}: {len(paths)} checksums are the same", expected == found, (expected, found))

    def attributes(self, base: str) -> list[bytes]:
        """What is kept beside the bytes below a directory."""
        lines = []
        for arguments in [["-ls", "-R"], ["-getfacl", "-R"], ["-getfattr", "-R", "-d"]]:
            code, printed = self.shell(*arguments, f"{base}/data")
            lines += [line.replace(base.encode(), b"") for line in printed.splitlines() if code == 0]
        return lines


def filled(moving: Moving, base: str):
    """Files of many kinds, with what is beside them."""
    moving.does("-mkdir", "-p", f"{base}/data/part")
    sent = moving.folder / "sent"
    for path, (length, block) in FILES.items():
        sent.write_bytes(random.Random(path).randbytes(length))
        # A JVM of its own, as the client keeps the settings of the first command.
        with Shell(base.removeprefix("hdfs://"), settings={"dfs.blocksize": block} if block else None) as shell:
            code, printed = shell("-put", sent, f"{base}{path}")
        moving.findings.right(f"{path} is written", code == 0, printed[-500:])
    moving.does("-chmod", "750", f"{base}/data/part")
    moving.does("-chown", "ada:crew", f"{base}/data/small")
    moving.does("-setfacl", "-m", "user:bob:r-x,default:group:crew:rwx", f"{base}/data/part")
    moving.does("-setfattr", "-n", "user.origin", "-v", "old", f"{base}/data/part/large")


def rounds(findings: Findings, moving: Moving):
    paths = list(FILES)
    filled(moving, moving.old)
    moving.copied("all of it", "-update", KEPT, f"{moving.old}/data", f"{moving.new}/data")
    moving.same("after distcp", moving.new, paths)
    expected, found = moving.attributes(moving.old), moving.attributes(moving.new)
    findings.right("owners, modes, times, ACLs and extended attributes are the same", len(found) > 20 and expected == found, (expected, found))
    # What changes meanwhile is copied by a second run, and what is gone goes.
    sent = moving.folder / "sent"
    sent.write_bytes(random.Random(2).randbytes(MIB))
    moving.does("-put", "-f", sent, f"{moving.old}/data/small")
    moving.does("-rm", "-skipTrash", f"{moving.old}/data/empty")
    moving.copied("what has changed", "-update", "-delete", KEPT, f"{moving.old}/data", f"{moving.new}/data")
    paths.remove("/data/empty")
    moving.same("after a second distcp", moving.new, paths)
    code, _ = moving.shell("-test", "-e", f"{moving.new}/data/empty")
    findings.right("what was removed is gone", code == 1, code)
    # Into an erasure code, where only the composite checksum is the same.
    moving.does("-mkdir", f"{moving.new}/coded")
    with Shell(moving.new.removeprefix("hdfs://")) as new:
        for arguments in [["-enablePolicy", "-policy", "XOR-2-1-1024k"], ["-setPolicy", "-path", "/coded", "-policy", "XOR-2-1-1024k"]]:
            code, printed = new("ec", *arguments)
            findings.right(f"hdfs ec {arguments[0]}", code == 0, printed)
    moving.copied("into an erasure code", COMPOSITE, "-update", f"{moving.old}/data", f"{moving.new}/coded/data")
    # A client keeps the settings with which it first came to a cluster.
    with Shell(moving.old.removeprefix("hdfs://"), settings={"dfs.checksum.combine.mode": "COMPOSITE_CRC"}) as composite:
        expected = moving.sums(moving.old, paths, composite)
        found = moving.sums(f"{moving.new}/coded", paths, composite)
    findings.right("composite checksums are the same in an erasure code", expected == found, (expected, found))
    moving.does("-cp", "-p", f"{moving.old}/data/part/large", f"{moving.new}/large")
    moving.does("-cp", "-p", f"{moving.new}/large", f"{moving.old}/large")
    moving.same("-cp there and back", moving.new, ["/large"])
    # And back.
    moving.copied("back", "-update", KEPT, f"{moving.new}/data", f"{moving.old}/back/data")
    moving.same("back on HDFS", f"{moving.old}/back", paths, moving.new)


def looked_at(findings: Findings, moving: Moving, http_port: int):
    """What else is compared, and what is not there."""
    counts = [moving.shell("-count", f"{base}/data") for base in [moving.old, moving.new]]
    found = [(code, printed.split()[:3]) for code, printed in counts]
    findings.right("-count says the same", found[0] == found[1] and found[0][0] == 0, counts)
    settings = {"dfs.namenode.http-address": f"127.0.0.1:{http_port}"}
    with Shell(moving.new.removeprefix("hdfs://"), settings=settings) as new:
        code, printed = new("fsck", f"{moving.new}/data")
        findings.right("hdfs fsck", code == 0 and b"HEALTHY" in printed, printed)
        code, printed = new("dfsadmin", "-allowSnapshot", "/data")
        findings.right("snapshots are refused", code != 0 and b"allowSnapshot" in printed, printed)


def main() -> int:
    findings = Findings()
    with tempfile.TemporaryDirectory(dir=os.environ.get("YEOUL_JUDGE_TMP")) as name, Hdfs() as hdfs:
        folder = pathlib.Path(name)
        hdfs.start(3)
        [http_port] = free_ports(1)
        with local(folder, 3, "--http-port", str(http_port)) as address:
            moving = Moving(findings, folder, hdfs.address, address)
            with moving.shell:
                rounds(findings, moving)
                looked_at(findings, moving, http_port)
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
