"""Batches of `yeoul stream` over files beside those of PySpark: random queries from a seed, one file of each stream to a batch, and the
rows of each batch have to be the same, empty batches too.

Usage: spark.py [--cases N] [--seed N] [--case I]    exits 1 if a batch differs
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import harness  # noqa: E402

SPARK = ["pyspark==4.2.0"]
SECONDS_MAX = 3600
EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
# Sums of doubles are added in another order by each.
RELATIVE = 1e-9
AGGREGATES = ["count(*)", "count(v)", "sum(v)", "min(v)", "max(v)", "avg(v)", "min(ts)", "max(k)", "stddev(v)", "var_pop(v)", "sum(d)"]
FILTERS = ["v > 3", "k <> 'a'", "v IS NOT NULL", "ts > TIMESTAMP '2026-01-01 00:00:10'", "k = 'b' OR v < 5"]


def iso(seconds):
    return (EPOCH + datetime.timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rows(chance, start, count):
    """Some without a key, value or time, some late, some far behind or before 1970."""
    for _ in range(count):
        second = start + chance.uniform(-12, 12) if chance.random() < 0.8 else start - chance.uniform(10, 60)
        # Whole seconds meet the edges of windows and bounds.
        second = round(second) if chance.random() < 0.5 else round(second, 3)
        row = {"k": chance.choice("abcd"), "v": chance.randrange(10), "d": chance.randrange(100) / 8, "ts": iso(second)}
        if chance.random() < 0.05:
            row["ts"] = chance.choice(["1970-01-01T00:00:00.000Z", "1969-12-31T23:59:50.000Z"])
        for name in row:
            if chance.random() < 0.04:
                row[name] = None
        yield row


def stream(chance):
    """Rows of each file, and how long the watermark waits."""
    files, start = [], 10
    for _ in range(chance.randrange(2, 6)):
        files.append(list(rows(chance, start, chance.choice([0, 1, 4, 8, 15]))))
        start += chance.choice([0, 5, 10, 20, 40])
    return {"delay": chance.choice([0, 2, 5, 10]), "files": files}


def where(chance):
    return f" WHERE {chance.choice(FILTERS)}" if chance.random() < 0.4 else ""


def calculation(chance):
    select = f"SELECT k, v * 2 AS w, ts, d FROM s{where(chance)}"
    return {"kind": "calculation", "mode": "append", "spark": select, "yeoul": select, "streams": {"s": stream(chance)}}


def union(chance):
    select = f"SELECT k, v, ts FROM s{where(chance)} UNION ALL SELECT k, v + 100 AS v, ts FROM t{where(chance)}"
    return {"kind": "union", "mode": "append", "spark": select, "yeoul": select, "streams": {"s": stream(chance), "t": stream(chance)}}


def aggregation(chance):
    functions = chance.sample(AGGREGATES, chance.randrange(1, 5))
    functions = ", ".join(f"{function} AS f{at}" for at, function in enumerate(functions))
    mode, keys, condition = chance.choice(["append", "update", "complete"]), chance.choice(["", "k"]), where(chance)
    slide = chance.choice([5, 10])
    size, offset = slide * chance.choice([1, 1, 2, 3]), chance.choice([0, 0, 2])
    name = {"append": "ON WINDOW CLOSE", "update": "UPDATES", "complete": "COMPLETE"}[mode]
    extra = f", {keys}" if keys else ""
    window = f"window(ts, '{size} seconds', '{slide} seconds', '{offset} seconds')"
    spark = f"SELECT window.start AS window_start, window.end AS window_end{extra}, {functions} FROM s{condition} GROUP BY {window}{extra}"
    table, shift = "TABLE s, DESCRIPTOR(ts)", f", INTERVAL '{offset}' SECOND" if offset else ""
    sizes = f"INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND"
    function = f"TUMBLE({table}, INTERVAL '{size}' SECOND{shift})" if size == slide else f"HOP({table}, {sizes}{shift})"
    yeoul = f"SELECT window_start, window_end{extra}, {functions} FROM {function}{condition} GROUP BY window_start, window_end{extra} EMIT {name}"
    return {"kind": "aggregation", "mode": mode, "spark": spark, "yeoul": yeoul, "streams": {"s": stream(chance)}}


def deduplication(chance):
    keys = chance.choice([["k"], ["k", "v"], ["k", "ts"], ["ts"]])
    is_within = chance.random() < 0.5
    select, condition = ", ".join(keys), where(chance)
    form = "DISTINCT WITHIN WATERMARK ON" if is_within else "DISTINCT ON"
    # Of equal keys any row of a batch may be the first: only the keys are compared, and the time stays a column that the step sees.
    return {
        "kind": "deduplication", "mode": chance.choice(["append", "update"]), "streams": {"s": stream(chance)},
        "spark": f"SELECT * FROM s{condition}", "keys": keys, "within": is_within, "columns": keys,
        "yeoul": f"SELECT {form} ({select}) k, v, d, ts FROM s{condition}",
    }  # fmt: skip


def join(chance):
    kind = chance.choice(["", "", "LEFT", "RIGHT", "FULL", "LEFT SEMI"])
    low, high = chance.choice([">", ">="]), chance.choice(["<", "<="])
    first, last = chance.choice([0, 2, 5]), chance.choice([1, 5, 10])
    bounds = [f"r.ts {low} l.ts - INTERVAL '{first}' SECOND", f"r.ts {high} l.ts + INTERVAL '{last}' SECOND"]
    form = chance.choice(["bounds", "bounds", "time", "own"])
    if form == "time":
        bounds = ["l.ts = r.ts"]
    if form == "own":
        bounds.append("l.v > 3")
    condition = " AND ".join(["l.k = r.k", *bounds])
    columns = "l.k, l.v, l.ts" if kind == "LEFT SEMI" else "l.k AS lk, l.v AS lv, l.ts AS lts, r.k AS rk, r.v AS rv, r.ts AS rts"
    select = f"SELECT {columns} FROM s AS l {kind} JOIN t AS r ON {condition}"
    return {"kind": f"join {kind.lower()} {form}", "mode": "append", "spark": select, "yeoul": select,
            "streams": {"s": stream(chance), "t": stream(chance)}}  # fmt: skip


KINDS = [aggregation, deduplication, join, aggregation, join, calculation, deduplication, union]


def case(seed, number):
    """The same for the same seed and number."""
    return KINDS[number % len(KINDS)](random.Random(f"{seed} {number}"))


def write_files(folder, made):
    for name, values in made["streams"].items():
        place = folder / name
        place.mkdir(parents=True)
        for number, lines in enumerate(values["files"]):
            path = place / f"{number}.json"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            os.utime(path, (1_700_000_000 + number,) * 2)


def by_yeoul(folder, made):
    """Rows of each batch; or why there are none."""
    job = "SET trigger = 'available now';\n"
    for name, values in made["streams"].items():
        job += f"""CREATE STREAM {name} (k STRING, v BIGINT, d DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{values["delay"]}' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder / name}', 'format' = 'json', 'maxFilesPerTrigger' = '1');
"""
    job += f"CREATE SINK out WITH ('connector' = 'filesystem', 'path' = '{folder / 'out'}', 'format' = 'json');\n"
    text = made["yeoul"] + (" EMIT UPDATES" if made["mode"] == "update" and "EMIT" not in made["yeoul"] else "")
    (folder / "job.sql").write_text(job + f"INSERT INTO out {text};\n")
    command = [harness.binary(), "stream", "run", folder / "job.sql", "--checkpoint", folder / "checkpoint"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if ended.returncode != 0:
        lines = [line for line in ended.stderr.splitlines() if '"event":"progress"' not in line]
        return None, "\n".join(lines)[-1500:]
    numbers = sorted(int(path.stem.removeprefix("batch-")) for path in (folder / "out").glob("batch-*.json"))
    return [[json.loads(line) for line in (folder / f"out/batch-{n}.json").read_text().splitlines()] for n in numbers], None


def by_spark(folder, cases):
    python = harness.venv("spark4", SPARK) / "python"
    (folder / "cases.json").write_text(json.dumps(cases))
    environment = os.environ | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
    command = [python, HERE / "spark_batches.py", folder]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)
    if ended.returncode != 0:
        raise SystemExit(f"Spark: {ended.stdout[-1000:]}{ended.stderr[-4000:]}")
    return json.loads((folder / "batches.json").read_text())


def normal(value):
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        time = datetime.datetime.fromisoformat(value)
        return (time.replace(tzinfo=datetime.timezone.utc) if time.tzinfo is None else time).isoformat()
    return float(f"{value:.10g}") if isinstance(value, float) else value


def counted(batch, columns):
    return collections.Counter(tuple(repr(normal(row.get(name))) for name in columns) for row in batch)


def difference(made, found, expected):
    """The first batch that differs."""
    columns = made.get("columns") or expected["columns"]
    expected = expected["batches"]
    for number in range(max(len(found), len(expected))):
        if number >= len(found) or number >= len(expected):
            return f"{len(found)} batches, Spark has {len(expected)}"
        ours, theirs = counted(found[number], columns), counted(expected[number], columns)
        if ours != theirs:
            return f"batch {number} of {columns}: only ours {list(ours - theirs)[:4]}, only Spark's {list(theirs - ours)[:4]}"
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cases", type=int, default=12)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--case", type=int, help="only this one")
    given = arguments.parse_args()
    numbers = range(given.cases) if given.case is None else [given.case]
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        folder = pathlib.Path(place)
        cases = {str(number): case(given.seed, number) for number in numbers}
        for number, made in cases.items():
            write_files(folder / number, made)
        expected = by_spark(folder, cases)
        wrong, same, refused, rows_seen, empty = [], 0, 0, 0, 0
        for number, made in cases.items():
            found, error = by_yeoul(folder / number, made)
            theirs = expected[number]
            if found is None or "error" in theirs:
                # What Spark refuses has to be refused, and nothing else.
                if found is None and "error" in theirs:
                    refused += 1
                    continue
                told = f"ours: {error or 'runs'}; Spark: {theirs.get('error', 'runs')[:800]}"
            else:
                told = difference(made, found, theirs)
            if told is None:
                same += 1
                rows_seen += sum(map(len, found))
                empty += sum(not batch for batch in found)
            else:
                wrong.append(number)
                print(f"seed {given.seed}, case {number} ({made['kind']}, {made['mode']}): {told}\n  {made['yeoul']}\n  {made['spark']}")
    print(f"{same} cases give Spark's batches ({rows_seen} rows, {empty} batches without any), {refused} are refused by both, {len(wrong)} differ")
    assert rows_seen > 0 or wrong, "no case had a row: nothing would be shown"
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
