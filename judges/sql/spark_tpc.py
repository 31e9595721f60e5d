"""TPC-H and TPC-DS in the words of Spark's own tests, answered with `--dialect spark`, and PySpark's answers beside them.

Usage: spark_tpc.py [tpch] [tpcds] [--data DIR] [--out FILE]    exits 1 if an answer is another, or a query is refused that Spark answers
       spark_tpc.py [tpch] [tpcds] --times N [--scale S]         the time of each query in both dialects in turn, the best of N runs
       spark_tpc.py --self-test

The texts are in the tests jar that `spark_suite.py` brings. `--data` is a folder with `tpch-0.1` and `tpcds-0.1`, a Parquet file for each
table (`yeoul bench generate` makes them); PySpark's answers of them are kept in the cache. What Spark refuses must be refused, too.
Times are of the texts that both dialects answer.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import re
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import functions  # noqa: E402
import spark_golden  # noqa: E402
from harness import CACHE  # noqa: E402
from shell import Answer, Pairs, Shell  # noqa: E402
from spark_suite import is_ordered, suite  # noqa: E402

ANSWER_SECONDS_MAX = 120
SCALE = "0.1"
# Queries whose order leaves open which of several rows is first.
TIES = {"q6", "q77"}
# Columns that Spark's tests name otherwise than the benchmark does.
OTHER_NAMES = {"customer": "c_last_review_date_sk AS c_last_review_date"}


def queries(name: str) -> dict[str, str]:
    """The texts of a benchmark by the names of their files."""
    paths = (suite() / name).glob("q*.sql")
    number = lambda path: (int(re.findall(r"\d+", path.stem)[0]), path.stem)
    return {path.stem: path.read_text() for path in sorted(paths, key=number)}


def tables(folder: pathlib.Path, is_own: bool) -> list[str]:
    """Statements for a view of each file, for ours or for Spark."""
    made = []
    for file in sorted(folder.glob("*.parquet")):
        besides = f", {other}" if folder.name.startswith("tpcds") and (other := OTHER_NAMES.get(file.stem)) else ""
        source = f"'{file}'" if is_own else f"parquet.`{file}`"
        made.append(f"CREATE {'' if is_own else 'TEMPORARY '}VIEW {file.stem} AS SELECT *{besides} FROM {source}")
    return made


def verdict(answer: Answer, theirs: dict, has_ties: bool = False) -> str | None:
    """What is not alike; nothing if all is."""
    if "error" in theirs:
        return None if answer.rows is None else f"answered, in Spark: {theirs['error']}"
    if answer.rows is None:
        return answer.message()
    case = spark_golden.Case(theirs["query"], theirs["schema"], theirs["output"].rstrip("\n"))
    rows = [[value for _, value in row] for row in answer.rows]
    found = spark_golden.compared(rows, case, is_ordered(case.sql))
    if found == "right" or has_ties and found == "other order":
        return None
    return f"{found}: {rows[:3]}, in Spark: {case.output[:200]!r}"


def judged(name: str, data: pathlib.Path) -> dict[str, str | None]:
    """What is not alike of each query."""
    texts, folder = queries(name), data / f"{name}-{SCALE}"
    own = tables(folder, True)
    assert own and texts, f"{folder} has no tables, or the jar no queries"
    theirs = functions.answers_of_spark([*tables(folder, False), *texts.values()], CACHE / f"spark-{name}-{SCALE}.json")
    flags = ["--memory", "2GiB", "--threads", "2"]
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-", dir=os.environ.get("YEOUL_JUDGE_TMP")) as place:
        with Shell(pathlib.Path(place), flags, ANSWER_SECONDS_MAX) as shell:
            first = [*own, "SET yeoul.dialect = 'spark'"]
            for text, answer in zip(first, shell.run_all(first), strict=True):
                if answer.rows is None:
                    raise SystemExit(f"error: {text}: {answer.error}")
            answers = shell.run_all(list(texts.values()))
            return {query: verdict(answer, theirs[text], query in TIES) for (query, text), answer in zip(texts.items(), answers, strict=True)}


def timed(name: str, data: pathlib.Path, runs: int, scale: str) -> dict[str, tuple[float, float]]:
    """Seconds of each query in the default dialect, and in Spark's."""
    own, best = tables(data / f"{name}-{scale}", True), {}
    assert own, f"no tables in {data / f'{name}-{scale}'}"
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-", dir=os.environ.get("YEOUL_JUDGE_TMP")) as place, contextlib.ExitStack() as stack:
        shells = []
        for dialect, statements in (("default", own), ("spark", [*own, "SET yeoul.dialect = 'spark'"])):
            folder = pathlib.Path(place) / dialect
            folder.mkdir()
            shells.append(stack.enter_context(Shell(folder, ["--threads", "2"], ANSWER_SECONDS_MAX)))
            if refused := [answer.message() for answer in shells[-1].run_all(statements) if answer.rows is None]:
                raise SystemExit(f"error: {refused[0]}")
        for query, text in queries(name).items():
            seconds = ([], [])
            # The first run brings the files into memory.
            for run in range(runs + 1):
                for side in (0, 1) if run % 2 else (1, 0):
                    begin = time.monotonic()
                    is_answered = shells[side].run(text).rows is not None
                    seconds[side].append(time.monotonic() - begin if is_answered else math.inf)
            if max(map(max, seconds)) < math.inf:
                best[query] = (min(seconds[0][1:]), min(seconds[1][1:]))
    return best


def print_times(name: str, best: dict[str, tuple[float, float]], count: int):
    default, spark = (sum(pair[side] for pair in best.values()) for side in (0, 1))
    ratio = lambda query: best[query][1] / best[query][0]
    far = ", ".join(f"{query} {ratio(query):.2f}" for query in sorted(best, key=ratio, reverse=True)[:3])
    print(f"{name}: {len(best)} of {count} queries in {spark:.2f} s, in the default dialect {default:.2f} s: {spark / default:.3f}; {far}")


def self_test():
    theirs = {"query": "SELECT a FROM t ORDER BY a", "schema": "struct<a:int>", "output": "1\n2\n"}
    answer = lambda *rows: Answer([Pairs([("a", spark_golden.Number(row))]) for row in rows])
    assert verdict(answer("1", "2"), theirs) is None
    assert verdict(answer("2", "1"), theirs, True) is None
    assert verdict(answer("2", "1"), theirs) and verdict(answer("1"), theirs) and verdict(Answer(None, "error: no"), theirs)
    refused = {"query": "SELECT 1 / 0", "error": "divide by zero"}
    assert verdict(Answer(None, "error: no"), refused) is None and verdict(answer("1"), refused)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=["tpch", "tpcds", []], help="by default both")
    parser.add_argument("--data", type=pathlib.Path, default=CACHE / "data", help="folder of the tables")
    parser.add_argument("--out", type=pathlib.Path, help="write what was found as JSON")
    parser.add_argument("--times", type=int, metavar="N", help="time both dialects, with the best of N runs")
    parser.add_argument("--scale", default="1", help="scale of the tables that are timed")
    parser.add_argument("--self-test", action="store_true", help="test the judge itself")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    if options.times:
        for name in options.suites or ["tpch", "tpcds"]:
            print_times(name, timed(name, options.data, options.times, options.scale), len(queries(name)))
        return 0
    found = {name: judged(name, options.data) for name in options.suites or ["tpch", "tpcds"]}
    for name, of_suite in found.items():
        for query, what in of_suite.items():
            if what is not None:
                print(f"FAIL {name} {query}: {' '.join(what.split())[:400]}")
        print(f"{name}: {sum(what is None for what in of_suite.values())} of {len(of_suite)} queries alike")
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))
    return 1 if any(what is not None for of_suite in found.values() for what in of_suite.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
