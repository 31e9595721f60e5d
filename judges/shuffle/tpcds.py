"""TPC-DS in PySpark 3.5.9 through ours and through Spark's own shuffle, query by query in turn.

Usage: tpcds.py [--scale N] [--passes N] [--clients A,B] [--only q1,q2,…] [--memory MIB] [--celeborn HOME] [--json FILE]
exits 1 if an answer differs, or one of our workers held more memory than it was given

Two clients, one after the other: the stock client with default settings, and with its two waits of 50 ms set to 1 ms.
A third, "short sleeps", is not among them unless it is named: the first one, but changed, so that it sleeps for 1 ms
wherever it sleeps for 50 (ShortSleeps.java). It tells what of the time is the client's own and not the servers'.

Each has a master and two workers of its own, and runs beside a session with Spark's own sort shuffle, both of them
`local-cluster[2,1,3072]`. The first pass warms up; of the others the best counts. Takes about an hour, and 16 GiB for
itself: with three such sessions the system would page from disk, and the shortest waits would take seconds.

Given the folder of a distribution of Celeborn 0.5.4 (`jars/`, `master-jars/`, `worker-jars/`), each client then does
the same with Celeborn's own master and two workers, again beside Spark's own shuffle.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import select
import subprocess
import sys
import time

import fetch
import stock_spark
from cluster import Cluster, Servers
from harness import binary, end
from peer import Peer

CLIENTS = {
    "untouched": {},
    "1 ms waits": {
        "spark.celeborn.client.push.limit.inFlight.sleepInterval": "1ms",
        "spark.celeborn.client.push.takeTaskWaitInterval": "1ms",
    },
}
CHANGED = "short sleeps"
SPARK = {"spark.master": "local-cluster[2,1,3072]", "spark.executor.memory": "3072m"}
# Of the queries that take longer than this natively, the report names those that ours slows down most.
LONG_SECONDS = 2
# A session that has not answered a query after this long hangs.
ANSWER_SECONDS_MAX = 600


class Session:
    """A Spark session that waits for queries."""

    def __init__(self, name: str, conf: dict, tables: pathlib.Path, folder: pathlib.Path):
        self.name, self.log = name, folder / f"{name}.log"
        answers, out = os.pipe()
        pipes = {"stdin": subprocess.PIPE, "pass_fds": [out]}
        self.process = stock_spark.run_inside("spark_turns.py", SPARK | conf, tables, f"/dev/fd/{out}", self.log, **pipes)
        os.close(out)
        self.answers = open(answers)
        time.sleep(2)  # sessions that begin within one second take the same name

    def ask(self, query: str) -> dict:
        with contextlib.suppress(BrokenPipeError):  # it has ended, as reading then says
            self.process.stdin.write(f"{query}\n".encode())
            self.process.stdin.flush()
        answered, _, _ = select.select([self.answers], [], [], ANSWER_SECONDS_MAX)
        line = self.answers.readline() if answered else ""
        if not answered:
            raise SystemExit(f"{self.name} hangs in {query}: {self.log.read_text()[-3000:]}")
        if not line:
            raise SystemExit(f"{self.name} ended: {self.log.read_text()[-3000:]}")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        end(self.process)


def tables(scale: float) -> pathlib.Path:
    folder = fetch.CACHE / "data" / f"tpcds-{scale:g}"
    subprocess.run([binary(), "generate", "tpcds", "--scale", f"{scale:g}", "--out", folder], check=True)
    return folder


def settings(client: str) -> dict:
    """What a client is given besides the servers' address."""
    if client != CHANGED:
        return CLIENTS[client]
    agent = f"-javaagent:{fetch.agent(pathlib.Path(__file__).with_name('ShortSleeps.java'))}"
    return {"spark.driver.extraJavaOptions": agent, "spark.executor.extraJavaOptions": agent}


def judge(name: str, answers: dict[str, list[dict]]) -> list[str]:
    """The clients' wrong answers. A query can be judged only if Spark itself always answers the same."""
    errors = [answer["error"] for answer in answers["native"] if "rows" not in answer]
    if errors:
        return [f"{name}: Spark itself fails: {errors[0][:300]}"]
    native = {json.dumps(answer["rows"]) for answer in answers["native"]}
    if len(native) > 1:
        return [f"{name}: Spark itself does not always answer the same, so that nothing can be judged"]
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
    known = [*CLIENTS, CHANGED]
    parser.add_argument("--clients", default=",".join(CLIENTS), help="some of: " + ", ".join(known))
    parser.add_argument("--memory", type=int, default=48, metavar="MIB", help="of each of our workers")
    parser.add_argument("--celeborn", type=pathlib.Path, metavar="HOME", help="a distribution of Celeborn, as a peer of ours")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    clients = options.clients.split(",")
    if options.passes < 1 or not set(clients) <= set(known):
        parser.error(f"--passes is at least 1, and --clients some of: {', '.join(known)}")
    data = tables(options.scale)
    queries = stock_spark.chosen(options.only, fetch.queries("tpcds"))
    rows, wrong = [], []
    starts = {"ours": lambda: Cluster(2, memory=f"{options.memory}MiB")}
    if options.celeborn:
        starts["Celeborn"] = lambda: Peer(options.celeborn, 2)
    for client, whose in itertools.product(clients, starts):
        with starts[whose]() as cluster:
            times, answers = contest(client, cluster, data, queries, options.passes)
            cluster.check_that_workers_worked()
            if whose == "ours":
                cluster.check_that_nothing_failed()
            servers = [(server.name, server.rss_max() >> 20, round(server.cpu_seconds(), 1)) for server in cluster.servers()]
        found = [finding for name, given in answers.items() for finding in judge(name, given)]
        if whose == "ours":
            over = [(name, rss) for name, rss, _ in servers if name != "master" and rss > options.memory]
            found += [f"{name} of {options.memory} MiB held {rss} MiB" for name, rss in over]
        report(client, whose, times, servers)
        print("\n".join(found) if found else "  no answer differs, and no bound is missed", flush=True)
        wrong += found
        base = {"client": client, "servers": whose}
        rows += [base | {"query": name, "who": who, "seconds": taken} for (name, who), taken in times.items()]
        rows += [base | {"server": name, "rss_mib": rss, "cpu_seconds": cpu} for name, rss, cpu in servers]
        if options.json:
            options.json.write_text(json.dumps({"rows": rows, "wrong": wrong}, indent=1))
    return 1 if wrong else 0


def contest(client: str, cluster: Servers, data: pathlib.Path, queries: list[str], passes: int):
    """The seconds and the answers of Spark's own shuffle and of a client, query by query in turn."""
    times, answers = {}, {pathlib.Path(query).stem: {} for query in queries}
    ours = stock_spark.celeborn(cluster.endpoint, False) | settings(client)
    with (
        Session("native", {}, data, cluster.folder) as native,
        Session(client, ours, data, cluster.folder) as through_ours,
    ):
        for turn in range(1 + passes):
            begin = time.monotonic()
            for number, query in enumerate(queries):
                name = pathlib.Path(query).stem
                # They begin in turn, so that neither always profits from what the other has warmed up.
                for session in (native, through_ours)[:: 1 if (number + turn) % 2 else -1]:
                    answer = session.ask(query)
                    print(f"{name} {session.name} {answer['seconds']:.2f} s", file=sys.stderr)
                    answers[name].setdefault(session.name, []).append(answer)
                    if turn > 0:
                        times.setdefault((name, session.name), []).append(answer["seconds"])
            print(f"{client}, pass {turn}{' (warm-up)' * (turn == 0)}: {time.monotonic() - begin:.0f} s", flush=True)
    return times, answers


def report(client: str, whose: str, times: dict, servers: list):
    best = {key: min(seconds) for key, seconds in times.items()}
    names = list(dict.fromkeys(name for name, _ in best))
    native, ours = (sum(best[name, who] for name in names) for who in ("native", client))
    ratios = {name: best[name, client] / best[name, "native"] for name in names}
    slower = sum(ratio > 1.1 for ratio in ratios.values())
    print(f"{client}, {whose}: {ours:.1f} s, native {native:.1f} s: {ours / native:.3f}; {slower} of {len(names)} more than 10 % slower")
    long = {name: ratio for name, ratio in ratios.items() if best[name, "native"] > LONG_SECONDS}
    for name, ratio in sorted(long.items(), key=lambda item: -item[1])[:3]:
        print(f"  worst above {LONG_SECONDS} s: {name} {best[name, 'native']:.2f} s, {ratio:.2f} of native")
    for name, rss, cpu in servers:
        print(f"  {name}: {rss} MiB at most, {cpu} CPU-s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
