"""Functions of Spark and DuckDB by their examples, answered by `yeoul sql` and by the system itself.

Usage: functions.py [spark] [duckdb] [--dialect NAME] [--respell] [--out FILE] [--show]    exits 1 if an answer differs that
`functions_differences.toml` does not know, or at a panic

Spark's functions and an example query for each are in its tests jar (`sql-expression-schema.md`), the answers from PySpark. DuckDB's are
those of `duckdb_functions()` with the examples there, and calls with values of the parameters' types for those that have none. A function
is `equal` if ours answers all its examples, and alike; `different` if one answer is another; else `refused`.
"""

import argparse
import collections
import datetime
import decimal
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import spark_golden  # noqa: E402
import spark_respell  # noqa: E402
from harness import CACHE, venv  # noqa: E402
from shell import Answer, Number, Pairs, Shell, offers  # noqa: E402
from spark_suite import reason, suite  # noqa: E402

# The versions with which the other judges compare.
DUCKDB = ["duckdb==2.0.0"]
PYSPARK = ["pyspark==4.3.0", "pandas==2.3.3", "pyarrow==26.0.1"]
ANSWER_SECONDS_MAX = 30
SPARK_SECONDS_MAX = 3600
CALLS_PER_FUNCTION_MAX = 4
RELATIVE = 1e-9

# Run by PySpark: for each query of a JSON list its schema and its rows as Spark's own suite writes them, or the error.
IN_SPARK = """
import json, sys
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.memory", "3g")
         .config("spark.sql.autoBroadcastJoinThreshold", "-1").config("spark.sql.shuffle.partitions", "1")
         .config("spark.sql.session.timeZone", "America/Los_Angeles").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
result, found = spark._jvm.org.apache.spark.sql.execution.HiveResult, []
for query in json.load(open(sys.argv[1])):
    try:
        frame = spark.sql(query)._jdf
        rows = result.hiveResultString(frame.queryExecution().executedPlan())
        output = "\\n".join(rows.apply(at) for at in range(rows.length()))
        found.append({"query": query, "schema": frame.schema().catalogString(), "output": output})
    except Exception as error:
        found.append({"query": query, "error": str(error)[:300]})
json.dump(found, open(sys.argv[2], "w"))
"""

# Values for parameters of DuckDB's functions. Those of nested and general types depend on the function.
VALUES = {
    "VARCHAR": ["'duck'", "'a'", "'b'"], "DOUBLE": ["0.5e0", "2e0"], "FLOAT": ["0.5::FLOAT", "2::FLOAT"], "DECIMAL": ["1.25", "3.50"],
    "BIGINT": ["2", "3"], "INTEGER": ["2", "3"], "SMALLINT": ["2", "3"], "TINYINT": ["2", "3"], "BOOLEAN": ["true", "false"],
    "DATE": ["DATE '2024-02-29'", "DATE '2021-08-03'"], "TIMESTAMP": ["TIMESTAMP '2024-02-29 11:59:44.123456'", "TIMESTAMP '2021-08-03 01:02:03'"],
    "TIME": ["TIME '11:59:44.123456'"], "INTERVAL": ["INTERVAL '1 month 2 days'"], "BLOB": ["'duck'::BLOB"], "ANY": ["3", "2"], "T": ["3"],
    "ANY[]": ["[3, 1, 2]"], "T[]": ["[3, 1, 2]", "[2, 3, 4]"], "VARCHAR[]": ["['b', 'a']"], "DOUBLE[]": ["[0.5e0, 1.5e0]", "[2e0, 1e0]"],
    "JSON": ["'{\"a\": [1, 2]}'"], "MAP(K, V)": ["MAP {'a': 1, 'b': 2}"], "K": ["'a'"], "V": ["1"], "BOOLEAN[]": ["[true, false]"],
    "BIGINT[]": ["[1, 2]"],
}  # fmt: skip
# What there is of each group: columns by the type of a parameter.
COLUMNS = {
    "VARCHAR": "s", "DOUBLE": "d", "BIGINT": "i", "INTEGER": "i", "DECIMAL": "m", "BOOLEAN": "b", "DATE": "t", "ANY": "i", "T": "i",
}  # fmt: skip
GROUP = (
    "(VALUES (1, 1.5e0, 'x', 2.50, true, DATE '2024-01-01'), (2, -0.5e0, 'y', 1.25, false, DATE '2024-02-29'), (4, 3e0, 'x', 0.75, true, NULL), "
    "(NULL, NULL, NULL, NULL, NULL, DATE '2023-12-31')) AS g(i, d, s, m, b, t)"
)
# Of DuckDB's process, its catalogue and the moment; of types that are DuckDB's own.
NOT_COUNTED = re.compile(
    r"^(__internal|collate_|icu_collate|pg_|has_|current_|get_|duckdb_|pragma_|nextval|currval|random|setseed|uuid|gen_random|getvariable|in_search_path|"
    r"txid|version|now$|today|transaction_|write_log|parse_duckdb|st_|enum_|union_|variant|create_sort_key|stats$|error$|sleep|read_|getenv|"
    r"inet_|col_description|obj_description|shobj_description|format_pg_type|format_type|session_user|user$|alias$|array_(value|cross|dominates)|bit_string|bitstring|"
    r"age$|last_day_of_now|to_base_test|~~~|approx_|reservoir_|histogram_exact|sample)")  # fmt: skip


class Call:
    """A call of a function, and the answer of the system whose function it is."""

    def __init__(self, function: str, query: str, run: str):
        self.function, self.query, self.run = function, query, run


def spark_calls(is_respelled: bool) -> list[Call]:
    text = (suite() / "sql-functions" / "sql-expression-schema.md").read_text()
    found = []
    for line in text.splitlines():
        cells = line.strip().removeprefix("| ").removesuffix(" |")
        # Some have no example, and so no schema.
        if not cells.startswith("org.apache.spark") or " | struct<" not in cells:
            continue
        _, function, query = cells.rsplit(" | struct<", 1)[0].split(" | ", 2)
        if query != "N/A":
            found.append(Call(function, query, spark_respell.respelled(query) if is_respelled else query))
    return found


def spark_answers(calls: list[Call]) -> dict[str, dict]:
    """Spark's answers by query, kept in the cache."""
    return answers_of_spark(sorted({call.query for call in calls}), CACHE / f"spark-functions-{PYSPARK[0].split('==')[1]}.json")


def answers_of_spark(queries: list[str], path: pathlib.Path) -> dict[str, dict]:
    """What PySpark answers to queries of one session, by query, kept in a file: schema and output as in Spark's own suite, or an error."""
    known = {one["query"]: one for one in json.loads(path.read_text())} if path.exists() else {}
    if not all(query in known for query in queries):
        python = venv("spark43", PYSPARK) / "python"
        with tempfile.TemporaryDirectory(prefix="yeoul-judge-", dir=os.environ.get("YEOUL_JUDGE_TMP")) as place:
            folder = pathlib.Path(place)
            (folder / "job.py").write_text(IN_SPARK)
            (folder / "queries.json").write_text(json.dumps(queries))
            environment = os.environ | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "America/Los_Angeles"}
            ended = subprocess.run(
                [python, "job.py", "queries.json", "answers.json"],
                cwd=folder, env=environment, capture_output=True, text=True, timeout=SPARK_SECONDS_MAX,
            )  # fmt: skip
            if ended.returncode != 0:
                raise SystemExit(f"error: Spark: {ended.stderr[-4000:]}")
            path.write_text((folder / "answers.json").read_text())
        known = {one["query"]: one for one in json.loads(path.read_text())}
    return known


def is_like_spark(answer: Answer, theirs: dict) -> bool:
    case = spark_golden.Case(theirs["query"], theirs["schema"], theirs["output"].rstrip())
    return spark_golden.compared([[value for _, value in row] for row in answer.rows], case, False) == "right"


def duckdb_calls() -> list[Call]:
    """Calls of scalar functions, aggregates and macros by their names. DuckDB is asked for those that it answers."""
    import duckdb

    rows = duckdb.sql("""SELECT function_name, function_type, parameter_types, examples FROM duckdb_functions()
        WHERE function_type IN ('scalar', 'aggregate', 'macro') ORDER BY ALL""").fetchall()
    queries = collections.defaultdict(dict)
    for name, kind, types, examples in rows:
        if NOT_COUNTED.match(name) or name != name.lower():
            continue
        called = name if re.fullmatch(r"\w+", name) else None
        if kind != "aggregate":
            for example in examples:
                queries[name][f"SELECT {example}"] = None
        if called and kind == "aggregate" and all(of in COLUMNS for of in types):
            arguments = ", ".join(COLUMNS[of] for of in types) or "*"
            queries[name][f"SELECT {called}({arguments}) FROM {GROUP}"] = None
        elif called and kind == "scalar" and not examples:
            arguments, used = [], collections.Counter()
            for of in types:
                choices = VALUES.get(of, ["NULL"])
                arguments.append(choices[used[of] % len(choices)])
                used[of] += 1
            queries[name][f"SELECT {called}({', '.join(arguments)})"] = None
    return [Call(name, query, query) for name, of_name in sorted(queries.items()) for query in list(of_name)[: 3 * CALLS_PER_FUNCTION_MAX]]


def duckdb_answers(calls: list[Call]) -> dict[str, list]:
    """The rows of each call that DuckDB answers, and the same way twice."""
    import duckdb

    found, kept = {}, collections.Counter()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'America/Los_Angeles'")
        for call in calls:
            try:
                rows = connection.execute(call.query).fetchall()
            except (duckdb.Error, ValueError, OverflowError):
                continue
            if kept[call.function] < CALLS_PER_FUNCTION_MAX:
                kept[call.function] += 1
                found[call.query] = rows
    return found


def is_like(ours, theirs) -> bool:
    """Whether a value of our JSON is one of DuckDB's."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(theirs, bool) or isinstance(ours, bool):
        return ours is theirs
    if isinstance(theirs, (int, float, decimal.Decimal)):
        try:
            number = float(ours)
        except (TypeError, ValueError):
            return False
        return math.isclose(number, float(theirs), rel_tol=RELATIVE, abs_tol=1e-12) or math.isnan(number) and math.isnan(float(theirs))
    if isinstance(theirs, (list, tuple)):
        if isinstance(ours, Pairs):
            ours = [value for _, value in ours]
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(is_like, ours, theirs))
    if isinstance(theirs, dict):
        if not isinstance(ours, Pairs) or len(ours) != len(theirs):
            return False
        mine = {str(key): value for key, value in ours}
        return all(str(key) in mine and is_like(mine[str(key)], value) for key, value in theirs.items())
    if isinstance(theirs, bytes):
        return isinstance(ours, str) and ours.lower() in (theirs.hex(), theirs.decode(errors="replace").lower())
    if isinstance(theirs, datetime.timedelta):
        # Python's has months as 30 days.
        try:
            months, days, micros = spark_golden.interval(str(ours))
        except (ValueError, decimal.InvalidOperation):
            return False
        return datetime.timedelta(days=30 * months + days, microseconds=micros) == theirs
    if isinstance(theirs, datetime.datetime):
        return spark_golden.local_time(str(ours), "timestamp") == spark_golden.local_time(theirs.replace(tzinfo=None).isoformat(" "), "timestamp")
    if isinstance(theirs, datetime.time):
        return str(ours).rstrip("0").rstrip(".:") == str(theirs).rstrip("0").rstrip(".:")
    return (ours if isinstance(ours, str) else json.dumps(ours)) == str(theirs)


def is_like_duckdb(answer: Answer, theirs: list) -> bool:
    rows = [[value for _, value in row] for row in answer.rows]
    return len(rows) == len(theirs) and all(len(mine) == len(his) and all(map(is_like, mine, his)) for mine, his in zip(rows, theirs, strict=True))


def known_reason(system: str, call: Call) -> str | None:
    with open(HERE / "functions_differences.toml", "rb") as file:
        rules = tomllib.load(file).get("difference", [])
    for rule in rules:
        if rule["system"] == system and re.fullmatch(rule["function"], call.function) and re.search(rule.get("statement", ""), call.query):
            return rule["reason"]
    return None


class Report:
    """What was found of the functions of a system."""

    def __init__(self, system: str):
        self.system, self.verdicts, self.calls, self.reasons = system, collections.defaultdict(set), [], collections.Counter()

    def take(self, call: Call, answer: Answer, is_equal, theirs):
        if answer.is_crash:
            verdict = "crash"
        elif answer.rows is None:
            verdict = "refused"
            self.reasons[reason(answer.message())] += 1
        elif is_equal(answer, theirs):
            verdict = "equal"
        else:
            verdict = "known" if known_reason(self.system, call) else "different"
        self.verdicts[call.function].add(verdict)
        ours = answer.message() if answer.rows is None else repr([[value for _, value in row] for row in answer.rows[:5]])
        self.calls.append({"function": call.function, "class": verdict, "query": call.query, "run": call.run, "ours": ours, "theirs": repr(theirs)})

    def by_function(self) -> dict[str, str]:
        order = ["crash", "different", "refused", "known", "equal"]
        return {name: next(verdict for verdict in order if verdict in found) for name, found in self.verdicts.items()}

    def print(self, shows_all: bool):
        functions = self.by_function()
        counted = collections.Counter(functions.values())
        for one in self.calls:
            if one["class"] in ("different", "crash") or shows_all and one["class"] != "equal":
                print(f"{self.system} {one['function']}: {one['class']}: {one['run']}\n  ours: {one['ours'][:300]}\n  {self.system}'s: {one['theirs'][:300]}")
        print(f"{self.system}: of {len(functions)} functions " + ", ".join(f"{counted[what]} {what}" for what in ("equal", "known", "different", "refused", "crash")))
        print("  refused calls: " + "; ".join(f"{times} {why}" for why, times in self.reasons.most_common(12)))


def judged(system: str, calls: list[Call], answers: dict, is_equal, dialect: str | None) -> Report:
    report = Report(system)
    calls = [call for call in calls if "error" not in answers.get(call.query, {"error": ""})]
    flags = ["--memory", "1GiB", "--threads", "1", *(["--dialect", dialect] if dialect and offers("--dialect") else [])]
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-", dir=os.environ.get("YEOUL_JUDGE_TMP")) as place:
        with Shell(pathlib.Path(place), flags, ANSWER_SECONDS_MAX) as shell:
            shell.run("SET TIME ZONE = 'America/Los_Angeles'")
            for call, answer in zip(calls, shell.run_all([call.run for call in calls]), strict=True):
                report.take(call, answer, is_equal, answers[call.query])
    return report


def self_test():
    number = Number
    assert is_like([number("1"), None], [1, None]) and not is_like(number("1"), True) and is_like(number("0.1"), 0.1)
    assert is_like(Pairs([("a", number("1"))]), {"a": 1}) and not is_like(Pairs([("b", number("1"))]), {"a": 1})
    assert is_like("1 mons 2 days", datetime.timedelta(days=32)) and is_like("6475636b", b"duck")
    assert is_like("2024-01-01T01:02:03.500", datetime.datetime(2024, 1, 1, 1, 2, 3, 500000))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", choices=["spark", "duckdb", []], help="by default both")
    parser.add_argument("--dialect", help="for Spark's functions, is handed to the binary, if it has the option")
    parser.add_argument("--respell", action="store_true", help="Spark's examples with the spelling of DataFusion's dialect")
    parser.add_argument("--out", type=pathlib.Path, help="write what was found as JSON")
    parser.add_argument("--show", action="store_true", help="show what is refused, too")
    parser.add_argument("--self-test", action="store_true", help="test the judge itself")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    systems = options.systems or ["spark", "duckdb"]
    if "duckdb" in systems:
        try:
            import duckdb  # noqa: F401
        except ImportError:
            python = venv("duckdb", DUCKDB) / "python"
            os.execv(python, [python, __file__, *sys.argv[1:]])
    reports = []
    if "spark" in systems:
        calls = spark_calls(options.respell)
        reports.append(judged("Spark", calls, spark_answers(calls), is_like_spark, options.dialect))
    if "duckdb" in systems:
        calls = duckdb_calls()
        reports.append(judged("DuckDB", calls, duckdb_answers(calls), is_like_duckdb, None))
    for report in reports:
        report.print(options.show)
    if options.out:
        options.out.write_text(json.dumps({report.system: {"functions": report.by_function(), "calls": report.calls} for report in reports}, indent=1))
    verdicts = [verdict for report in reports for verdict in report.by_function().values()]
    assert "equal" in verdicts, "no function was answered alike: nothing would be shown"
    return 1 if "different" in verdicts or "crash" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
