"""Hadoop's own scenarios of its shell, from its test jars and with its comparators, each file against a fresh local cluster.

Usage: scenarios.py [--short] [FILE…]    exits 1 if fewer pass than are listed here; prints the rest with the reason
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from cluster import HERE, Findings, local
from hadoop import class_path, test_sources
from harness import ending

# Of each file how many scenarios there are at least, and how many pass at least. Of the rest most ask for what is not there.
FILES = {
    "testXAttrConf.xml": (25, 25),
    "testAclCLI.xml": (25, 25),
    "testAclCLIWithPosixAclInheritance.xml": (26, 26),
    "testDeleteConf.xml": (2, 2),
    "testErasureCodingConf.xml": (58, 58),
    "testHDFSConf.xml": (672, 655),
    "testConf.xml": (32, 32),
}
SHORT = ["testXAttrConf.xml", "testAclCLI.xml"]
# What a file is run with beside the defaults, as Hadoop's own runners do it.
SETTINGS = {"testAclCLI.xml": ["-D", "dfs.namenode.posix.acl.inheritance.enabled=false"]}
# Characters of the reason why a scenario fails.
REASON_MAX = 400


def run(name: str, address: str, sources: pathlib.Path, folder: pathlib.Path) -> list[tuple[str, str, str]]:
    """What became of each scenario of a file, its number and name, and why."""
    command = ["java", "-Xmx1g", f"-Dtest.cache.data={sources}", f"-Dtest.build.data={folder}"]
    command += ["-cp", class_path(), HERE / "Scenarios.java", name, f"hdfs://{address}"]
    found = []
    with open(folder / "client-log", "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=folder, start_new_session=True)
        with ending(process):
            for line in process.stdout:
                fate, _, rest = line.decode(errors="replace").rstrip("\n").partition("\t")
                if fate in ("pass", "fail"):
                    what, _, reason = rest.partition("\t")
                    found.append((fate, what, reason))
    if not found:
        print((folder / "client-log").read_text(errors="replace")[-2000:])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="two small files")
    parser.add_argument("files", nargs="*", metavar="FILE")
    arguments = parser.parse_args()
    findings = Findings()
    sources = test_sources()
    all_passed = all_found = 0
    for name in arguments.files or (SHORT if arguments.short else FILES):
        count, passed_min = FILES[name]
        with tempfile.TemporaryDirectory(dir=os.environ.get("YEOUL_JUDGE_TMP")) as path:
            folder = pathlib.Path(path)
            datanodes = 8 if name == "testHDFSConf.xml" else 3
            more = ["--min-block-size", "0", *SETTINGS.get(name, [])]
            with local(folder, datanodes, *more) as address:
                found = run(name, address, sources, folder)
        passed = sum(fate == "pass" for fate, _, _ in found)
        print(f"{name}: {passed} of {len(found)} pass")
        for fate, what, reason in found:
            if fate == "fail":
                print(f"  {what}:{reason[:REASON_MAX]}")
        findings.right(f"{name}: there are {count} scenarios", len(found) >= count, len(found))
        findings.right(f"{name}: {passed_min} pass", passed >= passed_min, passed)
        all_passed, all_found = all_passed + passed, all_found + len(found)
    print(f"{all_passed} of {all_found} scenarios pass")
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
