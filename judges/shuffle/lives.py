"""An application that dies without a goodbye and comes back under its id, with the same numbers of shuffles.

Usage: lives.py [--rounds N] [sail|stock …]    exits 1 if a query got rows of an earlier life, or lost its own

sail: a Sail server is killed with -9 while a query of a Spark Connect session runs, or right after one, and started again; the
next query of the same session must have its right answer, which arithmetic gives. Sail registers when it starts.
stock: a driver with the client 0.5.4, which does not register, ends before or after its commit; the next one under its id must be
refused or right. Where it had to be refused, a driver with another id must be right.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time
import uuid

import fetch
import stock_client
from cluster import Cluster
from harness import free_ports, wait_until

HERE = pathlib.Path(__file__).parent
QUERY_SECONDS_MAX = 300
# Groups of a query's answer; as many rows go through its shuffle from each task, so that each life has rows in every partition.
GROUPS = 1000
ROWS = 200_000
# A query that is still running when the first pushes have arrived.
LONG_ROWS, LONG_GROUPS = 40_000_000, 3_000_000


def query(life: int, rows: int, groups: int) -> str:
    """Counts and sums of numbers that no other life has."""
    first = life * LONG_ROWS
    return f"SELECT id % {groups} AS k, count(*) AS n, sum(id) AS s FROM range({first}, {first + rows}) GROUP BY 1"


def answer(life: int, rows: int, groups: int) -> list[str]:
    first = life * LONG_ROWS
    of_group = lambda group: range(first + (group - first) % groups, first + rows, groups)
    return sorted(str((group, len(of_group(group)), sum(of_group(group)))) for group in range(groups))


class Sail:
    """A Sail server in cluster mode, one life after the other on one port, and a session that goes on."""

    def __init__(self, cluster: Cluster):
        self.cluster, self.log, self.port = cluster, cluster.folder / "sail.log", free_ports(1)[0]
        self.programs, self.session = fetch.venv("sail", fetch.SAIL), uuid.uuid4()
        self.empty = cluster.folder / "no-tables"
        self.empty.mkdir()
        self.server = self.client = None

    def start(self):
        settings = {
            "SAIL_MODE": "local-cluster",
            "SAIL_CLUSTER__SHUFFLE_BACKEND__TYPE": "celeborn",
            "SAIL_CLUSTER__SHUFFLE_BACKEND__CELEBORN__MASTER_ENDPOINTS": f'["{self.cluster.endpoint}"]',
        }
        with open(self.log, "ab") as log:
            arguments = [self.programs / "sail", "spark", "server", "--port", f"{self.port}"]
            self.server = subprocess.Popen(arguments, env=os.environ | settings, stdout=log, stderr=log)
        listens = lambda: socket.create_connection(("127.0.0.1", self.port)).close()
        wait_until(listens, "Sail", lambda: self.server.poll() is None)

    def kill(self):
        self.server.kill()
        self.client.kill()  # it would try to reach the server for minutes
        assert self.server.wait() == -9, f"Sail had ended before it was killed, see {self.log}"

    def ask(self, text: str) -> dict:
        """The outcome of a query in the session."""
        file, out = self.cluster.folder / "query.sql", self.cluster.folder / "out"
        file.write_text(text)
        out.unlink(missing_ok=True)
        remote = f"sc://127.0.0.1:{self.port}/;session_id={self.session}"
        job = [self.programs / "python", HERE / "sail_job.py", out, self.empty, remote, file]
        with open(self.log, "ab") as log:
            self.client = subprocess.Popen(job, stdout=log, stderr=log)
        ended = self.client.wait(QUERY_SECONDS_MAX)
        if ended != 0 or not out.exists():
            return {"error": f"the client ended with {ended}, see {self.log}"}
        return json.loads(out.read_text())


def bytes_written(cluster: Cluster) -> float:
    """Batches that the workers have taken."""
    return sum(cluster.count(worker, "WriteDataSuccessCount") for worker in cluster.workers)


def shuffles(cluster: Cluster) -> list[str]:
    return cluster.get("/api/v1/shuffles")["shuffleIds"]


def removed(cluster: Cluster) -> int:
    """How many shuffles of earlier lives the master has removed."""
    text = cluster.master.log.read_text()
    return sum(int(count) for count in re.findall(r"came back: the shuffles of its earlier life are removed.*removed=(\d+)", text))


def check(outcome: dict, life: int, when: str):
    if outcome.get("rows") != answer(life, ROWS, GROUPS):
        raise SystemExit(f"life {life}, after a kill {when}: wrong: {str(outcome)[:500]}")


def sail(rounds: int):
    with Cluster(2) as cluster:
        server = Sail(cluster)
        server.start()
        with contextlib.ExitStack() as at_end:
            at_end.callback(lambda: server.server.kill())
            check(server.ask(query(0, ROWS, GROUPS)), 0, "that has not happened")
            life = 0
            for _ in range(rounds):
                for when in ["in the middle of a query", "right after a query"]:
                    if when == "in the middle of a query":
                        before = bytes_written(cluster)
                        long = threading.Thread(target=server.ask, args=[query(life, LONG_ROWS, LONG_GROUPS)])
                        long.start()
                        deadline = time.monotonic() + QUERY_SECONDS_MAX
                        while bytes_written(cluster) < before + 4:
                            assert time.monotonic() < deadline and long.is_alive(), f"nothing was pushed, see {server.log}"
                            time.sleep(0.02)
                        assert long.is_alive(), "the query had ended before the kill"
                    left, removed_before = shuffles(cluster), removed(cluster)
                    server.kill()
                    if when == "in the middle of a query":
                        assert left, "no shuffle was registered when the server was killed"
                        long.join()
                    server.start()
                    life += 1
                    begin = time.monotonic()
                    check(server.ask(query(life, ROWS, GROUPS)), life, when)
                    count = removed(cluster) - removed_before
                    if left and not count:
                        raise SystemExit(f"right, but the master did not remove what was left: {left}")
                    print(f"ok   sail, killed {when}: {len(left)} shuffles left, {count} removed, {time.monotonic() - begin:.1f} s", flush=True)
        cluster.check_that_workers_worked()
        cluster.check_that_nothing_failed()


def stock(rounds: int):
    refused = right = 0
    with Cluster(2) as cluster:
        for turn in range(rounds):
            for die in [1, 2]:
                app, shape = f"again-{turn}-{die}", ["shuffles=1", "maps=3", "partitions=16"]
                first = stock_client.run(cluster.endpoint, [f"app={app}", "seed=1", f"die={die}", *shape])
                assert first.returncode == 9, f"the first driver did not die as it should:\n{first.stdout}{first.stderr[-2000:]}"
                assert any(name.startswith(app) for name in shuffles(cluster)), "it left nothing"
                second = stock_client.run(cluster.endpoint, [f"app={app}", "seed=2", *shape])
                is_right = second.returncode == 0 and second.stdout.endswith("OK\n")
                text = second.stdout + second.stderr
                # A wrong row is an IllegalStateException of the judge's own, which names the place.
                if re.search(r"IllegalStateException: shuffle \d+ partition", text):
                    raise SystemExit(f"the second driver read wrong rows:\n{text[-3000:]}")
                if not is_right and "RESERVE_SLOTS_FAILED" not in text:
                    raise SystemExit(f"the second driver failed for another reason:\n{text[-3000:]}")
                refused, right = refused + (not is_right), right + is_right
                other = stock_client.run(cluster.endpoint, [f"app={app}-other", "seed=3", *shape])
                if other.returncode != 0:
                    raise SystemExit(f"another application failed, too:\n{other.stdout}{other.stderr[-3000:]}")
                what = "right" if is_right else "refused"
                print(f"ok   stock client, first driver ended {'after' if die == 1 else 'before'} its commit: the second is {what}", flush=True)
        said = sum(worker.log.read_text().count("may be of an earlier life of the application") for worker in cluster.workers)
    if not said:
        raise SystemExit("no worker met an earlier life: that proves nothing")
    print(f"{refused} refused, {right} right")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("clients", nargs="*", default=["sail", "stock"])
    options = parser.parse_args()
    for client in options.clients:
        {"sail": sail, "stock": stock}[client](options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
