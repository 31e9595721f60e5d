"""Executors of `yeoul cluster` killed with kill -9 while queries run: each answer has to be that of one process.

A scheduler, three executors and a shuffle of three workers run on this machine, over files of a star schema, or with --tpcds over the
benchmark's. Beside each query, one executor is killed at a random moment and started anew, and beside one of four a worker of the shuffle,
too. The answers of `yeoul sql` without a cluster are the right ones; rows of
equal rank may come in another order. A query that fails, that answers otherwise or that has no answer in time ends the judge with 1.
"""

import argparse
import contextlib
import json
import pathlib
import random
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "shuffle"))
import cluster as shuffle
import harness

EXECUTORS, WORKERS = 3, 3
# One of so many queries has a worker of the shuffle killed, too.
WORKER_KILLED_EVERY = 4
# Seconds within which an executor listens, and within which a query has an answer.
STARTED_WITHIN, ANSWERED_WITHIN = 30, 120

# What an executor says when a map that it is to run has run before.
LOOKED_UP = "a map was looked up"

FOLDERS = {
    "sales": "SELECT value AS id, value * 7919 % 1000 AS item, value * 31 % 730 AS day, value % 97 * 1.25 AS price, "
    "CASE WHEN value % 13 = 0 THEN NULL ELSE value % 5000 END AS customer FROM generate_series({from}, {to}) AS g(value)",
    "items": "SELECT value AS item, 'item ' || value AS name, value % 12 AS class FROM generate_series(0, 999) AS g(value)",
    "customers": "SELECT value AS customer, value % 50 AS region FROM generate_series(0, 4999) AS g(value)",
}
SALES_FILES, SALES_ROWS = 8, 150_000

QUERIES = [
    "SELECT class, count(*) AS n, sum(price) AS s FROM sales JOIN items USING (item) GROUP BY class ORDER BY class",
    "SELECT region, class, count(DISTINCT id) AS n FROM sales JOIN items USING (item) JOIN customers USING (customer) "
    "GROUP BY region, class ORDER BY n DESC, region, class LIMIT 50",
    "SELECT day, sum(price) AS s, sum(sum(price)) OVER (ORDER BY day) AS running FROM sales GROUP BY day ORDER BY day",
    "SELECT count(*) AS n FROM sales AS a WHERE EXISTS (SELECT 1 FROM sales AS b WHERE b.id = a.id + 1 AND b.price > a.price)",
    "SELECT name, max(price) AS m FROM items LEFT JOIN (SELECT * FROM sales WHERE day < 3) AS s USING (item) "
    "GROUP BY name ORDER BY m DESC NULLS LAST, name LIMIT 20",
    "SELECT customer, count(*) AS n FROM (SELECT customer FROM sales WHERE day = 1 UNION ALL SELECT customer FROM customers) AS u "
    "GROUP BY customer ORDER BY n DESC, customer LIMIT 100",
]


def command(*arguments: str) -> list[str]:
    return [harness.binary(), *arguments]


class Cluster(harness.Servers):
    """A scheduler with executors, and a shuffle if there is one."""

    def __init__(self, service: shuffle.Cluster | None):
        super().__init__()
        self.port, *ports = harness.free_ports(1 + 2 * EXECUTORS)
        log = self.folder / "log"
        scheduler = command("cluster", "scheduler", "--port", str(self.port), "--http-port", "0")
        if service:
            scheduler += ["--shuffle", service.endpoint, "--shuffle-port", "0"]
        self.scheduler = harness.Process("scheduler", scheduler, log, self.port, self.port)
        self.answers(self.scheduler, self.port)
        self.executors = []
        for number in range(EXECUTORS):
            port, control = ports[2 * number : 2 * number + 2]
            spill = self.folder / f"executor-{number}"
            spill.mkdir()
            options = ["--port", str(port), "--control-port", str(control), "--threads", "1", "--spill-dir", str(spill)]
            executor = command("cluster", "executor", "--scheduler", f"127.0.0.1:{self.port}", *options)
            self.executors.append(harness.Process(f"executor {number}", executor, log, port, port))
        for executor in self.executors:
            self.answers(executor, executor.port)

    def answers(self, process: harness.Process, port: int):
        harness.wait_until(lambda: listens(port), process.name, process.alive, STARTED_WITHIN)

    def servers(self):
        return [self.scheduler, *self.executors]


def listens(port: int):
    socket.create_connection(("127.0.0.1", port), timeout=1).close()


def written(folder: pathlib.Path) -> tuple[str, list[str]]:
    """Views of a star schema whose files are written to `folder`, and queries of it."""
    copies = []
    for table, rows in FOLDERS.items():
        (folder / table).mkdir(parents=True)
        for part in range(SALES_FILES if table == "sales" else 1):
            bounds = {"from": part * SALES_ROWS, "to": (part + 1) * SALES_ROWS - 1}
            copies.append(f"COPY ({rows.format(**bounds)}) TO '{folder}/{table}/{part}.parquet';")
    subprocess.run(command("sql", "-q", "-c", "\n".join(copies)), check=True, stdout=subprocess.DEVNULL)
    views = "".join(f"CREATE VIEW {table} AS SELECT * FROM '{folder}/{table}/*.parquet';\n" for table in FOLDERS)
    return views, QUERIES


def tpcds() -> tuple[str, list[str]]:
    """Views of the benchmark's tables at scale 0.1, which it makes, and its queries."""
    subprocess.run(command("bench", "tpcds", "--scale", "0.1", "--runs", "1", "--queries", "1"), check=True)
    folder = harness.CACHE / "data" / "tpcds-0.1"
    tables = sorted(file.stem for file in folder.glob("*.parquet"))
    views = "".join(f"CREATE VIEW {table} AS SELECT * FROM '{folder}/{table}.parquet';\n" for table in tables)
    script = pathlib.Path(__file__).parents[2] / "crates" / "bench" / "peers" / "queries.py"
    python = harness.venv("tpcds", ["duckdb==1.5.5", "duckdb-extension-tpcds==1.5.5"]) / "python"
    texts = json.loads(subprocess.run([python, script, "tpcds"], check=True, capture_output=True, text=True).stdout)
    return views, [query["sql"] for query in texts]


def rows(text: str) -> list[str]:
    """Rows of an answer, in any order, with numbers to six digits: sums of floats depend on the order of their parts."""

    def cell(value: str) -> str:
        try:
            return f"{float(value):.6g}"
        except ValueError:
            return value

    return sorted(",".join(cell(value) for value in line.split(",")) for line in text.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=200, help="how many queries, each with a kill [default: 200]")
    parser.add_argument("--tpcds", action="store_true", help="TPC-DS at scale 0.1 instead of a star schema of our own")
    parser.add_argument("--without-shuffle", action="store_true", help="rows between stages on the disks of executors")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    chance = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    with contextlib.ExitStack() as opened:
        service = None if options.without_shuffle else opened.enter_context(shuffle.Cluster(WORKERS))
        cluster = opened.enter_context(Cluster(service))
        views, queries = tpcds() if options.tpcds else written(cluster.folder / "data")
        answers, counts = {}, {"right": 0, "wrong": 0, "failed": 0, "hanging": 0}
        alone = command("sql", "-q", "--format", "csv", "-c")
        there = command("sql", "-q", "--format", "csv", "--cluster", f"127.0.0.1:{cluster.port}", "--shared-paths", "-c")
        for number in range(options.queries):
            sql = views + (queries[number % len(queries)] if options.queries >= len(queries) else chance.choice(queries))
            if sql not in answers:
                begin = time.monotonic()
                answer = subprocess.run([*alone, sql], check=True, capture_output=True, text=True).stdout
                answers[sql] = rows(answer), time.monotonic() - begin
            right, seconds = answers[sql]
            asked = subprocess.Popen([*there, sql], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            # A query takes some times as long there.
            time.sleep(chance.uniform(0, 3 * seconds + 0.3))
            executor = chance.choice(cluster.executors)
            executor.kill()
            executor.start()
            worker = chance.choice(service.workers) if service and number % WORKER_KILLED_EVERY == 0 else None
            if worker:
                worker.kill()
            begin = time.monotonic()
            try:
                found, error = asked.communicate(timeout=ANSWERED_WITHIN)
            except subprocess.TimeoutExpired:
                asked.kill()
                asked.wait()
                found = None
            took = time.monotonic() - begin
            if found is None:
                counts["hanging"] += 1
                print(f"no answer in {ANSWERED_WITHIN} s: {sql}", flush=True)
            elif asked.returncode != 0:
                counts["failed"] += 1
                print(f"failed: {sql}\n{error}", flush=True)
            elif rows(found) != right:
                counts["wrong"] += 1
                print(f"wrong: {sql}\n{len(found.splitlines())} lines for {len(right)}", flush=True)
            else:
                counts["right"] += 1
                print(f"{number + 1}: right, {took:.1f} s after the kill", flush=True)
            # The next query has as many executors and workers.
            cluster.answers(executor, executor.port)
            if worker:
                worker.start()
                service.wait_until_back(worker)
        cluster.check_that_none_crashed()
        if service:
            service.check_that_none_crashed()
            print(f"{(cluster.folder / 'log').read_text(errors='replace').count(LOOKED_UP)} maps were looked up")
        print(", ".join(f"{count} {what}" for what, count in counts.items()))
        return 0 if counts["right"] == options.queries else 1


if __name__ == "__main__":
    sys.exit(main())
