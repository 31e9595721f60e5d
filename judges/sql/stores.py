"""Addresses in SQL against servers that others wrote: S3 (moto, from PyPI) and HDFS (Hadoop's own, from Maven).

Usage: stores.py [s3] [hdfs]    exits 1 if an answer or an error is not what it must be
"""

import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from hadoop import hadoop
from harness import binary, free_ports, venv, wait_until

MOTO = ["moto[server]==5.1.0"]
# HDFS starts within some ten seconds.
READY_SECONDS_MAX = 300


def sql(text: str, environment: dict) -> subprocess.CompletedProcess:
    command = [binary(), "sql", "--format", "json", "-c", text]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=120)


class Findings:
    def __init__(self):
        self.wrong = 0

    def right(self, what: str, is_right: bool, seen: str):
        print(f"{'ok  ' if is_right else 'FAIL'} {what}{'' if is_right else ': ' + seen}", flush=True)
        self.wrong += not is_right


def check(findings: Findings, store: str, base: str, environment: dict, missing: str):
    """Checks what must work with any store; `base` is an empty, writable folder."""

    def answers(what: str, text: str, expected):
        ended = sql(text, environment)
        try:
            rows = [list(json.loads(line).values()) for line in ended.stdout.splitlines()]
        except ValueError:
            rows = None
        findings.right(f"{store}: {what}", ended.returncode == 0 and rows == expected, ended.stderr + ended.stdout)

    values = "SELECT value AS id, value % 3 AS part, 'row ' || value AS name FROM generate_series(1, 30000)"
    ended = sql(f"COPY ({values}) TO '{base}/one.parquet'", environment)
    findings.right(f"{store}: COPY TO a file", ended.returncode == 0, ended.stderr)
    answers("one file", f"SELECT count(*), sum(id) FROM '{base}/one.parquet'", [[30000, 450015000]])
    answers("rows by a filter", f"SELECT name FROM '{base}/one.parquet' WHERE id = 12345", [["row 12345"]])
    ended = sql(f"COPY ({values}) TO '{base}/parts/' STORED AS PARQUET PARTITIONED BY (part)", environment)
    findings.right(f"{store}: COPY TO partitions", ended.returncode == 0, ended.stderr)
    expected = [[part, 10000] for part in range(3)]
    count = "SELECT CAST(part AS INT) AS part, count(*) FROM '{}/parts/' GROUP BY 1 ORDER BY 1"
    answers("a folder with partitions", count.format(base), expected)
    answers("a glob", f"SELECT count(*) FROM '{base}/parts/part=1/*.parquet'", [[10000]])
    ended = sql(f"COPY ({values}) TO '{base}/rows.csv' STORED AS CSV", environment)
    answers("a CSV file", f"SELECT count(*), sum(id) FROM '{base}/rows.csv'", [[30000, 450015000]])
    for what, address in [("a missing file", f"{base}/none.parquet"), ("a missing place", missing)]:
        ended = sql(f"SELECT * FROM '{address}'", environment)
        # Not just any error: a store that is down, or that refuses us, would make one, too.
        is_missing = f"error: no file is in '{address}'" in ended.stderr or "<Code>NoSuchBucket</Code>" in ended.stderr
        told = ended.returncode == 1 and not ended.stdout and is_missing
        findings.right(f"{store}: {what} is an error", told, f"{ended.returncode} {ended.stdout}{ended.stderr}")


def s3(findings: Findings):
    port = free_ports(1)[0]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [venv("moto", MOTO) / "moto_server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: urllib.request.urlopen(address, timeout=1), "moto", lambda: server.poll() is None)
        urllib.request.urlopen(urllib.request.Request(f"{address}/warehouse", method="PUT"), timeout=5)
        environment = {"AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1"}
        environment |= {"AWS_ACCESS_KEY_ID": "judge", "AWS_SECRET_ACCESS_KEY": "judge"}
        check(findings, "s3", "s3://warehouse/tables", environment, "s3://no-such-bucket/a.parquet")
        read = "boto3.client('s3').get_object(Bucket='warehouse', Key='tables/rows.csv')['Body'].read().decode()"
        boto = [venv("moto", MOTO) / "python", "-c", f"import boto3; print({read})"]
        environment = os.environ | environment | {"AWS_DEFAULT_REGION": "us-east-1"}
        lines = subprocess.run(boto, env=environment, capture_output=True, text=True, check=True).stdout.split("\n")[:-2]
        rows = [f"{number},{number % 3},row {number}" for number in range(1, 30001)]
        right = lines[0] == "id,part,name" and sorted(lines[1:]) == sorted(rows)
        findings.right("s3: the CSV file as S3 has it", right, f"{len(lines)} lines: {lines[:3]}")
    finally:
        server.kill()
        server.wait()


def hdfs(findings: Findings):
    classes = hadoop()
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "wb") as log:
        port = free_ports(1)[0]
        java = ["java", "-Xmx1g", "-cp", f"{classes}/lib/*", pathlib.Path(__file__).parent / "MiniHdfs.java"]
        server = subprocess.Popen([*java, str(port), f"{folder}/data"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        try:
            answered, _, _ = select.select([server.stdout], [], [], READY_SECONDS_MAX)
            if not answered or b"ready" not in server.stdout.readline():
                raise SystemExit(f"HDFS did not start: {pathlib.Path(log.name).read_text()[-3000:]}")
            base = f"hdfs://127.0.0.1:{port}"
            check(findings, "hdfs", f"{base}/tables", {"HADOOP_USER_NAME": "judge"}, f"{base}/none/a.parquet")
        finally:
            server.kill()
            server.wait()


def main() -> int:
    stores = {"s3": s3, "hdfs": hdfs}
    wanted = sys.argv[1:] or list(stores)
    if any(store not in stores for store in wanted):
        print(__doc__, file=sys.stderr)
        return 2
    findings = Findings()
    for store in wanted:
        stores[store](findings)
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
