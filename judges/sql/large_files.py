"""Files with large values, wide rows, long lists and maps, read by processes that may have 256 and 512 MiB.

Usage: large_files.py [--short] [--show]    exits 1 if a process had more, answered wrongly, or failed without an error about memory

The operating system says how much a process had at its peak. What is right is known from how the files are made: by DuckDB and by
`yeoul sql` without a limit, or written here.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import binary, venv
from large_values import MIB, end_of

# The version with which the benchmarks compare.
DUCKDB = ["duckdb==2.0.0"]
LIMITS_MIB = (256, 512)
MAKE_SECONDS_MAX = 600


class File:
    """A file, how it is made, and queries about it with their answers. ~ is the file."""

    def __init__(self, maker, rows, queries, options=""):
        self.maker = maker
        self.rows = rows
        self.queries = queries
        self.options = options


def texts(rows, length):
    """Queries about texts of one length in a column `doc`, of which none has a z, and numbers from 0 in `id`."""
    return {
        "SELECT sum(length(doc)) FROM ~": rows * length,
        "SELECT count(*) FROM ~ WHERE doc LIKE '%zzz%'": 0,
        "SELECT length(doc) FROM (SELECT doc FROM ~ ORDER BY length(doc) DESC LIMIT 1)": length,
        "SELECT count(*) FROM (SELECT id % 3, max(doc) AS doc FROM ~ GROUP BY 1) WHERE length(doc) > 10": min(rows, 3),
        "SELECT sum(id) FROM ~": rows * (rows - 1) // 2,
    }


# Texts of as many letters that are not alike.
TEXT = "repeat(chr(97 + CAST(i % 20 AS INT)), {length} - 8) || lpad(CAST(i AS VARCHAR), 8, '0')"
SERIES = "generate_series(0, {last}) AS t(i)"


def distinct(rows, length):
    return f"SELECT i AS id, {TEXT.format(length=length)} AS doc FROM {SERIES.format(last=rows - 1)}"


def same(rows, length):
    return f"SELECT i AS id, repeat('abcdefgh', {length // 8}) AS doc FROM {SERIES.format(last=rows - 1)}"


WIDE = 300
STRUCT = ", ".join(f"'t{n}', {TEXT.format(length=40_000)}" for n in range(10))
SHORT = {
    "2,000 texts of 400 KB, 500 a row group": File("ours", distinct(2000, 400_000), texts(2000, 400_000), "max_row_group_size 500"),
    "6 texts of 80 MB": File("duckdb", distinct(6, 80_000_000), texts(6, 80_000_000)),
    "3,000 times a text of 1 MB": File("duckdb", same(3000, 1_000_000), texts(3000, 1_000_000)),
}
LONG = {
    "2,000 texts of 400 KB, by DuckDB": File("duckdb", distinct(2000, 400_000), texts(2000, 400_000)),
    "1,000 times a text of 1 MB, by ours": File("ours", same(1000, 1_000_000), texts(1000, 1_000_000)),
    "8,000 texts of 100 KB": File("duckdb", distinct(8000, 100_000), texts(8000, 100_000), "ROW_GROUP_SIZE 2048"),
    "300 texts of 4 MB, 10 a row group": File("ours", distinct(300, 4_000_000), texts(300, 4_000_000), "max_row_group_size 10"),
    "a text of 100 MB among 20,000 small ones": File(
        "duckdb",
        f"SELECT i AS id, CASE WHEN i = 7777 THEN repeat('abcd', 25000000) ELSE 'abc' END AS doc FROM {SERIES.format(last=19_999)}",
        {"SELECT max(length(doc)) FROM ~": 100_000_000, "SELECT count(*) FROM ~ WHERE doc = 'abc'": 19_999},
    ),
    "300 columns of texts of 1 KB": File(
        "duckdb",
        f"SELECT i AS id, {', '.join(f'{TEXT.format(length=1000)} AS c{n}' for n in range(WIDE))} FROM {SERIES.format(last=1999)}",
        {
            "SELECT sum(length(c7) + length(c299)) FROM ~": 2000 * 2000,
            "SELECT count(*) FROM (SELECT * FROM ~ ORDER BY c1 LIMIT 10)": 10,
            "SELECT count(*) FROM (SELECT * FROM ~ WHERE c3 LIKE '%00007')": 1,
        },
    ),
    "60 lists of 1,000,000 numbers": File(
        "duckdb",
        f"SELECT i AS id, range(i, i + 1000000) AS l FROM {SERIES.format(last=59)}",
        {"SELECT sum(cardinality(l)) FROM ~": 60_000_000, "SELECT max(l[1000000]) FROM ~": 59 + 999_999},
    ),
    "40 lists of 100 texts of 100 KB": File(
        "duckdb",
        f"SELECT i AS id, list_transform(range(100), lambda n: repeat('abcdefgh', 12500) || n) AS l FROM {SERIES.format(last=39)}",
        {"SELECT sum(cardinality(l)) FROM ~": 4000, "SELECT max(length(l[1])) FROM ~": 100_001},
    ),
    "40 maps of 10,000 texts of 1 KB": File(
        "duckdb",
        f"SELECT i AS id, map(range(10000), list_transform(range(10000), lambda n: repeat('abcdefgh', 125) || n)) AS m FROM {SERIES.format(last=39)}",
        {"SELECT sum(cardinality(m)) FROM ~": 400_000, "SELECT count(*) FROM ~ WHERE map_extract(m, 7)[1] LIKE '%h7'": 40},
    ),
    "structs of 10 texts of 40 KB": File(
        "ours",
        f"SELECT i AS id, named_struct({STRUCT}) AS s FROM {SERIES.format(last=1999)}",
        {"SELECT sum(length(s['t1'])) FROM ~": 80_000_000, "SELECT count(*) FROM (SELECT s FROM ~ ORDER BY id DESC LIMIT 3)": 3},
    ),
    "a JSON line of 300 MB": File("json", [(0, 300_000_000)], {"SELECT max(length(doc)) FROM ~": 300_000_000}),
    "100 JSON lines of 3 MB": File("json", [(n, 3_000_000) for n in range(100)], texts(100, 3_000_000)),
    "a CSV value of 100 MB": File("csv", [(0, 100_000_000)], {"SELECT max(length(doc)) FROM ~": 100_000_000}),
    "1,000 CSV values of 400 KB": File("csv", [(n, 400_000) for n in range(1000)], texts(1000, 400_000)),
}


def write_text(file, path):
    """Rows of a number and a text of a length, without ever having a whole one."""
    with open(path, "w") as out:
        if file.maker == "csv":
            out.write("id,doc\n")
        for number, length in file.rows:
            out.write(f'{{"id": {number}, "doc": "' if file.maker == "json" else f"{number},")
            for _ in range(length // 1000):
                out.write("abcdefghij" * 100)
            out.write('"}\n' if file.maker == "json" else "\n")


def make(file, path):
    if file.maker in ("json", "csv"):
        write_text(file, path)
        return
    options = f", {file.options}" if file.options and file.maker == "duckdb" else ""
    if file.maker == "duckdb":
        script = "import duckdb, sys; duckdb.sql(sys.stdin.read())"
        command = [venv("duckdb", DUCKDB) / "python", "-c", script]
        text = f"COPY ({file.rows}) TO '{path}' (FORMAT PARQUET{options})"
    else:
        command = [binary(), "sql", "-q"]
        options = f" OPTIONS ({file.options})" if file.options else ""
        text = f"COPY ({file.rows}) TO '{path}' STORED AS PARQUET{options};"
    subprocess.run(command, input=text, text=True, check=True, timeout=MAKE_SECONDS_MAX, stdout=subprocess.DEVNULL)


# What an error says that is about memory.
WANT_OF_MEMORY = r"under its limit|of the query memory|reached its memory limit|is larger than|has no end within|the query was stopped"


def fault(sql, right, mib, show):
    command = [binary(), "sql", "--memory", f"{mib}MiB", "-q", "--format", "csv", "-c", sql]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    code, peak, _ = end_of(process)
    rows, error = process.stdout.read().split("\n")[1:2], process.stderr.read().strip()
    said = error.replace("\n", " ") if code else ", ".join(rows)
    if show:
        print(f"  {mib} MiB, {peak // MIB} MiB: {said[:200]}", flush=True)
    if peak > mib * MIB:
        return f"had {peak // MIB} MiB of {mib}: {said[:200]}"
    if code is None:
        return "no end"
    if code == 0:
        return None if rows == [str(right)] else f"answered {rows} instead of {right}"
    return None if code == 1 and re.search(WANT_OF_MEMORY, error) else f"ended with {code}: {error}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="only some of the files")
    parser.add_argument("--show", action="store_true", help="what each query says")
    args = parser.parse_args()
    asked = failed = 0
    for name, file in (SHORT if args.short else SHORT | LONG).items():
        ending = file.maker if file.maker in ("json", "csv") else "parquet"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"large.{ending}"
            make(file, path)
            print(f"{name} ({path.stat().st_size // 1024} KiB)", flush=True)
            for sql, right in file.queries.items():
                for mib in LIMITS_MIB:
                    asked += 1
                    wrong = fault(sql.replace("~", f"'{path}'"), right, mib, args.show)
                    if wrong:
                        failed += 1
                        print(f"FAULT: {sql} at {mib} MiB {wrong}", flush=True)
    print(f"large files: {asked} queries, {failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
