"""Batches of `yeoul stream` over files beside those of PySpark 4.3: random queries from a seed (`spark_cases.py`), one file of each stream
to a batch, some with a restart in the middle, and the rows of each batch have to be the same, empty batches too.

Usage: spark.py [--cases N] [--seed N] [--case I] [--answers DIR]    exits 1 if a batch differs, or one refuses what the other runs
"""

import argparse
import collections
import datetime
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import harness  # noqa: E402
import spark_cases  # noqa: E402

SPARK = ["pyspark==4.3.0", "pandas==2.3.3", "pyarrow==26.0.1"]
SECONDS_MAX = 7200
# Sums of doubles are added in another order by each.
RELATIVE = 1e-9


def job(folder, made):
    """The SQL of a case."""
    text = f"SET trigger = 'available now';\nSET 'spark.sql.streaming.multipleWatermarkPolicy' = '{made['policy']}';\n"
    for name, stream in made["streams"].items():
        watermark = f", WATERMARK FOR ts AS ts - INTERVAL '{stream['delay']}'" if stream["delay"] else ""
        text += f"""CREATE STREAM {name} ({spark_cases.SCHEMA}{watermark})
WITH ('connector' = 'filesystem', 'path' = '{folder / "in" / name}', 'format' = 'json', 'maxFilesPerTrigger' = '1');
"""
    text += f"CREATE SINK out WITH ('connector' = 'filesystem', 'path' = '{folder / 'out'}', 'format' = 'json');\n"
    for step in made["yeoul"]:
        text += f"CREATE VIEW {step[0]} AS {step[1]};\n" if isinstance(step, list) else f"INSERT INTO out {step};\n"
    return text


def by_yeoul(folder, made):
    """Rows of each batch; or why there are none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.sql").write_text(job(folder, made))
    for phase in range(1 + made["has_restart"]):
        spark_cases.write_files(folder / "in", made, phase)
        command = [harness.binary(), "stream", "run", folder / "job.sql", "--checkpoint", folder / "checkpoint"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if ended.returncode != 0:
            return None, "\n".join(line for line in ended.stderr.splitlines() if not line.startswith("{"))[-1500:]
    # Epochs of ours begin at 1, and a process that goes on from a checkpoint takes a number for itself.
    numbers = sorted(int(path.stem.removeprefix("batch-")) for path in (folder / "out").glob("batch-*.json"))
    return [[json.loads(line) for line in (folder / f"out/batch-{n}.json").read_text().splitlines()] for n in numbers], None


def start_spark(folder, cases):
    python = harness.venv("spark43", SPARK) / "python"
    (folder / "cases.json").write_text(json.dumps(cases))
    environment = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(HERE), "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
    with open(folder / "spark.log", "wb") as log:
        command = [python, HERE / "spark_batches.py", folder]
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)


def answers_of_spark(folder, cases, known):
    """Spark's answers; those of `known` are taken as they are."""
    found = {number: json.loads((known / f"{number}.json").read_text()) for number in cases if known and (known / f"{number}.json").exists()}
    missing = {number: made for number, made in cases.items() if found.get(number, {}).get("case") != json.loads(json.dumps(made))}
    if missing:
        with harness.ending(start_spark(folder, missing)) as spark:
            if spark.wait(SECONDS_MAX) != 0:
                raise SystemExit(f"Spark: {(folder / 'spark.log').read_text()[-4000:]}")
    for number, made in missing.items():
        found[number] = json.loads((folder / f"{number}.json").read_text()) | {"case": made}
        if known:
            known.mkdir(parents=True, exist_ok=True)
            (known / f"{number}.json").write_text(json.dumps(found[number]))
    return found


def normal(value):
    """A value without what differs between texts of the same one: times with another zone or fraction, kinds of numbers."""
    if isinstance(value, list):
        return [normal(one) for one in value]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        time = datetime.datetime.fromisoformat(value)
        return (time.replace(tzinfo=datetime.timezone.utc) if time.tzinfo is None else time).isoformat()
    return value


def is_close(ours, theirs):
    if isinstance(ours, float) or isinstance(theirs, float):
        return ours is not None and theirs is not None and math.isclose(ours, theirs, rel_tol=RELATIVE, abs_tol=RELATIVE)
    return ours == theirs


def rounded(row):
    """Text by which equal rows of both sort alike."""
    return repr([f"{value:.6g}" if isinstance(value, (int, float)) else value for value in row])


def prepared(row, sets):
    """Lists of sets are in no order."""
    return [sorted(value) if at in sets and isinstance(value, list) else value for at, value in enumerate(map(normal, row))]


def difference(made, found, expected):
    """The first batch that differs."""
    columns, expected = expected["columns"], expected["batches"]
    sets = [int(at) for at in re.findall(r"collect_set\(\w+\) AS f(\d+)", " ".join(map(str, made["spark"])))]
    sets = [columns.index(f"f{at}") for at in sets]
    for number in range(max(len(found), len(expected))):
        if number >= len(found) or number >= len(expected):
            return f"{len(found)} batches, Spark has {len(expected)}: {[len(b) for b in found]} and {[len(b) for b in expected]} rows"
        ours = sorted((prepared([row.get(name) for name in columns], sets) for row in found[number]), key=rounded)
        theirs = sorted((prepared(row, sets) for row in expected[number]), key=rounded)
        if len(ours) == len(theirs) and all(is_close(o, t) for pair in zip(ours, theirs, strict=True) for o, t in zip(*pair, strict=True)):
            continue
        only = [[row for row in mine if not any(all(map(is_close, row, other)) for other in others)] for mine, others in ((ours, theirs), (theirs, ours))]
        return (f"batch {number} of {columns}: {len(ours)} rows, Spark has {len(theirs)} (all: {[len(b) for b in found]} and "
                f"{[len(b) for b in expected]});\n  only ours {only[0][:4]}\n  only Spark's {only[1][:4]}")  # fmt: skip
    return None


class Tally:
    """What was seen, so that a comparison of nothing is none."""

    def __init__(self):
        self.same, self.refused, self.wider, self.wrong = 0, 0, 0, []
        self.batches, self.rows, self.empty, self.restarts = 0, 0, 0, 0
        self.kinds = collections.Counter()

    def take(self, number, made, found, error, theirs):
        """Takes a case in; what is wrong with it."""
        if found is None or "error" in theirs:
            # What Spark's analyser refuses has to be refused, and nothing else.
            if theirs.get("kind") == "AnalysisException" and (found is None or made.get("is_wider")):
                self.refused += found is None
                self.wider += found is not None
                return None
            told = f"ours: {error or 'runs'}; Spark: {theirs.get('error', 'runs')[:800]}"
        else:
            told = difference(made, found, theirs)
        if told is not None:
            self.wrong.append(number)
            return told
        self.same += 1
        self.kinds[made["kind"].split(" ")[0].rstrip(",")] += 1
        self.batches += len(found)
        self.rows += sum(map(len, found))
        self.empty += sum(not batch for batch in found)
        self.restarts += made["has_restart"]
        return None

    def __str__(self):
        return (f"{self.same} cases give Spark's rows batch by batch: {self.batches} batches with {self.rows} rows, {self.empty} of them empty, "
                f"{self.restarts} restarts; {self.refused} cases are refused by both, {self.wider} by Spark alone as it is documented, "
                f"{len(self.wrong)} differ")  # fmt: skip


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cases", type=int, default=10)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--case", type=int, action="append", help="only these")
    arguments.add_argument("--answers", type=pathlib.Path, help="where Spark's answers are kept, for whoever mends ours")
    given = arguments.parse_args()
    numbers = given.case or range(given.cases)
    cases = {str(number): spark_cases.random_case(given.seed, number) for number in numbers}
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-", dir=os.environ.get("YEOUL_JUDGE_TMP")) as place:
        folder = pathlib.Path(place)
        expected = answers_of_spark(folder, cases, given.answers)
        for number, made in cases.items():
            found, error = by_yeoul(folder / "yeoul" / number, made)
            told = tally.take(number, made, found, error, expected[number])
            if told is not None:
                print(f"seed {given.seed}, case {number} ({made['kind']}, {made['mode']}): {told}\n  ours: {made['yeoul']}\n  Spark's: {made['spark']}")
    print(tally)
    assert tally.rows > 0 or tally.wrong, "no case had a row: nothing would be shown"
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
