"""PySpark 3.5.9 with the stock client writes tables while servers are killed: Structured Streaming with its checkpoint, its state and its
files on ours, and Delta 3.2 with 20 appends at a time. No task is tried twice; each row is there once, and each append is a version.

Usage: lake.py [--only stream|delta]    exits 1 if a write fails, or a row is lost or there twice
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from cluster import HERE, Findings, Servers

sys.path.append(str(HERE.parent / "shuffle"))
import fetch
from harness import CACHE, ending

DATANODES = 5
# As in spark_lake.py, which runs in another Python.
ROWS, APPENDED = 1000, 500
BATCHES, WAVES, APPENDS = 16, 4, 20
DELTA = "3.2.0"
JARS = ["io.delta:delta-spark_2.12", "io.delta:delta-storage"]
# Seconds after which a program that does not go on has failed.
SECONDS_MAX = 900


def jars() -> list[str]:
    """Delta's jars."""
    folder, found = CACHE / f"jars-delta-{DELTA}", []
    for jar in JARS:
        name = f"{jar.split(':')[1]}-{DELTA}.jar"
        if not (folder / name).exists():
            maven = ["mvn", "-q", "-B"]
            subprocess.run([*maven, "dependency:get", f"-Dartifact={jar}:{DELTA}", "-Dtransitive=false"], check=True)
            subprocess.run([*maven, "dependency:copy", f"-Dartifact={jar}:{DELTA}", f"-DoutputDirectory={folder}"], check=True)
        found.append(str(folder / name))
    return found


def strike(servers: Servers, name: str) -> str:
    """Kills a server; the NameNode is started again after a second. One that was killed is started."""
    if name not in servers.running:
        servers.start(name)
        return f"{name} started"
    servers.kill(name)
    if name == "namenode":
        time.sleep(1)
        servers.start(name)
    return f"{name} killed"


def run(servers: Servers, faults: dict[str, list[str]], *arguments: str) -> tuple[int, dict, list[str], str]:
    """Runs a program; a second after it has said a line, servers are killed or started again. Its exit code, what it said in the end,
    what was done to servers, and its log."""
    python = fetch.venv("spark", fetch.SPARK) / "python"
    environment = os.environ | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    log, done, said = servers.folder / f"{arguments[0]}.log", [], {}
    command = [python, HERE / "spark_lake.py", *arguments]
    with open(log, "wb") as out:
        program = subprocess.Popen(
            command, cwd=servers.folder, env=environment, stdout=subprocess.PIPE, stderr=out, start_new_session=True, text=True
        )
    with ending(program):
        late = threading.Timer(SECONDS_MAX, program.kill)
        late.start()
        for line in map(str.strip, program.stdout):
            if line.startswith("{"):
                said = json.loads(line)
            for name in faults.get(line, []):
                time.sleep(1)
                if program.poll() is None:
                    done.append(f"{strike(servers, name)} in {line}")
        code = program.wait()
        late.cancel()
    return code, said, done, log.read_text(errors="replace")[-3000:]


def stream(findings: Findings, servers: Servers):
    faults = {
        "batch 2": ["datanode0"],
        "batch 4": ["namenode"],
        "batch 6": ["datanode0"],
        "batch 7": ["datanode1"],
        "batch 9": ["namenode"],
        "batch 11": ["datanode1"],
        "batch 12": ["datanode2", "namenode"],
        "batch 14": ["datanode2"],
    }
    code, said, done, log = run(servers, faults, "stream", f"hdfs://{servers.address}/stream", str(BATCHES))
    findings.right(f"stream: {BATCHES} batches end well: {', '.join(done)}", code == 0, log)
    findings.right("stream: all of that happened", len(done) == sum(map(len, faults.values())), done)
    expected = {"rows": BATCHES * ROWS, "ids": BATCHES * ROWS, "wrong": 0}
    findings.right(f"stream: each of {BATCHES * ROWS} rows is there once", said == expected, said)


def delta(findings: Findings, servers: Servers):
    faults = {"wave 1": ["datanode3"], "wave 2": ["namenode", "datanode3"], "wave 3": ["datanode4", "namenode"]}
    code, said, done, log = run(servers, faults, "delta", f"hdfs://{servers.address}/delta", str(WAVES), str(APPENDS), *jars())
    findings.right(f"Delta: {WAVES} times {APPENDS} appends at a time end well: {', '.join(done)}", code == 0, log)
    findings.right("Delta: all of that happened", len(done) == sum(map(len, faults.values())), done)
    rows = (1 + WAVES * APPENDS) * APPENDED
    expected = {"rows": rows, "ids": rows, "versions": [*range(1 + WAVES * APPENDS)]}
    findings.right(f"Delta: {rows} rows are there once, in {1 + WAVES * APPENDS} versions", said == expected, said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["stream", "delta"])
    only = parser.parse_args().only
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="lake-") as place, Servers(pathlib.Path(place), DATANODES) as servers:
        for part in [stream, delta]:
            if only in (None, part.__name__):
                part(findings, servers)
    return findings.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
