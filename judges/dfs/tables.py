"""Tables on an erasure-coded directory: PySpark 3.5 with the stock Hadoop client and `yeoul sql` with hdfs-native each write the
tables of TPC-H, two of them partitioned, and each answers the 22 queries over its own tables and over the other's.

Usage: tables.py [--scale N] [--only q1,q14]    exits 1 if an answer is not that of Spark over the local files
"""

import argparse
import decimal
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from cluster import HERE, Findings, Shell, local

sys.path.append(str(HERE.parent / "shuffle"))
import fetch
from harness import binary

DATANODES = 9
POLICY = "RS-6-3-1024k"
PARTITIONS = {"lineitem": "l_shipmode", "orders": "o_orderpriority"}
# Sums of doubles are added in another order by each engine.
RELATIVE = decimal.Decimal("1e-9")
# Digits after the point from which on the last one may have been rounded.
QUOTIENT_DIGITS = 6
SECONDS_MAX = 1800


def sql(text: str) -> str:
    """What `yeoul sql` prints; all its statements have to succeed."""
    ended = subprocess.run([binary(), "sql", "--format", "json", "-c", text], capture_output=True, text=True, timeout=SECONDS_MAX)
    if ended.returncode != 0:
        raise SystemExit(f"yeoul sql: {ended.stderr[-2000:]}\n{text[-500:]}")
    return ended.stdout


def spark(folder: pathlib.Path, *arguments: str):
    python = fetch.venv("spark", fetch.SPARK) / "python"
    environment = os.environ | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [python, HERE / "spark_tables.py", *arguments]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)
    if ended.returncode != 0:
        raise SystemExit(f"Spark: {ended.stdout[-1000:]}{ended.stderr[-4000:]}")


def by_spark(folder: pathlib.Path, tables: dict, queries: list[str]) -> dict:
    out = folder / "answers.json"
    spark(folder, "read", json.dumps(tables), str(out), *queries)
    return json.loads(out.read_text())


def by_yeoul(tables: dict, queries: list[str]) -> dict:
    views = "".join(f"CREATE VIEW {name} AS SELECT * FROM '{place}/';" for name, place in tables.items())
    answers = {}
    for query in map(pathlib.Path, queries):
        lines = [line for line in query.read_text().splitlines() if not line.lstrip().startswith("--")]
        printed = sql(views + "\n".join(lines))
        rows = [json.loads(line, parse_float=str) for line in printed.splitlines() if line.strip()]
        answers[query.stem] = [[str(value) for value in row.values()] for row in rows]
    return answers


def is_equal(found: list[list[str]], expected: list[list[str]]) -> bool:
    """Equal rows in equal order; numbers by value, as one engine says 1.50 and another one 1.5, and quotients of decimals as far as
    both have digits: Spark gives them six."""

    def is_same(one: str, other: str) -> bool:
        if one == other:
            return True
        try:
            one, other = decimal.Decimal(one), decimal.Decimal(other)
        except decimal.InvalidOperation:
            return False
        digits = min(-one.as_tuple().exponent, -other.as_tuple().exponent)
        last = decimal.Decimal(1).scaleb(-digits) if digits >= QUOTIENT_DIGITS else 0
        return abs(one - other) <= max(last, RELATIVE * max(abs(one), abs(other)))

    return len(found) == len(expected) and all(
        len(row) == len(wanted) and all(map(is_same, row, wanted)) for row, wanted in zip(found, expected)
    )


def write_by_yeoul(source: pathlib.Path, target: str):
    for path in sorted(source.glob("*.parquet")):
        column = PARTITIONS.get(path.stem)
        parts = f" PARTITIONED BY ({column})" if column else ""
        sql(f"COPY (SELECT * FROM '{path}') TO '{target}/{path.stem}/' STORED AS PARQUET{parts}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--only", help="names of queries, with commas")
    options = parser.parse_args()
    scale, findings, queries = options.scale, Findings(), fetch.queries()
    if options.only:
        queries = [query for query in queries if pathlib.Path(query).stem in options.only.split(",")]
    with tempfile.TemporaryDirectory() as name, local(pathlib.Path(name), DATANODES) as address:
        folder = pathlib.Path(name)
        source = folder / "tpch"
        subprocess.run([binary(), "generate", "tpch", "--scale", f"{scale:g}", "--out", source], check=True, stderr=subprocess.DEVNULL)
        names = sorted(path.stem for path in source.glob("*.parquet"))
        with Shell(address) as shell:
            shell("-mkdir", "/tables")
            code, printed = shell("ec", "-setPolicy", "-path", "/tables", "-policy", POLICY)
            findings.right(f"the policy {POLICY}", code == 0, printed)
            base = f"hdfs://{address}/tables"
            spark(folder, "write", str(source), f"{base}/spark", json.dumps(PARTITIONS))
            write_by_yeoul(source, f"{base}/yeoul")
            for writer in ["spark", "yeoul"]:
                _, printed = shell("-ls", "-C", f"/tables/{writer}/lineitem", f"/tables/{writer}/customer")
                seen = printed.decode().splitlines()
                parts = [line for line in seen if f"/lineitem/{PARTITIONS['lineitem']}=" in line]
                findings.right(f"{writer} wrote seven partitions of lineitem", len(parts) == 7, seen)
                [file] = [line for line in seen if f"/{writer}/customer/" in line and line.endswith(".parquet")][:1]
                code, printed = shell("ec", "-getPolicy", "-path", file)
                findings.right(f"{file} is coded", code == 0 and POLICY.encode() in printed, printed)
        expected = by_spark(folder, {name: f"{source}/{name}.parquet" for name in names}, queries)
        rows_min = 1 if options.only else 100
        is_answered = len(expected) == len(queries) and sum(map(len, expected.values())) >= rows_min
        findings.right("Spark answers over local files", is_answered, expected.keys())
        for writer in ["spark", "yeoul"]:
            tables = {name: f"{base}/{writer}/{name}" for name in names}
            for reader, answers in [("spark", by_spark(folder, tables, queries)), ("yeoul", by_yeoul(tables, queries))]:
                wrong = [name for name in expected if not is_equal(answers.get(name, []), expected[name])]
                told = f"{len(expected) - len(wrong)} of {len(expected)} queries by {reader} over tables that {writer} wrote"
                findings.right(told, not wrong, [(name, answers.get(name, [])[:2], expected[name][:2]) for name in wrong[:3]])
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
