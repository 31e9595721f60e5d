"""pysail 0.7.2 in local-cluster mode with its Celeborn backend against ours, compared with its local mode.

Usage: sail.py [--scale N] [--only q1,q2,…]    exits 1 if an answer differs
"""

import argparse
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import fetch
import stock_spark
from cluster import Cluster
from harness import free_ports, wait_until

HERE = pathlib.Path(__file__).parent
# The queries at scale 1 take less than a minute.
SECONDS_MAX = 1800


def run(settings: dict, queries: list[str], tables: pathlib.Path, folder: pathlib.Path) -> dict:
    """Starts a Sail server with these settings and runs the queries on it."""
    programs = fetch.venv("sail", fetch.SAIL)
    port = free_ports(1)[0]
    out = folder / "out"
    with open(folder / "sail.log", "wb") as log:
        arguments = [programs / "sail", "spark", "server", "--port", str(port)]
        server = subprocess.Popen(arguments, env=os.environ | settings, stdout=log, stderr=log)
        try:
            listens = lambda: socket.create_connection(("127.0.0.1", port)).close()
            try:
                wait_until(listens, "Sail", lambda: server.poll() is None)
            except SystemExit as reason:
                raise SystemExit(f"{reason}\n{(folder / 'sail.log').read_text()[-2000:]}") from None
            job = [programs / "python", HERE / "sail_job.py", out, tables, f"sc://127.0.0.1:{port}", *queries]
            environment = os.environ | {"PYTHONHASHSEED": "0"}
            if subprocess.run(job, stdout=log, stderr=log, env=environment, timeout=SECONDS_MAX).returncode != 0:
                raise SystemExit(f"the client of Sail failed:\n{(folder / 'sail.log').read_text()[-2000:]}")
        finally:
            server.kill()
            server.wait()
    return stock_spark.results(out)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tables = fetch.tpch(options.scale)
    queries = stock_spark.chosen(options.only, fetch.queries())
    with tempfile.TemporaryDirectory() as folder:
        local = run({"SAIL_MODE": "local"}, queries, tables, pathlib.Path(folder))
    with Cluster(2) as cluster:
        settings = {
            "SAIL_MODE": "local-cluster",
            "SAIL_CLUSTER__SHUFFLE_BACKEND__TYPE": "celeborn",
            "SAIL_CLUSTER__SHUFFLE_BACKEND__CELEBORN__MASTER_ENDPOINTS": f'["{cluster.endpoint}"]',
        }
        ours = run(settings, queries, tables, cluster.folder)
        failed_alone = [name for name, result in local.items() if "error" in result]
        for name in failed_alone:
            print(f"skip {name}: Sail itself fails: {local[name]['error'][:200]}")
        judged = [query for query in queries if pathlib.Path(query).stem not in failed_alone]
        wrong = stock_spark.compare(judged, local, ours)
        cluster.print_use()
        if wrong:
            raise SystemExit(f"{len(wrong)} wrong: {', '.join(wrong)}")
        if failed_alone:
            raise SystemExit(f"only {len(judged)} of {len(queries)} queries were judged")
        cluster.check_that_workers_worked()
        cluster.check_that_nothing_failed()
    return 0


if __name__ == "__main__":
    sys.exit(main())
