"""Hadoop's own tests of what a file system promises (its FileSystem contract) against a local cluster.

Usage: contract.py [GROUP…]    exits 1 if a test fails that is not listed here, or one passes that is
"""

import collections
import os
import pathlib
import subprocess
import sys
import tempfile

from cluster import HERE, Findings, local
from harness import ending
from hadoop import class_path

# Groups of which every test must pass.
WHOLE = ["Create", "Open", "Seek", "Delete", "Mkdir", "Rename", "GetFileStatus", "RootDirectory"]
# Tests that HDFS itself passes, of all groups.
PASSED_MIN = 150


def run(address: str, groups: list[str]) -> list[tuple[str, str, str]]:
    """What became of each test, its name, and why."""
    command = ["java", "-Xmx512m", "-cp", class_path(), HERE / "Contract.java", f"hdfs://{address}", *groups]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    found = []
    with ending(process):
        for line in process.stdout:
            fate, _, rest = line.rstrip("\n").partition("\t")
            if fate in ("pass", "fail", "skip"):
                name, _, reason = rest.partition("\t")
                found.append((fate, name, reason))
    return found


def main() -> int:
    findings = Findings()
    groups = sys.argv[1:]
    with tempfile.TemporaryDirectory(dir=os.environ.get("YEOUL_JUDGE_TMP")) as name:
        with local(pathlib.Path(name), 3, "--min-block-size", "0") as address:
            found = run(address, groups)
    counts = collections.Counter(fate for fate, _, _ in found)
    for fate, name, reason in found:
        group = name.partition(".")[0]
        if fate == "fail" or (fate == "skip" and group in WHOLE):
            findings.right(name, False, reason)
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} were skipped, of {len(found)}")
    if not groups:
        findings.right(f"at least {PASSED_MIN} pass", counts["pass"] >= PASSED_MIN, counts["pass"])
        seen = {name.partition(".")[0] for _, name, _ in found}
        findings.right("every group ran", set(WHOLE) <= seen, seen)
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
