"""TestDFSIO, which writes and reads files with MapReduce's local runner, on our servers in turn with HDFS's own: a NameNode and
nine DataNodes each, all of them processes of their own; three copies, and RS-6-3.

Usage: dfsio.py [--rounds N] [--files N] [--mib N] [--warm-mib N]    exits 1 if the client fails, or our servers take more than the bars
"""

import argparse
import contextlib
import pathlib
import re
import statistics
import subprocess
import sys
import time

from cluster import Findings, Shell, binary, class_path
import harness  # noqa: E402 (the module above makes it known)
from harness import Process, free_ports
from peer import Hdfs

DATANODES = 9
MAPPERS = 2
POLICY = "RS-6-3-1024k"
LAYOUTS = ["three copies", POLICY]
# Of what HDFS's servers take: CPU time, and the sum of the most resident memory that each has had.
CPU_MAX = 0.6
MEMORY_MAX = 0.2
MIB = 1 << 20
LIVE = re.compile(r"^fs_namesystem_num_live_data_nodes (\d+)", re.MULTILINE)
# What the client says of a test.
EXECUTION = re.compile(r"Test exec time sec: *([0-9.]+)")
THROUGHPUT = re.compile(r"Throughput mb/sec: *([0-9.]+)")


class Ours(harness.Servers):
    """A NameNode and DataNodes of `yeoul dfs`. Nothing runs before `start`."""

    def __init__(self):
        super().__init__()
        self.port, self.http_port = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self.running = []

    def start(self, datanodes: int):
        self.server("namenode", ["--format", "--port", str(self.port)], self.http_port)
        for number in range(datanodes):
            data, ipc, http_port = free_ports(3)
            ports = ["--port", str(data), "--ipc-port", str(ipc)]
            self.server(f"datanode{number}", ["--namenode", self.address, *ports], http_port)
        harness.wait_until(lambda: self.check_registered(datanodes), "the cluster", self.servers()[0].alive)

    def check_registered(self, datanodes: int):
        numbers = harness.page(self.servers()[0].http_port, "/metrics/prometheus")
        found = LIVE.search(numbers)
        if not found or int(found[1]) < datanodes:
            raise OSError(f"{found[1] if found else 'no'} DataNodes have registered")

    def server(self, name: str, arguments: list[str], http_port: int):
        kind = name.rstrip("0123456789")
        line = [binary(), "dfs", kind, *arguments, "--dir", str(self.folder / name), "--http-port", str(http_port)]
        self.running.append(Process(name, line, self.folder / f"{name}.log", http_port))
        if kind == "namenode":
            harness.wait_until(lambda: harness.page(http_port, "/healthz"), "the NameNode", self.running[-1].alive)

    def servers(self) -> list[Process]:
        return self.running


def directory(layout: str) -> str:
    return "/coded" if layout == POLICY else "/copied"


def prepare(findings: Findings, servers: harness.Servers):
    with Shell(servers.address) as shell:
        for layout in LAYOUTS:
            code, printed = shell("-mkdir", directory(layout))
            findings.right(f"-mkdir {directory(layout)}", code == 0, printed)
        code, printed = shell("ec", "-setPolicy", "-path", directory(POLICY), "-policy", POLICY)
        findings.right(f"the policy {POLICY}", code == 0, printed)


def cpu(servers: harness.Servers) -> float:
    return sum(server.cpu_seconds() for server in servers.servers())


def run(servers: harness.Servers, layout: str, files: int, mib: int, verb: str) -> dict:
    """One test: seconds, and what servers took meanwhile."""
    settings = {
        "fs.defaultFS": f"hdfs://{servers.address}",
        "mapreduce.framework.name": "local",
        "mapreduce.local.map.tasks.maximum": MAPPERS,
        "hadoop.tmp.dir": servers.folder / "tmp",
        "test.build.data": f"{directory(layout)}/TestDFSIO",
    }
    result = servers.folder / "result"
    result.unlink(missing_ok=True)
    flags = [f"-D{key}={value}" for key, value in settings.items()]
    size = ["-nrFiles", str(files), "-size", f"{mib}MB", "-resFile", str(result)]
    command = ["java", "-Xmx1g", "-cp", class_path(), "org.apache.hadoop.fs.TestDFSIO", *flags, verb, *size]
    before, began = cpu(servers), time.monotonic()
    ended = subprocess.run(command, cwd=servers.folder, capture_output=True, text=True, timeout=1800)
    seconds = time.monotonic() - began
    taken = cpu(servers) - before
    if verb == "-clean":
        return {}
    said = result.read_text() if result.exists() else ""
    if ended.returncode != 0 or not EXECUTION.search(said):
        raise SystemExit(f"TestDFSIO {verb} fails: {ended.stdout[-1000:]}{ended.stderr[-3000:]}")
    found = {"seconds": seconds, "cpu": taken, "test": float(EXECUTION.search(said)[1])}
    return found | {"throughput": float(THROUGHPUT.search(said)[1])}


def said(found: list[dict], key: str, form: str) -> str:
    values = [one[key] for one in found]
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--mib", type=int, default=256, help="bytes of each file, in MiB")
    parser.add_argument("--warm-mib", type=int, default=256, help="the same in the first round, which does not count, at most")
    options = parser.parse_args()
    findings = Findings()
    with contextlib.ExitStack() as stack:
        all_servers = {"ours": stack.enter_context(Ours()), "HDFS": stack.enter_context(Hdfs())}
        for servers in all_servers.values():
            servers.start(DATANODES)
            prepare(findings, servers)
        found = {(name, layout, verb): [] for layout in LAYOUTS for verb in ["-write", "-read"] for name in all_servers}
        # The first round warms up both, HDFS's compilers above all.
        for number in range(options.rounds + 1):
            mib = options.mib if number > 0 else min(options.mib, options.warm_mib)
            for layout in LAYOUTS:
                for verb in ["-write", "-read"]:
                    for name, servers in all_servers.items():
                        one = run(servers, layout, options.files, mib, verb)
                        print(f"round {number}, {mib} MiB each, {layout}, {verb[1:]}, {name}: {one['test']:.1f} s, {one['cpu']:.1f} CPU-s", flush=True)
                        if number > 0:
                            found[name, layout, verb].append(one)
                for servers in all_servers.values():
                    run(servers, layout, options.files, mib, "-clean")
        for layout in LAYOUTS:
            for verb in ["-write", "-read"]:
                for name in all_servers:
                    one = found[name, layout, verb]
                    print(
                        f"{layout}, {verb[1:]}, {name}: test {said(one, 'test', '.1f')} s, {said(one, 'throughput', '.0f')} MB/s, "
                        f"with the client's start {said(one, 'seconds', '.1f')} s; servers {said(one, 'cpu', '.1f')} CPU-s",
                        flush=True,
                    )
            both = [sum(statistics.median(one["cpu"] for one in found[name, layout, verb]) for verb in ["-write", "-read"]) for name in all_servers]
            ratio = both[0] / both[1]
            findings.right(f"{layout}: {ratio:.2f} of the CPU time of HDFS's servers, at most {CPU_MAX}", ratio <= CPU_MAX)
        memory = {name: [server.rss_max() for server in servers.servers()] for name, servers in all_servers.items()}
        for name, most in memory.items():
            datanodes = sorted(one // MIB for one in most[1:])
            print(f"{name}: NameNode {most[0] // MIB} MiB at most, DataNodes {datanodes[0]} to {datanodes[-1]} MiB, all {sum(most) // MIB} MiB")
        ratio = sum(memory["ours"]) / sum(memory["HDFS"])
        findings.right(f"{ratio:.3f} of the memory of HDFS's servers, at most {MEMORY_MAX}", ratio <= MEMORY_MAX)
        for servers in all_servers.values():
            servers.check_that_none_crashed()
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
