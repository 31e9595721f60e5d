"""Aggregates that keep something of every row, over 18 million rows in a process that may have 256 MiB.

Usage: growing_state.py [--rows N] [--memory M] [--short] [--show]    exits 1 if the process had more, or answered wrongly

The operating system says how much the process had at its peak. An answer is compared with DuckDB's, in as much memory as it likes; ours
may be an error instead if that says that memory ran out. If it names a limit that would be enough, the statement is run again with it,
and has to answer.
"""

import argparse
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import CACHE, binary, venv

# The version with which the benchmarks compare.
DUCKDB = ["duckdb==2.0.0"]
MIB = 1 << 20
ANSWER_SECONDS_MAX = 300
# What is added to a limit that an error names, before it is taken for a promise that was not kept.
TRIES_MAX = 1
# How far approximate functions may be off: HyperLogLog with 2^14 registers, t-digests of 100 centroids.
APPROXIMATE = 0.05

TABLE = """
SELECT i AS id, 'country-' || lpad(CAST((i * 7919) % 199 AS VARCHAR), 3, '0') AS country, CAST((i * 104729) % 1000003 AS DOUBLE) / 8 AS score,
       (i * 15485863) % 5000011 AS visitor, 'name-' || CAST((i * 32452843) % 3000017 AS VARCHAR) AS name,
       CAST((i * 49979687) % 100003 AS DECIMAL(12, 2)) AS price
FROM generate_series(1, {rows}) AS t(i)
"""

# Each is a statement for both, or one for ours and one for DuckDB. ~ is the table. Those in SHORT are run by `--short`.
STATEMENTS = {
    "median": "SELECT median(score) FROM ~",
    "median, grouped": "SELECT country, median(score) FROM ~ GROUP BY 1",
    "median distinct": "SELECT median(DISTINCT score) FROM ~",
    "median distinct, grouped": "SELECT country, median(DISTINCT visitor) FROM ~ GROUP BY 1",
    "median of decimals, grouped": "SELECT country, CAST(median(price) AS DOUBLE) FROM ~ GROUP BY 1",
    "percentile_cont": (
        "SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY score) FROM ~",
        "SELECT quantile_cont(score, 0.9) FROM ~",
    ),
    "percentile_cont, grouped": (
        "SELECT country, percentile_cont(0.9) WITHIN GROUP (ORDER BY score) FROM ~ GROUP BY 1",
        "SELECT country, quantile_cont(score, 0.9) FROM ~ GROUP BY 1",
    ),
    "array_agg": (
        "SELECT cardinality(a) FROM (SELECT array_agg(id) AS a FROM ~)",
        "SELECT len(a) FROM (SELECT array_agg(id) AS a FROM ~)",
    ),
    "array_agg, grouped": (
        "SELECT country, cardinality(a) FROM (SELECT country, array_agg(name) AS a FROM ~ GROUP BY 1)",
        "SELECT country, len(a) FROM (SELECT country, array_agg(name) AS a FROM ~ GROUP BY 1)",
    ),
    "array_agg, many groups": (
        "SELECT max(cardinality(a)), sum(cardinality(a)) FROM (SELECT visitor, array_agg(id) AS a FROM ~ GROUP BY 1)",
        "SELECT max(len(a)), sum(len(a)) FROM (SELECT visitor, array_agg(id) AS a FROM ~ GROUP BY 1)",
    ),
    "array_agg distinct": (
        "SELECT cardinality(a) FROM (SELECT array_agg(DISTINCT visitor) AS a FROM ~)",
        "SELECT len(a) FROM (SELECT array_agg(DISTINCT visitor) AS a FROM ~)",
    ),
    "array_agg distinct, grouped": (
        "SELECT country, cardinality(a) FROM (SELECT country, array_agg(DISTINCT name) AS a FROM ~ GROUP BY 1)",
        "SELECT country, len(a) FROM (SELECT country, array_agg(DISTINCT name) AS a FROM ~ GROUP BY 1)",
    ),
    "array_agg in order": "SELECT a[1], a[1000000] FROM (SELECT array_agg(visitor ORDER BY id) AS a FROM ~)",
    "array_agg in order, grouped": "SELECT country, a[1], a[9000] FROM (SELECT country, array_agg(id ORDER BY id DESC) AS a FROM ~ GROUP BY 1)",
    "string_agg": "SELECT length(s) FROM (SELECT string_agg(name, ',') AS s FROM ~)",
    "string_agg, grouped": "SELECT country, length(s) FROM (SELECT country, string_agg(name, ',') AS s FROM ~ GROUP BY 1)",
    "string_agg distinct, grouped": "SELECT country, length(s) FROM (SELECT country, string_agg(DISTINCT name, ',') AS s FROM ~ GROUP BY 1)",
    "string_agg in order, grouped": "SELECT country, length(s) FROM (SELECT country, string_agg(name, ',' ORDER BY id) AS s FROM ~ GROUP BY 1)",
    "count distinct of integers": "SELECT count(DISTINCT visitor), count(DISTINCT id % 3000) FROM ~",
    "count distinct of texts": "SELECT count(DISTINCT name), count(DISTINCT country) FROM ~",
    "count distinct, grouped": "SELECT country, count(DISTINCT name), count(DISTINCT visitor) FROM ~ GROUP BY 1",
    "count distinct, many groups": "SELECT max(c), sum(c) FROM (SELECT visitor, count(DISTINCT name) AS c, count(DISTINCT id) AS d FROM ~ GROUP BY 1)",
    "sum distinct": "SELECT sum(DISTINCT visitor), sum(DISTINCT id) FROM ~",
    "sum and avg distinct, grouped": "SELECT country, sum(DISTINCT visitor), CAST(avg(DISTINCT price) AS DOUBLE) FROM ~ GROUP BY 1",
    "approx_distinct, many groups": (
        "SELECT count(*), sum(c) FROM (SELECT id % 20000, approx_distinct(name) AS c FROM ~ GROUP BY 1)",
        "SELECT count(*), sum(c) FROM (SELECT id % 20000, approx_count_distinct(name) AS c FROM ~ GROUP BY 1)",
    ),
    "approx_median, many groups": (
        "SELECT count(*), avg(c) FROM (SELECT id % 20000, approx_median(score) AS c FROM ~ GROUP BY 1)",
        "SELECT count(*), avg(c) FROM (SELECT id % 20000, approx_quantile(score, 0.5) AS c FROM ~ GROUP BY 1)",
    ),
    "approx_percentile_cont, grouped": (
        "SELECT country, approx_percentile_cont(score, 0.9) FROM ~ GROUP BY 1",
        "SELECT country, approx_quantile(score, 0.9) FROM ~ GROUP BY 1",
    ),
    "nth_value, grouped": (
        "SELECT country, nth_value(id, 90000 ORDER BY id) FROM ~ GROUP BY 1",
        "SELECT country, (array_agg(id ORDER BY id))[90000] FROM ~ GROUP BY 1",
    ),
    "first_value and last_value, many groups": (
        "SELECT count(*), sum(length(a) + length(b)) FROM (SELECT visitor, first_value(name ORDER BY id) AS a, last_value(name ORDER BY id) AS b FROM ~ GROUP BY 1)",
        "SELECT count(*), sum(length(a) + length(b)) FROM (SELECT visitor, first(name ORDER BY id) AS a, last(name ORDER BY id) AS b FROM ~ GROUP BY 1)",
    ),
    "min and max of texts, many groups": "SELECT count(*), max(a), min(b) FROM (SELECT visitor, min(name) AS a, max(name) AS b FROM ~ GROUP BY 1)",
    "avg and variance, many groups": "SELECT count(*) FROM (SELECT id, avg(price), var_samp(score), corr(score, visitor) FROM ~ GROUP BY 1)",
}
SHORT = ["median, grouped", "array_agg, grouped", "string_agg, grouped", "count distinct, grouped", "array_agg in order, grouped", "median"]


def table(rows: int) -> pathlib.Path:
    """The file with the rows, made once."""
    path = CACHE / "data" / f"growing-state-{rows}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        copy = f"COPY ({TABLE.format(rows=rows)}) TO '{path}'"
        subprocess.run([binary(), "sql", "-q", "-c", copy], check=True, timeout=ANSWER_SECONDS_MAX)
    return path


# Runs a command and says at the end how much memory it had, in KiB. What this process had would count as the command's until that is
# loaded, so a small one starts it.
LAUNCHER = """
import os, signal, subprocess, sys
process = subprocess.Popen(sys.argv[3:])
signal.signal(signal.SIGALRM, lambda *_: process.kill())
signal.alarm(int(sys.argv[2]))
_, status, usage = os.wait4(process.pid, 0)
with open(sys.argv[1], "w") as said:
    print(usage.ru_maxrss, usage.ru_utime + usage.ru_stime, file=said)
sys.exit(abs(os.waitstatus_to_exitcode(status)))
"""


class Outcome:
    """One run of ours: its peak, and its rows or its error."""

    def __init__(self, text: str, memory: int):
        command = [binary(), "sql", "-q", "--memory", f"{memory // MIB}MiB", "--format", "csv", "-c", text]
        with tempfile.NamedTemporaryFile("r") as said:
            launch = [sys.executable, "-S", "-E", "-c", LAUNCHER, said.name, str(ANSWER_SECONDS_MAX), *command]
            ended = subprocess.run(launch, capture_output=True, text=True)
            peak, seconds = said.read().split()
        self.peak = int(peak) * 1024
        self.seconds = float(seconds)
        self.error = (ended.stderr or f"exit code {ended.returncode}") if ended.returncode else ""
        self.rows = sorted(line.split(",") for line in ended.stdout.splitlines()[1:])

    def is_want_of_memory(self) -> bool:
        return re.search(r"under its limit|of the query memory|reached its memory limit|the query was stopped", self.error) is not None

    def named_limit(self) -> int | None:
        named = re.search(r"--memory (\d+)(MiB|GiB) would be enough", self.error)
        return named and int(named[1]) * (MIB if named[2] == "MiB" else 1024 * MIB)


def is_equal(ours: list[list[str]], theirs: list[list[str]], tolerance: float) -> bool:
    def equal(one: str, other: str) -> bool:
        try:
            return one == other or math.isclose(float(one), float(other), rel_tol=tolerance)
        except ValueError:
            return False

    return len(ours) == len(theirs) and all(
        len(row) == len(other) and all(map(equal, row, other)) for row, other in zip(ours, theirs)
    )


def fault(name: str, path: pathlib.Path, connection, memory: int, show: bool) -> str | None:
    ours, theirs = STATEMENTS[name] if isinstance(STATEMENTS[name], tuple) else (STATEMENTS[name],) * 2
    ours, theirs = (text.replace("~", f"'{path}'") for text in (ours, theirs))
    outcome = Outcome(ours, memory)
    report = f"{outcome.peak / MIB:.0f} of {memory // MIB} MiB, {outcome.seconds:.1f} CPU-s"
    print(f"{name}: {report}, {'refused' if outcome.error else 'answered'}", flush=True)
    if show and outcome.error:
        print(outcome.error)
    if outcome.peak > memory:
        return f"{report}: more than it may"
    for _ in range(TRIES_MAX):
        enough = outcome.named_limit()
        if not outcome.error or not outcome.is_want_of_memory() or enough is None:
            break
        said = outcome.error
        outcome = Outcome(ours, enough)
        print(f"  with {enough // MIB} MiB: {outcome.peak / MIB:.0f} MiB, {'refused' if outcome.error else 'answered'}", flush=True)
        if outcome.peak > enough:
            return f"{outcome.peak / MIB:.0f} MiB with a limit of {enough // MIB} MiB"
        if outcome.error:
            return f"{enough // MIB} MiB were not enough: {outcome.error} after: {said}"
    if outcome.error:
        return None if outcome.is_want_of_memory() else outcome.error
    rows = [["" if value is None else str(value) for value in row] for row in connection.sql(theirs).fetchall()]
    if not is_equal(outcome.rows, sorted(rows), APPROXIMATE if name.startswith("approx") else 1e-9):
        return f"answers {outcome.rows[:3]}, and DuckDB {sorted(rows)[:3]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=18_000_000)
    parser.add_argument("--memory", type=int, default=256, help="MiB")
    parser.add_argument("--short", action="store_true", help="some of the statements")
    parser.add_argument("--only", help="the statements whose names contain this")
    parser.add_argument("--show", action="store_true", help="show errors that are no faults")
    options = parser.parse_args()
    try:
        import duckdb
    except ImportError:
        python = venv("duckdb", DUCKDB) / "python"
        os.execv(python, [python, __file__, *sys.argv[1:]])
    path = table(options.rows)
    names = SHORT if options.short else [name for name in STATEMENTS if (options.only or "") in name]
    faults = []
    with duckdb.connect() as connection:
        for name in names:
            if found := fault(name, path, connection, options.memory * MIB, options.show):
                faults.append(name)
                print(f"FAIL {name}: {' '.join(found.split())}", flush=True)
    print(f"{len(names)} aggregates, {len(faults)} of them wrong")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
