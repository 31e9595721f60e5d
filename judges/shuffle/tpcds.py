"""TPC-DS in PySpark 3.5.9 through ours and through Spark's own shuffle, query by query in turn (bar 8).

Usage: tpcds.py [--scale N] [--passes N] [--only q1,q2,…] [--memory SIZE] [--json FILE]    exits 1 if an answer differs

Three sessions of `local-cluster[2,1,3072]` stay up for the whole run: Spark's own sort shuffle; the stock client with its
settings untouched; and the stock client with its two waits of 50 ms at 1 ms. Each client has a master and two workers of
its own. The first pass warms up; of the others the best counts. About an hour; needs 20 GiB.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
from contextlib import ExitStack

import fetch
import stock_spark
from cluster import Cluster, command

WAITS = {
    "spark.celeborn.client.push.limit.inFlight.sleepInterval": "1ms",
    "spark.celeborn.client.push.takeTaskWaitInterval": "1ms",
}
SPARK = {"spark.master": "local-cluster[2,1,3072]", "spark.executor.memory": "3072m"}
# Queries that take longer than this natively must not take much longer through ours.
LONG_SECONDS = 2


class Session:
    """A Spark session that waits for queries."""

    def __init__(self, name: str, conf: dict, tables: pathlib.Path, folder: pathlib.Path):
        self.name, self.log = name, folder / f"{name}.log"
        answers, out = os.pipe()
        pipes = {"stdin": subprocess.PIPE, "pass_fds": [out]}
        self.process = stock_spark.run_inside("spark_turns.py", SPARK | conf, tables, f"/dev/fd/{out}", self.log, **pipes)
        os.close(out)
        self.answers = open(answers)

    def ask(self, query: str) -> dict:
        self.process.stdin.write(f"{query}\n".encode())
        self.process.stdin.flush()
        line = self.answers.readline()
        if not line:
            raise SystemExit(f"{self.name} ended: {self.log.read_text()[-3000:]}")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def tables(scale: float) -> pathlib.Path:
    folder = fetch.CACHE / "data" / f"tpcds-{scale:g}"
    subprocess.run([command()[0], "generate", "tpcds", "--scale", f"{scale:g}", "--out", folder], check=True)
    return folder


def judge(name: str, answers: dict[str, list[dict]]) -> list[str]:
    """What is wrong with the answers of the clients, where Spark itself always answers the same."""
    native = {json.dumps(answer.get("rows")) for answer in answers["native"]}
    if len(native) > 1 or native == {"null"}:
        print(f"     {name}: Spark itself does not always answer the same, or fails: not compared")
        return []
    wrong = []
    for who, given in answers.items():
        for answer in given:
            if json.dumps(answer.get("rows")) not in native:
                wrong.append(f"{name} {who}: {answer.get('error', 'other rows')[:300]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    data = tables(options.scale)
    queries = stock_spark.queries("tpcds")
    if options.only:
        queries = [query for query in queries if pathlib.Path(query).stem in options.only.split(",")]
    times = {}
    answers = {pathlib.Path(query).stem: {} for query in queries}
    with ExitStack() as stack:
        clusters = {who: stack.enter_context(Cluster(2, memory=options.memory)) for who in ["untouched", "1 ms waits"]}
        folder = clusters["untouched"].folder
        confs = {"native": {}}
        confs |= {who: stock_spark.celeborn(cluster.endpoint, False) for who, cluster in clusters.items()}
        confs["1 ms waits"] |= WAITS
        sessions = [stack.enter_context(Session(who, conf, data, folder)) for who, conf in confs.items()]
        for turn in range(1 + options.passes):
            begin = time.monotonic()
            for number, query in enumerate(queries):
                name = pathlib.Path(query).stem
                # Who begins changes, so that nobody always has what another one has warmed.
                for session in sessions[number % 3 :] + sessions[: number % 3]:
                    answer = session.ask(query)
                    answers[name].setdefault(session.name, []).append(answer)
                    if turn > 0:
                        times.setdefault((name, session.name), []).append(answer["seconds"])
            print(f"pass {turn}{' (warm-up)' * (turn == 0)}: {time.monotonic() - begin:.0f} s", flush=True)
        servers = {
            who: [(server.name, server.rss_max() >> 20, round(server.cpu_seconds(), 1)) for server in cluster.servers()]
            for who, cluster in clusters.items()
        }
    best = {key: min(seconds) for key, seconds in times.items()}
    wrong = [finding for name, given in answers.items() for finding in judge(name, given)]
    report(best, servers)
    if options.json:
        rows = [{"query": name, "who": who, "seconds": seconds} for (name, who), seconds in times.items()]
        options.json.write_text(json.dumps({"times": rows, "servers": servers, "wrong": wrong}, indent=1))
    print("\n".join(wrong))
    return 1 if wrong else 0


def report(best: dict, servers: dict):
    names = list(dict.fromkeys(name for name, _ in best))
    native = sum(best[name, "native"] for name in names)
    print(f"native: {native:.1f} s")
    for who, processes in servers.items():
        ratios = {name: best[name, who] / best[name, "native"] for name in names}
        ours = sum(best[name, who] for name in names)
        slower = sum(ratio > 1.1 for ratio in ratios.values())
        print(f"{who}: {ours:.1f} s, {ours / native:.3f} of native; {slower} of {len(names)} more than 10 % slower")
        long = {name: ratio for name, ratio in ratios.items() if best[name, "native"] > LONG_SECONDS}
        for name, ratio in sorted(long.items(), key=lambda item: -item[1])[:3]:
            print(f"  worst above {LONG_SECONDS} s: {name} {best[name, 'native']:.2f} s, {ratio:.2f} of native")
        for name, rss, cpu in processes:
            print(f"  {name}: {rss} MiB at most, {cpu} CPU-s")


if __name__ == "__main__":
    sys.exit(main())
