"""Faults under a running job (bar 5): each run is a new cluster, one job, and one fault that is proven to have happened.

Usage: faults.py FAULT [--runs N] [--with spark|client] [--seed S]    exits 1 if an answer was wrong

FAULT: kill-replicated   kill -9 of a random worker, with replication: right answers
       kill-alone        the same without: right answers, or an error that says that data was lost
       master            kill -9 of the master, started again: right answers
       master-lost       the same, and its journal is gone: right answers, as workers and drivers tell what it knew
       stop              a worker stopped gracefully and started again: right answers
       disk-full         one worker's directory is a 64 MiB tmpfs: right answers
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import fetch
import stock_spark
from cluster import Cluster

FAULTS = ["kill-replicated", "kill-alone", "master", "master-lost", "stop", "disk-full"]

# What a client says when data is gone: a failed fetch, or a commit that could not find a copy. It may say so in any run, but
# one in which nobody ever gets an answer has another reason.
LOSS = ["SHUFFLE_DATA_LOST", "FetchFailed", "CelebornIOException", "PartitionUnRetryAbleException", "createPartitionReader"]
SAID = "the job failed and said what was lost"

# The file system of a worker whose disk fills up.
FULL_BYTES = 64 << 20
# Rows of a shuffle that fill it, and the memory of all workers.
FULL_ROWS = 2_400_000

ROUND_ROBIN = pathlib.Path(__file__).parent / "round-robin.conf"

# A dead worker's connection is refused at once; the client need not wait for 15 s between its tries.
QUICK_RETRIES = {"celeborn.client.fetch.retryWait": "1s", "celeborn.data.io.retryWait": "1s"}


class SparkJob:
    """`long_shuffle` in Spark, a minute and more."""

    @staticmethod
    def prepare(turns: int, rows: int = 480_000):
        """What the job works on, and what it must answer."""
        conf = {"spark.judge.turns": str(turns), "spark.judge.rows": str(rows), "spark.master": "local-cluster[2,1,1024]"}
        conf |= {"spark.executor.memory": "1g", "spark.driver.memory": "1g"}
        tables = fetch.tpch(0.01)
        return tables, conf, stock_spark.expected(["long_shuffle"], tables, conf)["long_shuffle"]["rows"]

    def __init__(self, cluster: Cluster, replicate: bool, *size: int):
        self.tables, conf, self.expected = self.prepare(*size)
        self.out, self.log = cluster.folder / "out", cluster.folder / "spark.log"
        conf |= stock_spark.celeborn(cluster.endpoint, replicate)
        conf |= {"spark.task.maxFailures": "8", "spark.stage.maxConsecutiveAttempts": "8"}
        conf |= {"spark.celeborn.client.spark.fetch.throwsFetchFailure": "true"}
        conf |= {f"spark.{key}": value for key, value in QUICK_RETRIES.items()}
        self.process = stock_spark.start(conf, ["long_shuffle"], self.tables, self.out, self.log)
        self.span = (0, 25 * size[0])

    def outcome(self) -> tuple[bool, str]:
        self.process.wait(900)
        result = stock_spark.results(self.out).get("long_shuffle", {"error": self.log.read_text()[-2000:]})
        return result.get("rows") == self.expected, result.get("error", "other rows")


class ClientJob:
    """The stock client without Spark: three shuffles of known bytes."""

    @staticmethod
    def prepare(turns: int):
        fetch.compiled(pathlib.Path(__file__).parent / "StockClient.java")

    def __init__(self, cluster: Cluster, replicate: bool, turns: int):
        classes = fetch.compiled(pathlib.Path(__file__).parent / "StockClient.java")
        self.log = cluster.folder / "client.log"
        arguments = [f"master={cluster.endpoint}", f"replicate={str(replicate).lower()}", f"shuffles={turns}"]
        arguments += ["maps=8", "partitions=12", "records=30", "size=20000", "pause=40"]
        arguments += [f"{key}={value}" for key, value in QUICK_RETRIES.items()]
        with open(self.log, "wb") as log:
            java = ["java", "-Xmx1g", "-cp", f"{classes}:{fetch.jars()}/*", "StockClient", *arguments]
            self.process = subprocess.Popen(java, stdout=log, stderr=log, start_new_session=True)
        self.span = (0, 3 * turns)

    def outcome(self) -> tuple[bool, str]:
        self.process.wait(900)
        text = self.log.read_text()
        return self.process.returncode == 0 and text.endswith("OK\n"), text[-3000:]


def run(fault: str, job_kind, chance: random.Random, turns: int) -> tuple[bool, str]:
    replicate = fault not in ("kill-alone", "disk-full")
    options = {}
    if fault == "disk-full":
        # What is shuffled is to go to disk, and as much to this one as to the large ones.
        options = {"memory": "64MiB", "master_arguments": ["--conf", ROUND_ROBIN]}
    with Cluster(3, **options) as cluster:
        if fault == "disk-full":
            return disk_full(cluster)
        job = job_kind(cluster, replicate, turns)
        try:
            return strike(fault, cluster, job, chance)
        finally:
            end(job)


def strike(fault: str, cluster: Cluster, job, chance: random.Random) -> tuple[bool, str]:
    """One fault while the job runs, and what came of it."""
    # The clock starts with the first shuffle, so that the fault falls into the job and not into its start.
    while not cluster.get("/api/v1/shuffles")["shuffleIds"] and job.process.poll() is None:
        time.sleep(0.05)
    moment = chance.uniform(*job.span)
    begin = time.monotonic()
    while time.monotonic() - begin < moment and job.process.poll() is None:
        time.sleep(0.05)
    if job.process.poll() is not None:
        return job.outcome()[0], "NOT FIRED: the job had ended before the fault"
    if fault in ("master", "master-lost"):
        cluster.master.kill()
        if fault == "master-lost":
            shutil.rmtree(directory(cluster.master))
        time.sleep(chance.uniform(0, 1))
        cluster.master.start()
        what = "master"
    else:
        victim = chance.choice(cluster.workers)
        what = victim.name
        if fault == "stop":
            code = victim.stop()
            if code != 0:
                return False, f"{what} at {moment:.1f} s: the graceful stop ended with {code}"
            time.sleep(chance.uniform(0, 1))
            victim.start()
        else:
            victim.kill()
    right, error = job.outcome()
    if not right and fault == "kill-alone" and any(word in error for word in LOSS):
        return True, f"{what} at {moment:.1f} s: {SAID}"
    return right, f"{what} at {moment:.1f} s{'' if right else ': ' + error}"


def end(job):
    """Nothing of a job that hangs stays beside the next one."""
    if job.process.poll() is None:
        os.killpg(job.process.pid, signal.SIGKILL)
        job.process.wait()


def directory(server) -> pathlib.Path:
    """Where a server keeps what outlives it."""
    return pathlib.Path(server.command_line[server.command_line.index("--dir") + 1])


def disk_full(cluster: Cluster) -> tuple[bool, str]:
    """Worker 0 comes back on a file system of 64 MiB, which a job of Spark is to fill."""
    victim = cluster.workers[0]
    folder = directory(victim)
    victim.kill()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "none", folder], check=True)
    try:
        victim.start()
        time.sleep(3)
        job = SparkJob(cluster, False, 1, FULL_ROWS)
        least_free = FULL_BYTES
        while job.process.poll() is None:
            space = os.statvfs(folder)
            least_free = min(least_free, space.f_bavail * space.f_frsize)
            time.sleep(0.05)
        right, error = job.outcome()
        fired = "" if "it is full" in victim.log.read_text() else "NOT FIRED: "
        return right, f"{fired}at times {least_free >> 20} of 64 MiB were free{'' if right else ': ' + error}"
    finally:
        victim.process.kill()
        victim.process.wait()
        subprocess.run(["umount", "-l", folder])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--with", dest="job", choices=["spark", "client"], default="spark")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--parallel", type=int, default=3, help="runs at a time, each with a cluster of its own")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    kind = {"spark": SparkJob, "client": ClientJob}[options.job]
    kind.prepare(options.turns)
    wrong = fired = lost = 0

    def one(turn: int) -> tuple[int, float, bool, str]:
        begin = time.monotonic()
        try:
            right, what = run(options.fault, kind, random.Random(options.seed + turn), options.turns)
        except Exception as error:  # the other runs are to end, too
            right, what = False, repr(error)
        return turn, time.monotonic() - begin, right, what

    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        for turn, seconds, right, what in pool.map(one, range(options.runs)):
            fired += not what.startswith("NOT FIRED")
            wrong += not right
            lost += what.endswith(SAID)
            print(f"{'ok  ' if right else 'FAIL'} {options.fault} {turn} {seconds:6.1f} s {what}", flush=True)
    print(f"{options.runs - wrong} of {options.runs} right, {fired} faults happened")
    if lost and lost == options.runs > 1:
        print("no run had an answer: that is no loss of data")
        return 1
    return 1 if wrong or fired < options.runs else 0


if __name__ == "__main__":
    sys.exit(main())
