"""The stock Celeborn client 0.5.4, without Spark, against a master and three workers.

Usage: stock_client.py [CASE…]    exits 1 if a byte was wrong
"""

import pathlib
import subprocess
import sys
import time

import fetch
from cluster import Cluster

SPLIT = ["celeborn.client.shuffle.partitionSplit.threshold=1m", "partitions=4", "records=40", "size=60000", "pause=20", "split=1"]
CASES = {
    "small": ["shuffles=3"],
    "fast": ["shuffles=3", "celeborn.client.push.limit.inFlight.sleepInterval=1ms"]
    + ["celeborn.client.push.takeTaskWaitInterval=1ms"],
    "abandoned attempts": ["maps=6", "abandon=3", "ranges=4"],
    "many partitions": ["partitions=500", "maps=3", "records=3"],
    "large records": ["size=300000", "records=20", "partitions=3"],
    "skew": ["size=2000", "skew=200", "records=30"],
    "soft split": [*SPLIT, "celeborn.client.shuffle.partitionSplit.mode=SOFT"],
    "hard split": [*SPLIT, "celeborn.client.shuffle.partitionSplit.mode=HARD"],
    "zstd": ["celeborn.client.shuffle.compression.codec=ZSTD", "size=5000"],
    "uncompressed": ["celeborn.client.shuffle.compression.codec=NONE", "size=5000"],
    "range filter": ["celeborn.client.shuffle.rangeReadFilter.enabled=true", "maps=9", "ranges=3"],
}


def classes() -> pathlib.Path:
    """The folder with the classes of the Java judge, compiled if need be."""
    return fetch.compiled(pathlib.Path(__file__).parent / "StockClient.java")


def command(master: str, arguments: list[str], memory: str = "2g") -> list[str]:
    return ["java", f"-Xmx{memory}", "-cp", f"{classes()}:{fetch.jars()}/*", "StockClient", f"master={master}", *arguments]


def run(master: str, arguments: list[str], within: float = 300) -> subprocess.CompletedProcess:
    """Runs the Java judge once; one that hangs is killed."""
    try:
        return subprocess.run(command(master, arguments), capture_output=True, text=True, timeout=within)
    except subprocess.TimeoutExpired as hung:
        said = [(text or b"").decode() for text in (hung.stdout, hung.stderr)]
        return subprocess.CompletedProcess(hung.cmd, None, said[0], f"{said[1]}\nit hangs: killed after {within} s")


def main() -> int:
    wanted = sys.argv[1:] or list(CASES)
    failed = []
    with Cluster() as cluster:
        for replicate in ["false", "true"]:
            for name in wanted:
                begin = time.monotonic()
                ended = run(cluster.endpoint, [f"replicate={replicate}", *CASES[name]])
                right = ended.returncode == 0 and ended.stdout.endswith("OK\n")
                label = f"{name}{' replicated' if replicate == 'true' else ''}"
                print(f"{'ok  ' if right else 'FAIL'} {label:32} {time.monotonic() - begin:6.1f} s", flush=True)
                if not right:
                    failed.append(label)
                    print(ended.stdout[-2000:], ended.stderr[-4000:], sep="\n", flush=True)
        if failed:
            raise SystemExit(f"{len(failed)} failed: {', '.join(failed)}")
        cluster.check_that_nothing_failed()
        cluster.check_that_copies_were_made()
    return 0


if __name__ == "__main__":
    sys.exit(main())
