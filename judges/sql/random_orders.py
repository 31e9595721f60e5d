"""Random queries whose rows are sorted more than once, over several small files, answered in order by ours and by DuckDB.

Usage: random_orders.py [--count N] [--seed S] [--show]    exits 1 if rows differ, or stand in another order
       random_orders.py --seed S --count 1 --show          shows the queries of one seed again

A sort that is already there need not be made again: what an engine believes to be sorted is asked for here, through columns made of
others, groups, windows, joins and limits that keep all rows. Each seed has tables, settings and 25 queries of its own, and each query
sorts by all of its columns at last, so that equal rows are the only ties.
"""

import argparse
import decimal
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import binary, venv

# The version with which the benchmarks compare.
DUCKDB = ["duckdb==2.0.0"]
ANSWER_SECONDS_MAX = 120
QUERIES = 25
FILES = 3

COLUMNS = {"a": "BIGINT", "b": "BIGINT", "s": "VARCHAR", "t": "VARCHAR", "f": "DOUBLE", "g": "TIMESTAMP"}
VALUES = {
    "a": ["-2", "-1", "0", "1", "2", "3"],
    "b": ["0", "1", "2"],
    "s": ["'a'", "'aa'", "'ab'", "'b'", "'B'", "''", "'ba'"],
    "t": ["'a'", "'aa'", "'z'", "'x'"],
    "f": [f"'{text}'::DOUBLE" for text in ["-1.5", "0.5", "0.4", "2.5", "1e10", "-0.4", "0.0", "-0.0", "NaN"]],
    "g": [f"TIMESTAMP '{text}'" for text in ["2024-01-31 10:00:00", "2024-02-01 00:00:00", "2023-12-31 23:59:59", "2024-02-29 12:00:00"]],
}
# Values made of a column, or of two of a type, most of which keep an order, or seem to.
MADE = {
    "BIGINT": [
        "{} + 1", "-{}", "{} * 2", "{} % 3", "abs({})", "coalesce({}, 0)", "CAST({} AS DOUBLE)", "CAST({} AS VARCHAR)", "nullif({}, 1)",
        "sign({})", "{} // 2", "{} * -1", "CAST({} AS DECIMAL(9,2))", "greatest({}, 1)", "power({}, 2)", "exp({})",
        "CASE WHEN {} > 1 THEN 1 ELSE 0 END", "{} + {other}", "{} - {other}",
    ],
    "DOUBLE": ["floor({})", "ceil({})", "round({})", "round({}, 1)", "abs({})", "-{}", "{} * 0.5", "trunc({})", "{} + {}", "coalesce({}, 0)"],
    "VARCHAR": [
        "upper({})", "lower({})", "concat({}, 'x')", "concat({}, {other})", "{} || {other}", "length({})", "left({}, 1)", "reverse({})",
        "trim({})", "substr({}, 2)", "concat_ws('-', {}, {other})",
    ],
    "TIMESTAMP": [
        "date_trunc('day', {})", "date_trunc('month', {})", "CAST({} AS DATE)", "year({})", "month({})", "{} + INTERVAL '1 month'",
        "CAST({} AS VARCHAR)", "extract(hour FROM {})", "extract(day FROM {})",
    ],
}
SOURCES = [
    "x", "x", "x", "x", "(SELECT * FROM x WHERE a = 1)", "(SELECT * FROM x WHERE b = a)", "(SELECT * FROM x UNION ALL SELECT * FROM x WHERE a > 0)",
    *[
        f"(SELECT x.a, y.b, x.s, y.t, x.f, y.g FROM x {kind} JOIN (SELECT * FROM x WHERE a IS NOT NULL AND f > 0) AS y ON x.a = y.a)"
        for kind in ["INNER", "LEFT", "RIGHT", "FULL"]
    ],
]
SETTINGS = [[], ["datafusion.optimizer.prefer_hash_join=false"], ["datafusion.execution.batch_size=2"]]


def table(rng: random.Random) -> str:
    def value(column: str) -> str:
        return "NULL" if rng.random() < 0.15 else rng.choice(VALUES[column])

    rows = [f"({', '.join(value(column) for column in COLUMNS)})" for _ in range(rng.randint(1, 8))]
    columns = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in COLUMNS.items())
    return f"SELECT {columns} FROM (VALUES {', '.join(rows)}) AS v({', '.join(COLUMNS)})"


def order(rng: random.Random, names: list[str], count: int | None = None) -> str:
    chosen = rng.sample(names, count or rng.randint(1, len(names)))
    return ", ".join(f"{name} {rng.choice(['ASC', 'ASC', 'DESC'])} NULLS {rng.choice(['FIRST', 'LAST', 'LAST'])}" for name in chosen)


def some(rng: random.Random, names: list[str]) -> str:
    return ", ".join(rng.sample(names, rng.randint(1, len(names))))


def query(rng: random.Random) -> str:
    source = rng.choice(SOURCES)
    columns = rng.sample(list(COLUMNS), rng.randint(2, 4))
    items = {column: column for column in columns}
    for place in range(rng.randint(0, 3)):
        column = rng.choice(columns)
        other = rng.choice([name for name in columns if COLUMNS[name] == COLUMNS[column]])
        items[f"e{place}"] = rng.choice(MADE[COLUMNS[column]]).format(column, column, other=other)
    shape, groups, distinct = rng.random(), "", ""
    if shape < 0.25:
        keys = rng.sample(columns, rng.randint(1, len(columns)))
        aggregates = {"n": "count(*)", "m": f"max({rng.choice(columns)})", "k": f"count({rng.choice(columns)})"}
        items = {key: key for key in keys} | {name: aggregates[name] for name in rng.sample(list(aggregates), rng.randint(1, 3))}
        groups = f" GROUP BY {', '.join(keys)}"
    elif shape < 0.45:
        function = rng.choice(["rank()", "dense_rank()", "count(*)", f"count({rng.choice(columns)})", f"max({rng.choice(columns)})", f"min({rng.choice(columns)})"])
        partition = rng.choice(["", "", f"PARTITION BY {some(rng, columns)} "])
        items["w"] = f"{function} OVER ({partition}ORDER BY {order(rng, columns)})"
    elif shape < 0.6:
        distinct = "DISTINCT "
    names = rng.sample(list(items), len(items))
    text = f"SELECT {distinct}{', '.join(f'{items[name]} AS {name}' for name in names)} FROM {source} AS x{groups}"
    for level in range(rng.randint(0, 2)):
        kept = rng.sample(names, rng.randint(1, len(names))) if rng.random() < 0.4 else names
        text = f"SELECT {', '.join(kept)} FROM ({text}) AS q{level} ORDER BY {order(rng, names)} LIMIT 1000"
        names = kept
    if rng.random() < 0.25:
        text = f"SELECT {', '.join(names)}, rank() OVER (PARTITION BY {some(rng, names)} ORDER BY {order(rng, names)}) AS r FROM ({text}) AS p"
        names = [*names, "r"]
    return f"SELECT * FROM ({text}) AS z ORDER BY {order(rng, names, len(names))}"


def plain(value):
    """A value as both sides write it; floats may differ in their last digits."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float, decimal.Decimal)):
        return "NaN" if value != value else round(float(value), 6) + 0.0
    return str(value).replace("T", " ")


def theirs(folder: str, queries: list[str], tables: list[str]) -> list[list | None]:
    """The rows of each query; None of one that DuckDB refuses."""
    import duckdb

    with duckdb.connect() as connection:
        for place, text in enumerate(tables):
            connection.sql(f"COPY ({text}) TO '{folder}/{place}.parquet'")
        connection.sql(f"CREATE VIEW x AS SELECT * FROM '{folder}/*.parquet'")
        answers = []
        for text in queries:
            try:
                answers.append([[plain(value) for value in row] for row in connection.execute(text).fetchall()])
            except duckdb.Error:
                answers.append(None)
        return answers


def ours(folder: str, queries: list[str], options: list[str]) -> list[list | str]:
    """The rows of each query, or the first line of the error. A script ends at an error: the rest is run again."""
    answers: list[list | str] = []
    while len(answers) < len(queries):
        statements = [f"CREATE VIEW x AS SELECT * FROM '{folder}/*.parquet'"]
        for text in queries[len(answers) :]:
            statements += [text, "SELECT 'end' AS end_of_answer"]
        command = [binary(), "sql", "-q", "--format", "json", *options, "-c", "; ".join(statements)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX)
        rows: list = []
        for line in ended.stdout.splitlines():
            row = json.loads(line, parse_float=decimal.Decimal)
            if list(row) == ["end_of_answer"]:
                answers.append(rows)
                rows = []
            else:
                rows.append([plain(value) for value in row.values()])
        if ended.returncode != 0:
            answers.append((ended.stderr.splitlines() or [f"exit {ended.returncode}"])[0])
    return answers


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100, help=f"seeds, of {QUERIES} queries each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="show each query and its answers")
    options = parser.parse_args()
    try:
        import duckdb  # noqa: F401
    except ImportError:
        python = venv("duckdb", DUCKDB) / "python"
        os.execv(python, [python, __file__, *sys.argv[1:]])
    equal = differing = refused = 0
    for seed in range(options.seed, options.seed + options.count):
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            tables = [table(rng) for _ in range(FILES)]
            queries = [query(rng) for _ in range(QUERIES)]
            settings = [f"--threads={rng.choice([1, 3])}", *[word for setting in rng.choice(SETTINGS) for word in ["--set", setting]]]
            expected = theirs(folder, queries, tables)
            answers = ours(folder, queries, settings)
        for text, rows, answer in zip(queries, expected, answers):
            if options.show:
                print(f"{text}\n{settings}\nDuckDB: {rows}\nours:   {answer}\n")
            if rows is None:
                continue
            if answer == rows:
                equal += 1
            elif isinstance(answer, str) and answer.startswith("error: not supported: "):
                refused += 1
            else:
                differing += 1
                print(f"FAIL seed {seed} {settings}: {text}\n  DuckDB: {str(rows)[:500]}\n  ours:   {str(answer)[:500]}", flush=True)
    print(f"equal: {equal}, refused: {refused}, DIFFERENT: {differing}")
    return 1 if differing or not equal else 0


if __name__ == "__main__":
    sys.exit(main())
