"""PySpark 3.5.9 with the stock client against ours, each answer compared with Spark's own shuffle.

Usage: stock_spark.py [--scale N] [--replicate] [--dynamic] [--speculation] [--conf K=V]… [--only JOB,…]
exits 1 if an answer differs
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import fetch
from cluster import Cluster
from harness import ending, free_ports

HERE = pathlib.Path(__file__).parent
JOBS = ["thousand_partitions", "group_by", "skew_join", "local_reader", "large_rows", "hot_partition", "sort_by_key"]
JOBS += ["cached_and_read_again", "executors_leave"]
# On request only: one says something with --speculation only, the other is for faults to happen in.
ON_REQUEST = ["speculation", "long_shuffle"]
# All queries and jobs at scale 1 take some 10 minutes.
SECONDS_MAX = 2 * 3600

# Executors leave after a second without work; their shuffles are elsewhere.
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.shuffleTracking.enabled": "false",
    "spark.shuffle.sort.io.plugin.class": "org.apache.spark.shuffle.celeborn.CelebornShuffleDataIO",
}

# A second attempt begins soon after half of a stage's tasks have ended.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
}

BASE = {
    "spark.master": os.environ.get("YEOUL_JUDGE_SPARK", "local-cluster[2,1,2048]"),
    "spark.driver.memory": "2g",
    "spark.executor.memory": "2g",
    "spark.sql.shuffle.partitions": "16",
    # A second attempt would hide what failed in the first one.
    "spark.task.maxFailures": "1",
    "spark.ui.enabled": "false",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def celeborn(endpoints: str, replicate: bool) -> dict:
    """The settings with which Spark uses a remote shuffle, and does not fall back to its own quietly."""
    jar = str(fetch.client_jar())
    return {
        "spark.shuffle.manager": "org.apache.spark.shuffle.celeborn.SparkShuffleManager",
        "spark.celeborn.master.endpoints": endpoints,
        "spark.shuffle.service.enabled": "false",
        "spark.celeborn.client.spark.shuffle.fallback.policy": "NEVER",
        "spark.celeborn.client.push.replicate.enabled": str(replicate).lower(),
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
    }


def chosen(only: str, jobs: list[str]) -> list[str]:
    """Those of the jobs that `--only` names, all if it names none."""
    wanted = only.split(",") if only else []
    names = {pathlib.Path(job).stem: job for job in jobs}
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise SystemExit(f"--only: there is no {', '.join(unknown)}; there are {', '.join(names)}")
    return [names[name] for name in wanted] or jobs


def start(conf: dict, jobs: list[str], tables: pathlib.Path, out: pathlib.Path, log: pathlib.Path) -> subprocess.Popen:
    """Starts Spark, which runs the jobs and ends."""
    return run_inside("spark_job.py", conf, tables, out, log, jobs)


def run_inside(script: str, conf: dict, tables, out, log: pathlib.Path, arguments=(), **pipes) -> subprocess.Popen:
    """Starts a script in Spark's own Python, with these settings over [`BASE`]."""
    python = fetch.venv("spark", fetch.SPARK) / "python"
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_SCALA_VERSION"] = "2.12"
    arguments = [python, HERE / script, out, tables, json.dumps(BASE | conf), *arguments]
    with open(log, "wb") as log_file:
        pipes = {"stdout": log_file, "stderr": log_file} | pipes
        return subprocess.Popen(arguments, env=environment, cwd=log.parent, start_new_session=True, **pipes)


@contextlib.contextmanager
def spark_on_two_hosts(folder: pathlib.Path):
    """The address of a Spark master with workers on two hosts, as it has to have for speculation: no second attempt of a task runs
    on the host of the first, and all executors of `local-cluster` are on one."""
    spark_class = next((fetch.venv("spark", fetch.SPARK).parent / "lib").glob("*/site-packages/pyspark/bin/spark-class"))
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    lines = [["master.Master", "--host", "127.0.0.1", "--port", str(port)]]
    for host in ["127.0.0.2", "127.0.0.3"]:
        lines.append(["worker.Worker", "--host", host, "--cores", "2", "--memory", "2g", "--work-dir", str(folder / host), master])
    with contextlib.ExitStack() as stack, open(folder / "spark-servers.log", "wb") as log:
        for name, *arguments in lines:
            line = [spark_class, f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments]
            stack.enter_context(ending(subprocess.Popen(line, stdout=log, stderr=log, start_new_session=True)))
        yield master


def results(out: pathlib.Path) -> dict:
    lines = out.read_text().splitlines() if out.exists() else []
    return {result["job"]: result for result in map(json.loads, lines)}


def expected(jobs: list[str], tables: pathlib.Path, conf: dict | None = None) -> dict:
    """The answers with Spark's own shuffle, cached between runs."""
    conf = conf or {}
    # Sail's version counts, since the queries' texts come with it.
    asked = [fetch.SPARK, fetch.SAIL, *((HERE / script).read_text() for script in ["spark_job.py", "spark_session.py"])]
    key = json.dumps([asked, BASE["spark.master"], conf], sort_keys=True)
    memory = fetch.CACHE / f"native-{tables.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsonl"
    known = results(memory)
    missing = [job for job in jobs if pathlib.Path(job).stem not in known]
    if missing:
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            log = pathlib.Path(folder) / "log"
            with ending(start(conf, missing, tables, out, log)) as spark:
                if spark.wait(SECONDS_MAX) != 0:
                    raise SystemExit(f"Spark itself failed:\n{log.read_text()[-3000:]}")
            for job, result in results(out).items():
                if "rows" not in result:
                    raise SystemExit(f"Spark itself fails in {job}: {result['error']}")
            with open(memory, "a") as lines:
                lines.write(out.read_text())
        known = results(memory)
    return known


def compare(jobs: list[str], native: dict, ours: dict) -> list[str]:
    """Prints a table of the jobs, and returns those whose answers differ."""
    wrong = []
    for name in (pathlib.Path(job).stem for job in jobs):
        mine, theirs = ours.get(name, {"error": "no answer", "seconds": 0}), native[name]
        right = "rows" in mine and mine["rows"] == theirs.get("rows")
        ratio = mine["seconds"] / max(theirs["seconds"], 0.01)
        print(f"{'ok  ' if right else 'FAIL'} {name:24} {mine['seconds']:7.2f} s {ratio:6.2f} of native", flush=True)
        if not right:
            wrong.append(name)
            print("  ", mine.get("error", "other rows")[:1500])
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--replicate", action="store_true")
    parser.add_argument("--dynamic", action="store_true", help="with dynamic allocation")
    parser.add_argument("--speculation", action="store_true", help="with second attempts of slow tasks, on two hosts")
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--memory", default="512MiB")
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    tables = fetch.tpch(options.scale)
    jobs = chosen(options.only, [*fetch.queries(), *JOBS, *ON_REQUEST]) if options.only else [*fetch.queries(), *JOBS]
    extra = dict(pair.split("=", 1) for pair in options.conf)
    native = expected(jobs, tables, {key: value for key, value in extra.items() if "celeborn" not in key})
    with Cluster(options.workers, memory=options.memory) as cluster, contextlib.ExitStack() as stack:
        out, log = cluster.folder / "out", cluster.folder / "spark.log"
        extra |= DYNAMIC if options.dynamic else {}
        if options.speculation:
            extra |= SPECULATION | {"spark.master": stack.enter_context(spark_on_two_hosts(cluster.folder))}
        with ending(start(celeborn(cluster.endpoint, options.replicate) | extra, jobs, tables, out, log)) as spark:
            spark.wait(SECONDS_MAX)
        wrong = compare(jobs, native, results(out))
        cluster.print_use()
        if wrong:
            raise SystemExit(f"{len(wrong)} wrong: {', '.join(wrong)}; Spark's log: {log}")
        cluster.check_that_workers_worked()
        cluster.check_that_nothing_failed()
        if options.replicate:
            cluster.check_that_copies_were_made()
    return 0


if __name__ == "__main__":
    sys.exit(main())
