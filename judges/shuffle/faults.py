"""Faults under a running job: each run is a new cluster, one job, and one fault that is proven to have happened.

Usage: faults.py FAULT [--runs N] [--with spark|client] [--seed S]    exits 1 if an answer was wrong, or a fault did not happen

FAULT: kill-replicated   kill -9 of a random worker, with replication: right answers
       kill-alone        the same without: right answers, or an error that says which data was lost, but not in most runs
       master            kill -9 of the master, started again: right answers
       master-lost       the same, and its journal is gone: right answers, as workers and drivers tell what it knew
       stop              a worker stopped gracefully and started again, with replication: right answers
       stop-alone        the same without, so that everything that the worker had must be there again: right answers
       disk-full         one worker's directory is a 64 MiB tmpfs: right answers
       rot-replicated    bits flip in what a random worker has on disk, with replication: right answers
       rot-alone         the same on all workers, without: right answers, or an error that says which data was lost, but not in
                         most runs

Every run also checks that no server crashed, and that the fault did what it is about: a stopped worker says that everything is
on disk and comes back with it, a killed master finds its shuffles in the journal, a worker meets a flipped bit.
"""

import argparse
import collections.abc
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import fetch
import stock_client
import stock_spark
from cluster import Cluster, Process, page
from harness import end, wait_until

# What a client says when data is gone: a failed fetch, or a commit that could not find a copy. Spark then writes it again, so
# that most runs have an answer all the same.
LOSS = ["SHUFFLE_DATA_LOST", "FetchFailed", "PartitionUnRetryAbleException"]

# Next to others, a job takes one or two minutes, and half a minute until its first shuffle.
JOB_SECONDS_MAX = 900
START_SECONDS_MAX = 180

# The file system of a worker whose disk fills up.
FULL_BYTES = 64 << 20
# Memory per worker, and rows of a shuffle, with which it goes to disk and fills that file system.
SMALL_MEMORY, SPILLED_ROWS = "64MiB", 2_400_000
# What a worker logs about bytes that are not those that were pushed.
ROT = "does not match its checksum"
# The time between two flips in each segment, until a worker has read a flipped bit.
FLIP_SECONDS = 0.5

ROUND_ROBIN = pathlib.Path(__file__).parent / "round-robin.conf"

# A dead worker's connection is refused at once; the client need not wait for 15 s between its retries.
QUICK_RETRIES = {"celeborn.client.fetch.retryWait": "1s", "celeborn.data.io.retryWait": "1s"}
# Enough retries of a read to wait for a worker that is being restarted: there is no other copy.
MANY_RETRIES = {"celeborn.client.fetch.maxRetriesForEachReplica": "30"}


class SparkJob:
    """`long_shuffle` in Spark, for a minute or more."""

    @staticmethod
    def prepare(turns: int, rows: int = 480_000):
        """The job's tables and settings, and its right answer."""
        conf = {"spark.judge.turns": str(turns), "spark.judge.rows": str(rows), "spark.master": "local-cluster[2,1,1024]"}
        conf |= {"spark.executor.memory": "1g", "spark.driver.memory": "1g"}
        tables = fetch.tpch(0.01)
        return tables, conf, stock_spark.expected(["long_shuffle"], tables, conf)["long_shuffle"]["rows"]

    def __init__(self, cluster: Cluster, *size: int, replicate: bool, may_lose: bool):
        self.tables, conf, self.expected = self.prepare(*size)
        self.out, self.log = cluster.folder / "out", cluster.folder / "spark.log"
        conf |= stock_spark.celeborn(cluster.endpoint, replicate)
        conf |= {"spark.task.maxFailures": "8", "spark.stage.maxConsecutiveAttempts": "8"}
        # Off where nothing may be lost: a stage that runs again would hide the loss behind a right answer.
        conf |= {"spark.celeborn.client.spark.fetch.throwsFetchFailure": str(may_lose).lower()}
        retries = QUICK_RETRIES if replicate or may_lose else QUICK_RETRIES | MANY_RETRIES
        conf |= {f"spark.{key}": value for key, value in retries.items()}
        self.process = stock_spark.start(conf, ["long_shuffle"], self.tables, self.out, self.log)
        self.span = (0, 25 * size[0])

    def outcome(self) -> tuple[bool, str]:
        self.process.wait(JOB_SECONDS_MAX)
        result = stock_spark.results(self.out).get("long_shuffle", {"error": self.log.read_text()[-2000:]})
        return result.get("rows") == self.expected, result.get("error", "other rows")


class ClientJob:
    """The stock client without Spark: shuffles of known bytes."""

    @staticmethod
    def prepare(turns: int):
        stock_client.classes()

    def __init__(self, cluster: Cluster, turns: int, *, replicate: bool, may_lose: bool):
        self.log = cluster.folder / "client.log"
        arguments = [f"replicate={str(replicate).lower()}", f"shuffles={turns}"]
        arguments += ["maps=8", "partitions=12", "records=30", "size=20000", "pause=120"]
        # So often it hears of a worker that stops, which otherwise waits for longer than a shuffle takes.
        arguments += ["celeborn.client.application.heartbeatInterval=1s"]
        retries = QUICK_RETRIES if replicate or may_lose else QUICK_RETRIES | MANY_RETRIES
        arguments += [f"{key}={value}" for key, value in retries.items()]
        with open(self.log, "wb") as log:
            java = stock_client.command(cluster.endpoint, arguments, "1g")
            self.process = subprocess.Popen(java, stdout=log, stderr=log, start_new_session=True)
        self.span = (0, 7 * turns)

    def outcome(self) -> tuple[bool, str]:
        self.process.wait(JOB_SECONDS_MAX)
        text = self.log.read_text()
        # What it says, without where in its code.
        said = "\n".join(line for line in text.splitlines() if not line.startswith("\tat "))
        return self.process.returncode == 0 and text.endswith("OK\n"), said[-3000:]


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens to a cluster at a random moment of a job, and which outcomes are allowed."""

    # Causes it, and says where.
    strike: collections.abc.Callable[[Cluster, random.Random], str]
    replicate: bool = True
    # Whether a stage may run again, and the job may fail if it says that data was lost.
    may_lose: bool = False


@dataclasses.dataclass
class Run:
    """The outcome of one job."""

    right: bool
    text: str
    fired: bool = True
    lost: bool = False


def shuffles_of(worker: Process) -> set[str]:
    """The shuffles of which a worker holds something."""
    return set(json.loads(page(worker.http_port, "/api/v1/shuffles"))["shuffleIds"])


def a_victim(cluster: Cluster, chance: random.Random) -> Process:
    """A random worker of those that hold something, as soon as there is one."""

    def holders() -> list[Process]:
        found = [worker for worker in cluster.workers if shuffles_of(worker)]
        if not found:
            raise OSError("no worker holds anything")
        return found

    return chance.choice(wait_until(holders, "a shuffle"))


def kill_worker(cluster: Cluster, chance: random.Random) -> str:
    victim = a_victim(cluster, chance)
    victim.kill()
    return victim.name


def restart_worker(cluster: Cluster, chance: random.Random) -> str:
    """Stops a worker gracefully; fails if it does not come back with what it had."""
    victim = a_victim(cluster, chance)
    held = shuffles_of(victim)
    code = victim.stop()
    if code != 0 or "stopped: everything" not in victim.said():
        raise RuntimeError(f"the graceful stop of {victim.name} ended with {code}: {victim.said()[-1000:]}")
    time.sleep(chance.uniform(0, 1))
    victim.start()
    cluster.wait_until_back(victim)
    # The job may have dropped some meanwhile.
    held &= set(cluster.get("/api/v1/shuffles")["shuffleIds"])
    if not held:
        raise RuntimeError(f"nothing of what {victim.name} held was needed any more when it was back")
    recovered = re.search(r"recovered (\d+) shuffles with (\d+) locations", victim.said())
    shuffles, locations = map(int, recovered.groups()) if recovered else (0, 0)
    if shuffles < len(held) or locations == 0 or "left out" in victim.said():
        raise RuntimeError(f"{victim.name} had {len(held)} shuffles, and came back so: {victim.said()[:1000]}")
    return f"{victim.name}, back with {locations} locations,"


def restart_master(cluster: Cluster, chance: random.Random) -> str:
    """Fails if the journal does not have what the master knew."""
    known = len(cluster.get("/api/v1/shuffles")["shuffleIds"])
    read = kill_master(cluster, chance, lambda: None)
    if read < known:
        raise RuntimeError(f"the master knew {known} shuffles, and its journal has {read}")
    return f"the master with {read} shuffles"


def lose_master(cluster: Cluster, chance: random.Random) -> str:
    read = kill_master(cluster, chance, lambda: shutil.rmtree(directory(cluster.master)))
    if read:
        raise RuntimeError(f"the journal was deleted, and has {read} shuffles")
    return "the master and its journal"


def kill_master(cluster: Cluster, chance: random.Random, meanwhile: collections.abc.Callable[[], None]) -> int:
    """Kills the master, starts it again, waits until it answers, and returns how many shuffles were in its journal."""
    cluster.master.kill()
    meanwhile()
    time.sleep(chance.uniform(0, 1))
    cluster.master.start()
    wait_until(lambda: cluster.get("/api/v1/shuffles"), "the master", cluster.master.alive)
    read = re.search(r"read the journal .*shuffles=(\d+)", cluster.master.said())
    if read is None:
        raise RuntimeError("the master has read no journal")
    return int(read[1])


FAULTS = {
    "kill-replicated": Fault(kill_worker),
    "kill-alone": Fault(kill_worker, replicate=False, may_lose=True),
    "master": Fault(restart_master),
    "master-lost": Fault(lose_master),
    "stop": Fault(restart_worker),
    "stop-alone": Fault(restart_worker, replicate=False),
}

# The running jobs, so that they can be killed when the judge is told to end.
running = set()


def run(fault: str, job_kind, chance: random.Random, turns: int) -> Run:
    if fault in DISK_FAULTS:
        return DISK_FAULTS[fault](chance)
    what = FAULTS[fault]
    with Cluster(3) as cluster:
        job = job_kind(cluster, turns, replicate=what.replicate, may_lose=what.may_lose)
        return during(job, lambda job: strike(what, cluster, job, chance))


def during(job, work: collections.abc.Callable[..., Run]) -> Run:
    """Does `work` while a job runs, and kills the job afterwards, even if it hangs."""
    running.add(job)
    try:
        return work(job)
    finally:
        end(job.process)
        running.discard(job)


def wait(job, seconds: float, until: collections.abc.Callable[[], bool] = lambda: False) -> bool:
    """Waits until `until` holds, for `seconds` at most and while the job runs; says whether it came to hold."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and job.process.poll() is None:
        if until():
            return True
        time.sleep(0.05)
    return False


def strike(fault: Fault, cluster: Cluster, job, chance: random.Random) -> Run:
    """Causes one fault while the job runs, and returns the outcome."""
    # The clock starts with the first shuffle, so that the fault falls into the job and not into its start.
    started = wait(job, START_SECONDS_MAX, lambda: bool(cluster.get("/api/v1/shuffles")["shuffleIds"]))
    if not started and job.process.poll() is None:
        return Run(False, f"no shuffle was registered within {START_SECONDS_MAX} s", fired=False)
    moment = chance.uniform(*job.span)
    wait(job, moment)
    if job.process.poll() is not None:
        return Run(job.outcome()[0], "the job had ended before the fault", fired=False)
    return came_of(job, cluster, f"{fault.strike(cluster, chance)} at {moment:.1f} s", fault.may_lose)


def came_of(job, cluster: Cluster, what: str, may_lose: bool) -> Run:
    """The outcome of a job after the fault `what`."""
    right, error = job.outcome()
    for server in filter(Process.crashed, cluster.servers()):
        return Run(False, f"{what}: {server.name} crashed: {server.said()[-1000:]}")
    if right:
        return Run(True, what)
    if may_lose and any(word in error for word in LOSS):
        return Run(True, f"{what}: the job failed and said what was lost", lost=True)
    return Run(False, f"{what}: {error}")


def directory(server) -> pathlib.Path:
    """The folder of a server, which outlives its process."""
    return pathlib.Path(server.option("--dir"))


def spilling_cluster() -> Cluster:
    """A cluster whose shuffles go to disk, as much on one worker as on another."""
    return Cluster(3, memory=SMALL_MEMORY, master_arguments=["--conf", ROUND_ROBIN])


def disk_full(_: random.Random) -> Run:
    """Restarts worker 0 on a file system of 64 MiB, which a Spark job then fills."""
    with spilling_cluster() as cluster:
        victim = cluster.workers[0]
        folder = directory(victim)
        victim.kill()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "none", folder], check=True)
        try:
            victim.start()
            cluster.wait_until_back(victim)
            job = SparkJob(cluster, 1, SPILLED_ROWS, replicate=False, may_lose=False)
            return during(job, lambda job: fill(job, cluster, victim, folder))
        finally:
            victim.process.kill()
            victim.process.wait()
            subprocess.run(["umount", "-l", folder])


def fill(job, cluster: Cluster, victim, folder: pathlib.Path) -> Run:
    """The outcome of a job that fills the folder."""
    least_free = FULL_BYTES

    def look() -> bool:
        nonlocal least_free
        space = os.statvfs(folder)
        least_free = min(least_free, space.f_bavail * space.f_frsize)
        return False

    wait(job, JOB_SECONDS_MAX, look)
    came = came_of(job, cluster, f"at times {least_free >> 20} of 64 MiB were free", may_lose=False)
    came.fired = "takes nothing: " in victim.said() or "it is full" in victim.said()
    return came


def rot(chance: random.Random, replicate: bool) -> Run:
    """Flips bits in workers' segments until a worker reads one of them."""
    with spilling_cluster() as cluster:
        # With replication, on one worker only: each location's other copy stays whole.
        victims = [chance.choice(cluster.workers)] if replicate else cluster.workers
        job = SparkJob(cluster, 1, SPILLED_ROWS, replicate=replicate, may_lose=not replicate)
        return during(job, lambda job: flip_until_met(job, cluster, victims, chance, may_lose=not replicate))


def flip_until_met(job, cluster: Cluster, victims, chance: random.Random, may_lose: bool) -> Run:
    flipped, next_flip = 0, 0

    def met() -> bool:
        return any(ROT in victim.log.read_text() for victim in victims)

    def flip() -> bool:
        nonlocal flipped, next_flip
        if time.monotonic() >= next_flip:
            flipped += sum(flip_bit(segment, chance) for victim in victims for segment in directory(victim).rglob("*.segment"))
            next_flip = time.monotonic() + FLIP_SECONDS
        return met()

    wait(job, JOB_SECONDS_MAX, flip)
    came = came_of(job, cluster, f"{flipped} bits of {', '.join(victim.name for victim in victims)}", may_lose)
    came.fired = met()
    return came


def flip_bit(path: pathlib.Path, chance: random.Random) -> bool:
    """Flips one bit of a file; says whether there was one."""
    try:
        with open(path, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size == 0:
                return False
            at = chance.randrange(size)
            byte = os.pread(file.fileno(), 1, at)[0] ^ 1 << chance.randrange(8)
            os.pwrite(file.fileno(), bytes([byte]), at)
            return True
    except FileNotFoundError:
        # Its shuffle has been deleted.
        return False


# Faults whose moment follows from the job's progress, and not from chance.
DISK_FAULTS = {
    "disk-full": disk_full,
    "rot-replicated": lambda chance: rot(chance, replicate=True),
    "rot-alone": lambda chance: rot(chance, replicate=False),
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=[*FAULTS, *DISK_FAULTS])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--with", dest="job", choices=["spark", "client"], default="spark")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--parallel", type=int, default=3, help="runs at a time, each with a cluster of its own")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs is at least 1")
    print(f"seed {options.seed}")
    kind = {"spark": SparkJob, "client": ClientJob}[options.job]
    if options.fault not in DISK_FAULTS:
        kind.prepare(options.turns)
    elif kind is SparkJob:
        SparkJob.prepare(1, SPILLED_ROWS)
    else:
        parser.error(f"{options.fault} is only with spark")

    def one(turn: int) -> tuple[int, float, Run]:
        begin = time.monotonic()
        try:
            result = run(options.fault, kind, random.Random(options.seed + turn), options.turns)
        except (Exception, SystemExit) as error:  # the other runs go on
            result = Run(False, repr(error), fired=False)
        return turn, time.monotonic() - begin, result

    results = []
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        try:
            for turn, seconds, result in pool.map(one, range(options.runs)):
                results.append(result)
                verdict = f"{'ok  ' if result.right else 'FAIL'} {options.fault} {turn} {seconds:6.1f} s"
                print(f"{verdict} {'' if result.fired or not result.right else 'NOT FIRED: '}{result.text}", flush=True)
        except BaseException:
            # A thread that waits for a job goes on when that is killed, and stops its cluster.
            pool.shutdown(wait=False, cancel_futures=True)
            for job in list(running):
                end(job.process)
            raise
    wrong, fired, lost = (sum(map(what, results)) for what in (lambda r: not r.right, lambda r: r.fired, lambda r: r.lost))
    print(f"{options.runs - wrong} of {options.runs} right, {fired} faults happened")
    # The stock client alone writes nothing again.
    if kind is SparkJob and lost > options.runs / 2:
        print(f"{lost} runs had no answer: too many for a loss of data, which Spark writes again")
        return 1
    return 1 if wrong or fired < options.runs else 0


if __name__ == "__main__":
    sys.exit(main())
