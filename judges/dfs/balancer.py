"""The stock `hdfs balancer` against DataNodes of which some are full and some empty: whole replicas and units of groups, with a
DataNode killed in the middle. Needs root, which mounts a file system for each DataNode.

Usage: balancer.py    exits 1 if an answer is not what it must be
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from cluster import HERE, Findings, Servers, Shell
from hadoop import class_path
from harness import free_ports, page, wait_until
from operators import Cluster
from writers import NO_CACHE

MIB = 1 << 20
# DataNodes that are full, and that join when they are.
FULL, EMPTY = 5, 2
DISK_BYTES = 128 * MIB
# Per cent by which a DataNode may differ from the mean.
THRESHOLD = 5
# Bytes per second of the moves of a DataNode while one is killed.
BANDWIDTH = MIB
# Seconds that a balancer may take.
BALANCED_WITHIN = 300
POLICY = "RS-3-2-1024k"


class Balancer:
    """Hadoop's balancer, as it runs."""

    def __init__(self, address: str, log: pathlib.Path):
        settings = {
            "fs.defaultFS": f"hdfs://{address}",
            "dfs.balancer.getBlocks.min-block-size": 1,
            # At a time, so that some have ended while others have yet to begin.
            "dfs.datanode.balance.max.concurrent.moves": 4,
            # Of the file that says that it runs: DataNodes have no room for a block of the usual size.
            "dfs.blocksize": MIB,
            # Seconds between its rounds depend on these.
            "dfs.heartbeat.interval": 1,
            "dfs.namenode.redundancy.interval.seconds": 1,
        }
        words = [f"-D{name}={value}" for name, value in settings.items()]
        command = ["java", "-Xmx512m", "-cp", class_path(), HERE / "Balance.java", *words]
        self.log = log
        with open(log, "wb") as out:
            self.process = subprocess.Popen([*command, "-threshold", str(THRESHOLD)], stdout=out, stderr=subprocess.STDOUT)

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it printed."""
        try:
            code = self.process.wait(timeout=BALANCED_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        return code, self.log.read_text(errors="replace")[-4000:]


def used(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Bytes of blocks and of the disk of each DataNode, by its address."""
    [info] = json.loads(page(cluster.http_port, "/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"))["beans"]
    return {name: (node["usedSpace"], node["capacity"]) for name, node in json.loads(info["LiveNodes"]).items()}


def spread(cluster: Cluster) -> list[float]:
    """How many per cent each DataNode differs from the mean."""
    found = used(cluster).values()
    mean = 100 * sum(bytes for bytes, _ in found) / sum(capacity for _, capacity in found)
    return sorted(abs(100 * bytes / capacity - mean) for bytes, capacity in found)


def places(report: str) -> list[tuple[bool, list[str], list[str]]]:
    """Of each block in what `fsck -racks` says: whether it is a group, its DataNodes and their racks."""
    found = []
    for line in report.splitlines():
        if re.match(r"\d+\. BP-", line):
            nodes = re.findall(r"(/[^/\s\[\],]+)/(\d+\.\d+\.\d+\.\d+:\d+)", line)
            found.append(("blk_-" in line, [node for _, node in nodes], [rack for rack, _ in nodes]))
    return found


def well_placed(cluster: Cluster, what: str):
    """Each block has all of its copies or units, on as many DataNodes, and copies are on two racks."""
    healthy = [" Under-replicated blocks:\t0 (0.0 %)\n", " Over-replicated blocks:\t0 (0.0 %)\n", "is HEALTHY"]
    cluster.until(f"all copies are there {what}", ["fsck", "/"], 0, *healthy)
    report = cluster.shell("fsck", "/", "-files", "-blocks", "-racks")[1].decode()
    blocks = places(report)
    wrong = [block for block in blocks if len(set(block[1])) != (5 if block[0] else 3) or len(block[1]) != len(set(block[1])) or len(set(block[2])) < 2]
    groups = sum(is_group for is_group, _, _ in blocks)
    cluster.findings.right(f"blocks and groups stand well {what}", not wrong and groups > 0 and len(blocks) > groups, (wrong, report[-2000:]))


def same(cluster: Cluster, content: dict[str, bytes], what: str):
    """Each file has its bytes, and copies of a block are equal."""
    lost = [path for path, sent in content.items() if cluster.shell.got(path, cluster.servers.folder / "got") != (0, sent)]
    cluster.findings.right(f"{len(content)} files are what they were {what}", not lost, lost)
    cluster.findings.right(f"copies are equal {what}", not (unequal := cluster.servers.unequal()), unequal)


def filled(cluster: Cluster) -> dict[str, bytes]:
    """Files that fill the DataNodes that are there to some 45 per cent."""
    cluster.says("-mkdir", ["-mkdir", "-p", "/whole", "/coded"], 0)
    cluster.says("-enablePolicy", ["ec", "-enablePolicy", "-policy", POLICY], 0)
    cluster.says("-setPolicy", ["ec", "-setPolicy", "-path", "/coded", "-policy", POLICY], 0)
    content = {}
    for number in range(8):
        for folder in ["whole", "coded"]:
            path = f"/{folder}/{number}"
            # The last group of a coded one has a byte in each of its units.
            content[path] = cluster.put(path, 8 * MIB + 1 + number, f"-Ddfs.blocksize={MIB}")
    return content


def moved(cluster: Cluster, names: list[str], least: int) -> int:
    """Bytes that these DataNodes have, once they are so many."""
    found = sum(bytes for name, (bytes, _) in used(cluster).items() if name in names)
    if found < least:
        raise OSError(f"{found} bytes")
    return found


def all_there(cluster: Cluster):
    """Raises an error while a DataNode is missing."""
    if len(used(cluster)) < FULL + EMPTY:
        raise OSError(f"{len(used(cluster))} are there")


def balances(findings: Findings, folder: pathlib.Path):
    [http_port] = free_ports(1)
    settings = NO_CACHE | {"dfs.namenode.http-address": f"127.0.0.1:{http_port}"}
    with Servers(folder, FULL + EMPTY, DISK_BYTES, ("--http-port", str(http_port)), idle=EMPTY) as servers, Shell(servers.address, settings=settings) as shell:
        cluster = Cluster(findings, servers, shell, http_port)
        content = filled(cluster)
        empty = [f"datanode{number}" for number in range(FULL, FULL + EMPTY)]
        addresses = []
        for name in empty:
            servers.start(name)
            words = servers.arguments[name]
            addresses.append(f"127.0.0.1:{words[words.index('--port') + 1]}")
        wait_until(lambda: all_there(cluster), "all DataNodes")
        findings.right("they are filled unevenly", spread(cluster)[-1] > 2 * THRESHOLD, spread(cluster))
        cluster.says("-setBalancerBandwidth", ["dfsadmin", "-setBalancerBandwidth", BANDWIDTH], 0)
        time.sleep(3)  # DataNodes hear it with their heartbeats
        balancer = Balancer(servers.address, folder / "balancer.log")
        wait_until(lambda: moved(cluster, addresses, 2 * MIB), "the first moves", seconds=60)
        began, before = time.monotonic(), moved(cluster, addresses, 0)
        code, printed = Balancer(servers.address, folder / "second.log").ended()
        findings.right("a second balancer does not run", code != 0 and "Another Balancer is running" in printed, (code, printed))
        rate = (moved(cluster, addresses, 0) - before) / (time.monotonic() - began)
        # A heartbeat more or less is in what the NameNode knows.
        findings.right("moves are as fast as they may be", 0 < rate < 1.5 * EMPTY * BANDWIDTH, f"{rate / MIB:.1f} MiB/s")
        findings.right("it still runs", balancer.process.poll() is None, balancer.log.read_text()[-2000:])
        servers.kill(empty[0])
        servers.start(empty[0])
        code, printed = balancer.ended()
        findings.right("the balancer ends well though a DataNode was killed", code == 0, (code, printed))
        well_placed(cluster, "after a kill")
        same(cluster, content, "after a kill")
        cluster.says("-setBalancerBandwidth", ["dfsadmin", "-setBalancerBandwidth", 100 * MIB], 0)
        code, printed = Balancer(servers.address, folder / "balancer.log").ended()
        findings.right("the cluster is balanced", code == 0 and "The cluster is balanced" in printed, (code, printed))
        # DataNodes hear with their heartbeats what is to go.
        deadline = time.monotonic() + 30
        while spread(cluster)[-1] > THRESHOLD and time.monotonic() < deadline:
            time.sleep(0.5)
        findings.right("all are filled evenly", spread(cluster)[-1] <= THRESHOLD, spread(cluster))
        well_placed(cluster, "at the end")
        same(cluster, content, "at the end")
        cluster.says("its file is gone", ["-test", "-e", "/system/balancer.id"], 1)


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    if os.geteuid() != 0:
        print("skipped: only root can mount a file system for each DataNode")
        return 0
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="balancer-") as place:
        balances(findings, pathlib.Path(place))
    return findings.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
