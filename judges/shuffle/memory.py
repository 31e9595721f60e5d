"""Memory of the servers: 4 GB of the stock client through one worker of 256 MiB, against one of 4 GiB; idle servers.

Usage: memory.py [--turns N] [--limit MIB]    exits 1 if a byte was wrong or a bound was missed
"""

import argparse
import sys
import time

import stock_client
from cluster import Cluster

MIB = 1 << 20
IDLE_MAX = 20 * MIB
RATIO_MAX = 1.3
# 8 maps, 16 partitions, 330 records of 100 kB: 4.2 GB that no codec makes smaller.
JOB = ["shuffles=1", "maps=8", "partitions=16", "records=330", "size=100000"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--limit", type=int, default=256, help="MiB of the small worker")
    options = parser.parse_args()
    wrong = []
    times = {options.limit: [], 4096: []}
    for _ in range(options.turns):
        for limit in times:
            with Cluster(1, memory=f"{limit}MiB") as cluster:
                idle = {server.name: server.rss_max() for server in cluster.servers()}
                begin = time.monotonic()
                ended = stock_client.run(cluster.endpoint, JOB, within=1200)
                times[limit].append(time.monotonic() - begin)
                peak = cluster.workers[0].rss_max()
            print(f"worker of {limit} MiB: {times[limit][-1]:.1f} s, {peak / MIB:.0f} MiB at most; idle: ", end="")
            print(", ".join(f"{name} {rss / MIB:.1f} MiB" for name, rss in idle.items()), flush=True)
            if ended.returncode != 0 or not ended.stdout.endswith("OK\n"):
                wrong.append(f"the client of the worker of {limit} MiB: {ended.stdout[-500:]}{ended.stderr[-1500:]}")
            if peak > limit * MIB:
                wrong.append(f"the worker of {limit} MiB used {peak / MIB:.0f} MiB")
            wrong += [f"an idle {name} has {rss / MIB:.1f} MiB" for name, rss in idle.items() if rss > IDLE_MAX]
    ratio = min(times[options.limit]) / min(times[4096])
    print(f"{ratio:.2f} of the time with 4 GiB")
    if ratio > RATIO_MAX:
        wrong.append(f"the small worker takes {ratio:.2f} of the time of the large one, at most {RATIO_MAX} are allowed")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
