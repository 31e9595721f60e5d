"""Hadoop's own shell and `yeoul sql` (through the crate hdfs-native) against a local cluster.

Usage: shell.py    exits 1 if an answer, an error or a byte is not what it must be
"""

import pathlib
import random
import sys
import tempfile

from cluster import Findings, Shell, local

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "sql"))
import stores

MIB = 1 << 20
# Around chunks of checksums, packets and blocks.
LENGTHS = [0, 1, 511, 512, 513, 64511, 64512, 64513, MIB - 1, MIB, MIB + 1, 2 * MIB + 777, 5 * MIB]


def files(shell: Shell, folder: pathlib.Path, findings: Findings, base: str):
    """Each length goes there and comes back as it was."""
    for length in LENGTHS:
        sent, got = folder / f"sent-{length}", folder / f"got-{length}"
        sent.write_bytes(random.Random(length).randbytes(length))
        put, seen = shell("-put", sent, f"{base}/{length}")
        get, more = shell("-get", f"{base}/{length}", got)
        is_same = put == 0 and get == 0 and got.read_bytes() == sent.read_bytes()
        findings.right(f"a file of {length} bytes", is_same, seen + more)
        got.unlink(missing_ok=True)
    code, printed = shell("-cat", f"{base}/{LENGTHS[4]}")
    findings.right("-cat", code == 0 and printed == (folder / f"sent-{LENGTHS[4]}").read_bytes(), printed)
    code, printed = shell("-stat", "%n %b %r %o %u %g %a %F", f"{base}/{MIB}")
    expected = f"{MIB} {MIB} 3 {MIB} judge supergroup 644 regular file\n"
    findings.right("-stat", (code, printed.decode()) == (0, expected), printed)


def names(shell: Shell, findings: Findings):
    """Folders, moves, removals, and what a wrong one says."""

    def says(what: str, arguments: list, code: int, *texts: str):
        found, printed = shell(*arguments)
        text = printed.decode(errors="replace")
        findings.right(what, found == code and all(part in text for part in texts), f"{found} {text}")

    says("-mkdir -p", ["-mkdir", "-p", "/n/a/b"], 0)
    says("-mkdir of what is there", ["-mkdir", "/n/a"], 1, "File exists")
    says("-mkdir without parents", ["-mkdir", "/n/x/y"], 1, "No such file or directory")
    says("-touchz", ["-touchz", "/n/a/f"], 0)
    says("-mkdir below a file", ["-mkdir", "-p", "/n/a/f/g"], 1, "is not a directory")
    says("-put over a file", ["-touchz", "/n/a/f"], 0)
    says("-mv of a file", ["-mv", "/n/a/f", "/n/g"], 0)
    says("-mv into a folder", ["-mv", "/n/g", "/n/a/b"], 0)
    says("-mv of nothing", ["-mv", "/n/none", "/n/z"], 1, "No such file or directory")
    says("-mv of a folder into itself", ["-mv", "/n/a", "/n/a/b"], 1)
    says("-ls -R", ["-ls", "-R", "/n"], 0, "/n/a/b/g", "drwxr-xr-x   - judge supergroup")
    says("-ls of nothing", ["-ls", "/n/none"], 1, "No such file or directory")
    says("-cat of nothing", ["-cat", "/n/none"], 1, "No such file or directory")
    says("-cat of a folder", ["-cat", "/n/a"], 1, "Is a directory")
    says("-rm of a folder", ["-rm", "/n/a"], 1, "Is a directory")
    says("-rmdir of a full folder", ["-rmdir", "/n/a"], 1, "Directory is not empty")
    says("-count", ["-count", "/n"], 0, "           3            1                  0 /n")
    says("-chmod", ["-chmod", "750", "/n/a"], 0)
    says("-chmod shows", ["-ls", "-d", "/n/a"], 0, "drwxr-x---")
    says("-setrep", ["-setrep", "2", "/n/a/b/g"], 0, "Replication 2 set")
    says("-df", ["-df", "/"], 0, "hdfs://")
    says("a name of 256 bytes", ["-mkdir", f"/n/{'x' * 256}"], 1, "maximum path component name limit")
    says("-rm -r", ["-rm", "-r", "/n"], 0, "Deleted /n")
    says("-rm of nothing", ["-rm", "/n"], 1, "No such file or directory")


def main() -> int:
    findings = Findings()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with local(folder) as address:
            with Shell(address) as shell:
                code, printed = shell("-chmod", "777", "/")
                findings.right("the user of the server may do everything", code == 0, printed)
            with Shell(address, user="judge", settings={"dfs.blocksize": MIB}) as shell:
                names(shell, findings)
                shell("-mkdir", "-p", "/files")
                files(shell, folder, findings, "/files")
            with Shell(address, "token", user="judge") as shell:
                code, printed = shell("-ls", "/files")
                findings.right("a client that negotiates", code == 0 and printed.count(b"judge") == len(LENGTHS), printed)
            base = f"hdfs://{address}"
            stores.check(findings, "hdfs-native", f"{base}/tables", {"HADOOP_USER_NAME": "judge"}, f"{base}/none/a.parquet")
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
