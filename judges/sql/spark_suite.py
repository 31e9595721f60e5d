"""Spark's own SQL test suite against `yeoul sql`: the statements of its golden files, from Maven, each file in a session of its own, and
the answers beside Spark's, by value and by type.

Usage: spark_suite.py [--dialect NAME] [--respell] [--files GLOB] [--out FILE] [--examples N]    exits 1 if an answer differs that
`spark_differences.toml` does not know, or at a panic
       spark_suite.py --self-test

Each statement that Spark answers is `right`, `other order` (it has an ORDER BY, and the rows come otherwise), `other type` (the values
are the same, and DESCRIBE tells other types of them), `differs`, `refused` or `crash`. Statements with functions in Python, Scala or
Java, scripts, collations, XML and variants are counted apart, and commands that tell about the session (EXPLAIN, SHOW, DESCRIBE, SET).
`--dialect spark` is for the binary, if it has that option; `--respell` changes the spelling (spark_respell.py).
"""

import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import spark_golden  # noqa: E402
import spark_respell  # noqa: E402
from harness import CACHE  # noqa: E402
from shell import Answer, Shell, offers  # noqa: E402

SPARK = "4.1.3"
PARTS = ("sql-tests/", "sql-functions/", "test-data/postgresql/", "tpch/", "tpcds/")
JAR = f"org.apache.spark:spark-sql_2.13:{SPARK}:jar:tests"
ANSWER_SECONDS_MAX = 30
CLASSES = ["right", "other type", "other order", "differs", "known", "refused", "crash"]

# Files and statements that are counted apart, by what they need.
APART_FILES = [
    ("functions in other languages", ["udf/*", "udaf/*", "udtf/*", "transform.sql"]),
    ("scripts", ["scripting/*"]),
    ("collations", ["*collation*"]),
    ("XML", ["xml-*"]),
    ("variants", ["variant*"]),
]
APART_STATEMENTS = [
    ("functions in other languages", r"\b(udf|reflect|java_method|try_reflect)\s*\(|\btransform\s*\([^)]*\)\s*using\b|\bcreate\b.*\bfunction\b.*\blanguage python\b"),
    ("scripts", r"^\s*begin\b|\bexecute immediate\b"),
    ("collations", r"\bcollat(e|ion|ions)\b"),
    ("XML", r"\b(to_xml|from_xml|schema_of_xml|xpath\w*)\b"),
    ("variants", r"\bvariant\w*\b|\b(try_)?(parse_json|is_variant_null|to_variant_object|schema_of_variant(_agg)?)\b"),
    ("commands", r"^\s*(explain|show|describe|desc|set|reset|analyze|list)\b"),
]  # fmt: skip
# What answers otherwise each time, or by who runs it where.
UNDECIDED = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|current_\w+|now|curdate|localtimestamp|version|user|session_user|input_file_\w+|"
    r"monotonically_increasing_id|spark_partition_id|unix_timestamp\s*\(\s*\)|tablesample)\b", re.I)  # fmt: skip

INTEGERS = ["unique1", "unique2", "two", "four", "ten", "twenty", "hundred", "thousand", "twothousand", "fivethous", "tenthous", "odd", "even"]
WIDE = ", ".join([f"{name} INT" for name in INTEGERS] + [f"{name} VARCHAR" for name in ("stringu1", "stringu2", "string4")])


def suite() -> pathlib.Path:
    """The folder with what the tests jar has: `sql-tests`, `sql-functions`, `test-data`, `tpch`, `tpcds`."""
    folder = CACHE / f"spark-suite-{SPARK}"
    stamp = folder / "complete-with-tpc"
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for goal in (["dependency:get", "-Dtransitive=false", f"-Dartifact={JAR}"], ["dependency:copy", f"-Dartifact={JAR}", "-DoutputDirectory=."]):
            subprocess.run(["mvn", "-q", "-B", *goal], cwd=folder, check=True)
        (jar,) = folder.glob("*.jar")
        with zipfile.ZipFile(jar) as archive:
            wanted = [name for name in archive.namelist() if name.startswith(PARTS)]
            archive.extractall(folder, wanted)
        jar.unlink()
        stamp.touch()
    return folder


def tables(folder: pathlib.Path) -> dict[str, str]:
    """The tables that Spark's suite has in each session, by statements that no dialect changes."""
    data = folder / "test-data" / "postgresql"
    maps = ["{" + ", ".join(f"{key}: '{letter}{row}'" for key, letter in zip(range(1, 7 - row), "abcde")) + "}" for row in range(1, 6)]
    external = lambda name, columns, file: (
        f"CREATE EXTERNAL TABLE {name} ({columns}) STORED AS CSV LOCATION '{data / file}' "
        "OPTIONS ('format.delimiter' '\t', 'format.has_header' 'false')"
    )
    return {
        "testdata": "CREATE TABLE testdata AS SELECT CAST(value AS INT) AS key, CAST(value AS VARCHAR) AS value FROM range(1, 101)",
        "arraydata": "CREATE TABLE arraydata AS SELECT arrow_cast(a, 'List(Int32)') AS arraycol, "
        "arrow_cast([a], 'List(List(Int32))') AS nestedarraycol FROM (VALUES ([1, 2, 3]), ([2, 3, 4])) AS v(a)",
        "mapdata": "CREATE TABLE mapdata AS " + " UNION ALL ".join(f"SELECT MAP {entries} AS mapcol" for entries in maps),
        "aggtest": external("aggtest", "a INT, b FLOAT", "agg.data"),
        "onek": external("onek", WIDE, "onek.data"),
        "tenk1": external("tenk1", WIDE, "tenk.data"),
    }


def settings(file: str, inputs: pathlib.Path) -> list[str]:
    """SET statements for what a file sets for its session: in lines for the suite, and by its folder."""
    found = {}
    if file.startswith("nonansi/"):
        found["spark.sql.ansi.enabled"] = "false"
    if file.startswith("timestampNTZ/"):
        found["spark.sql.timestampType"] = "TIMESTAMP_NTZ"
    pending = [inputs / file]
    while pending:
        path = pending.pop()
        if not path.exists():
            continue
        for line in path.read_text().splitlines():
            if line.startswith("--SET "):
                found |= dict(re.findall(r"([\w.]+)\s*=\s*([^,]+)", line.removeprefix("--SET ")))
            elif line.startswith("--IMPORT "):
                pending.append(inputs / line.removeprefix("--IMPORT ").strip())
    return [f"SET {key} = {value.strip()}" for key, value in found.items()]


def apart(file: str, case: spark_golden.Case) -> str | None:
    for why, globs in APART_FILES:
        if any(fnmatch.fnmatch(file, glob) for glob in globs):
            return why
    for why, pattern in APART_STATEMENTS:
        if re.search(pattern, case.sql, re.I | re.S):
            return why
    return "variants" if ":variant" in case.schema or "<variant" in case.schema else None


def top_level(sql: str) -> str:
    """A query without texts, comments and what is in brackets, in lower case."""
    depth, found = 0, []
    for token in spark_respell.tokens(sql):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth <= 0 and token.kind in ("word", "sign"):
            found.append(token.text.lower())
    return " ".join(found)


def is_ordered(sql: str) -> bool:
    # A query that is all in brackets keeps its order.
    while sql.strip().startswith("(") and spark_respell.closing(found := spark_respell.tokens(sql.strip()), 0) == len(found) - 1:
        sql = spark_respell.text_of(found[1:-1])
    return " order by " in f" {top_level(sql)} "


def is_undecided(sql: str) -> bool:
    """Whether several answers are right: a number of rows, and no order."""
    top = f" {top_level(sql)} "
    return UNDECIDED.search(sql) is not None or (" limit " in top or " offset " in top) and " order by " not in top


def reason(message: str) -> str:
    """The message of a refusal without what is of one statement only. Names of functions stay."""
    text = re.sub(r"\s+", " ", message)
    keep = re.search(r"function '[^']*'|no function|[Ii]nvalid function", text)
    if keep is None:
        text = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "'…'", text)
    text = re.sub(r"\b\d+\b", "N", text)
    return text[:140]


class Known:
    """Differences that are known, each with a reason."""

    def __init__(self):
        with open(HERE / "spark_differences.toml", "rb") as file:
            self.rules = tomllib.load(file).get("difference", [])

    def reason(self, file: str, sql: str) -> str | None:
        for rule in self.rules:
            if fnmatch.fnmatch(file, rule.get("files", "*")) and re.search(rule["statement"], sql, re.I | re.S):
                return rule["reason"]
        return None


class Refusals:
    """Set-up statements of a file that ours refused. What reads their tables, or runs under their settings, is no answer to the same."""

    TARGET = re.compile(r"\b(?:into|overwrite|table|view|update|from)\s+(?:table\s+)?(?:if\s+(?:not\s+)?exists\s+)?([\w.`]+)", re.I)

    INSERTS = re.compile(r"\binsert\s+into\s+(?:table\s+)?([\w.`]+)", re.I)

    def __init__(self):
        self.names: set[str] = set()
        self.settings: list[str] = []

    def take(self, sql: str):
        if re.match(r"\s*(set|use|declare|reset)\b", sql, re.I):
            self.settings.append(" ".join(sql.split())[:80])
        elif found := self.TARGET.search(sql):
            self.names |= {name.replace("`", "").split(".")[-1].lower() for name in [found[1], *self.INSERTS.findall(sql)]}

    def forget(self, sql: str):
        """A table that was made again is whole."""
        if re.match(r"\s*create\b", sql, re.I) and (found := self.TARGET.search(sql)):
            self.names.discard(found[1].replace("`", "").split(".")[-1].lower())

    def reason(self, sql: str) -> str | None:
        words = set(re.findall(r"\w+", sql.lower()))
        if self.names & words:
            return f"a statement about {sorted(self.names & words)[0]} was refused"
        return f"refused: {self.settings[-1]}" if self.settings else None


class Tally:
    """What was seen of each statement."""

    def __init__(self):
        self.by_file = collections.defaultdict(collections.Counter)
        self.apart = collections.defaultdict(collections.Counter)
        self.reasons = collections.Counter()
        self.examples = collections.defaultdict(list)
        self.found = []

    def take(self, file: str, case: spark_golden.Case, verdict: str, why: str | None, ours: str, sql: str):
        self.found.append({
            "file": file, "class": verdict, "apart": why, "statement": case.sql, "run": sql, "ours": ours, "spark": case.output, "schema": case.schema,
        })  # fmt: skip
        if why is not None:
            self.apart[why][verdict] += 1
            return
        self.by_file[file][verdict] += 1
        if verdict in ("refused", "crash"):
            kind = reason(ours)
            self.reasons[kind] += 1
            if len(self.examples[kind]) < 5:
                self.examples[kind].append({"file": file, "statement": sql, "message": ours})

    def totals(self) -> collections.Counter:
        return sum(self.by_file.values(), collections.Counter())

    def print(self, examples: int):
        width = max(map(len, self.by_file), default=4)
        print(f"{'file':{width}}  queries" + "".join(f"{name:>13}" for name in CLASSES))
        for file, counted in [*sorted(self.by_file.items()), ("all", self.totals())]:
            queries = sum(counted[name] for name in CLASSES)
            if queries:
                print(f"{file:{width}}  {queries:7}" + "".join(f"{counted[name]:13}" for name in CLASSES))
        for why, counted in sorted(self.apart.items()):
            print(f"apart, {why}: " + ", ".join(f"{counted[name]} {name}" for name in [*CLASSES, "Spark refuses", "both refuse", "set-up"] if counted[name]))
        print("\nrefused, by reason:")
        for kind, times in self.reasons.most_common():
            print(f"{times:6}  {kind}")
            for one in self.examples[kind][:examples]:
                print(f"        {one['file']}: {' '.join(one['statement'].split())[:200]}")
        totals = self.totals()
        queries = sum(totals[name] for name in CLASSES)
        right = totals["right"] + totals["other type"]
        print(f"\n{queries} queries that Spark answers: {right} right by value ({100 * right / max(queries, 1):.1f} %), {totals['right']} of them in type, too; "
              f"{totals['other order']} in another order, {totals['differs']} differ, {totals['known']} differ as it is known, "
              f"{totals['refused']} refused, {totals['crash']} crashes; "
              f"of what Spark refuses, {totals['both refuse']} refused, too, and {totals['Spark refuses']} answered; "
              f"{totals['set-up']} of {totals['set-up'] + totals['set-up refused']} set-up statements done")  # fmt: skip


    def write(self, path: pathlib.Path):
        told = {"totals": self.totals(), "files": self.by_file, "apart": self.apart, "reasons": self.reasons.most_common(),
                "examples": self.examples, "statements": self.found}  # fmt: skip
        path.write_text(json.dumps(told, indent=1))


def verdict_of(answer: Answer, file: str, case: spark_golden.Case, known: Known, refusals: Refusals) -> tuple[str, str]:
    """The class of a statement, and what ours said."""
    if answer.is_crash:
        why = known.reason(file, case.sql) if "no whole answer" in answer.error else None
        return ("known", f"{why}: {answer.message()}") if why else ("crash", answer.message())
    if not case.is_answered:
        is_done = answer.rows is not None
        return ("Spark refuses" if is_done else "both refuse") if case.is_refused else ("set-up" if is_done else "set-up refused"), answer.message()
    if answer.rows is None:
        return "refused", answer.message()
    rows = [[value for _, value in row] for row in answer.rows]
    found = spark_golden.compared(rows, case, is_ordered(case.sql))
    ours = "\n".join("\t".join(map(str, row)) for row in rows[:20])
    if found == "differs" and is_undecided(case.sql):
        found = "right" if len(rows) == case.output.count("\n") + 1 else found
    if found == "differs":
        why = known.reason(file, case.sql) or refusals.reason(case.sql)
        return ("known", f"{why}: {ours}") if why else (found, ours)
    if found == "right" and answer.types is not None and not spark_golden.has_their_types(answer.types, case):
        return "other type", ", ".join(answer.types)
    return found, ours


def run_file(file: str, folder: pathlib.Path, place: pathlib.Path, options: argparse.Namespace, tally: Tally, known: Known):
    flags = ["--memory", "1GiB", "--threads", "1"]
    if options.dialect is not None and offers("--dialect"):
        flags += ["--dialect", options.dialect]
    set_up = settings(file, folder / "sql-tests" / "inputs")
    is_name = any("doubleQuotedIdentifiers" in text and "true" in text for text in set_up)
    cases = spark_golden.cases((folder / "sql-tests" / "results" / f"{file}.out").read_text())
    texts = [spark_respell.respelled(case.sql, is_name) if options.respell else case.sql for case in cases]
    with Shell(place, flags, ANSWER_SECONDS_MAX) as shell:
        text = " ".join(texts).lower()
        own = [f"SET yeoul.dialect = '{name}'" for name in ("yeoul", options.dialect)] if "--dialect" in flags else ["SELECT 1"] * 2
        first = [own[0], "SET TIME ZONE = 'America/Los_Angeles'", *(made for name, made in tables(folder).items() if name in text), own[1]]
        for text, answer in zip(first, shell.run_all(first), strict=True):
            if answer.rows is None:
                raise SystemExit(f"error: {text}: {answer.error}")
        refusals = Refusals()
        for text, answer in zip(set_up, shell.run_all(set_up), strict=True):
            if answer.rows is None:
                refusals.take(text)
        for case, sql, answer in zip(cases, texts, shell.run_all(texts), strict=True):
            verdict, ours = verdict_of(answer, file, case, known, refusals)
            # `SET k = v` answers with a row in Spark.
            if verdict == "set-up refused" or verdict == "refused" and re.match(r"\s*(set|use)\b", sql, re.I):
                refusals.take(sql)
            elif verdict == "set-up":
                refusals.forget(sql)
            tally.take(file, case, verdict, apart(file, case), ours, sql)


def self_test():
    text = "-- Automatically generated\n-- !query\nselect 1\n-- !query schema\nstruct<1:int>\n-- !query output\n1\n\n\n-- !query\ncreate view v\n-- !query schema\nstruct<>\n-- !query output\n\n\n\n"
    first, second = spark_golden.cases(text)
    assert first == ("select 1", "struct<1:int>", "1") and second == ("create view v", "struct<>", "")
    assert spark_golden.columns("struct<a:b, c:int,(x AS struct<y:int>):map<string,array<decimal(3,1)>>>") == [
        ("a:b, c", "int"), ("(x AS struct<y:int>)", ("map", "string", ("array", "decimal(3,1)"))),
    ]  # fmt: skip
    nested = 'struct<x:array<string>,s:struct<a:int,t:timestamp>>'
    case = spark_golden.Case("", nested, '["a","b,c",null]\t{"a":1,"t":2020-01-01 00:00:00}\nNULL\tNULL')
    types = [of for _, of in spark_golden.columns(nested)]
    rows = spark_golden.rows_of(case.output, types)
    assert rows == [[["a", "b,c", None], [1, "2020-01-01 00:00:00"]], [None, None]], rows
    pairs = spark_golden.Pairs([("a", spark_golden.Number("1")), ("t", "2020-01-01 08:00:00+00:00")])
    ours = [[None, None], [["a", "b,c", None], pairs]]
    assert spark_golden.compared(ours, case, False) == "right" and spark_golden.compared(ours, case, True) == "other order"
    assert spark_golden.compared([[None, None], [["a", "b", None], pairs]], case, False) == "differs"
    assert spark_golden.interval("-1 02:00:00.5") == spark_golden.interval("-1 days -2 hours -0.5 secs", "interval day to second")
    assert spark_golden.our_type('STRUCT(a BIGINT, "b, (c" MAP(VARCHAR, DECIMAL(3,1)))[]') == "array<struct<a:bigint,b, (c:map<string,decimal(3,1)>>>"
    respelled = spark_respell.respelled('create temporary view v as select * from values ("it\'s", array(1L, 2Y)), (`a b`, map(1, int(2))) as values(a, b)')
    assert respelled.split() == (
        "create view v as select * from (VALUES ('it''s', make_array(1, CAST(2 AS TINYINT))), (\"a b\", MAP {1: CAST(2 AS INT)})) as values(a, b)"
    ).split(), respelled  # fmt: skip
    assert is_ordered("(select 1 order by 1)") and not is_ordered("select (select 1 order by 1) -- order by")
    assert is_undecided("select a from t limit 1") and not is_undecided("select a from t order by a limit 1")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialect", help="is handed to the binary, if it has the option")
    parser.add_argument("--respell", action="store_true", help="with the spelling of DataFusion's dialect")
    parser.add_argument("--files", default="*", help="only the files of this pattern, such as 'subquery/*'")
    parser.add_argument("--out", type=pathlib.Path, help="write what was found as JSON")
    parser.add_argument("--examples", type=int, default=1, help="statements to show for each reason")
    parser.add_argument("--self-test", action="store_true", help="test the judge itself")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    folder, tally, known = suite(), Tally(), Known()
    results = folder / "sql-tests" / "results"
    files = sorted(str(path.relative_to(results)).removesuffix(".out") for path in results.rglob("*.out"))
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-", dir=os.environ.get("YEOUL_JUDGE_TMP")) as place:
        try:
            for file in fnmatch.filter(files, options.files):
                session = pathlib.Path(place) / file.replace("/", "-")
                session.mkdir()
                run_file(file, folder, session, options, tally, known)
        finally:
            # Also of a run that was ended early.
            if options.out:
                tally.write(options.out)
    tally.print(options.examples)
    for one in tally.found:
        if one["class"] in ("differs", "crash") and one["apart"] is None:
            print(f"FAIL {one['file']}: {one['class']}: {' '.join(one['run'].split())[:300]}\n  ours: {one['ours'][:300]!r}\n  Spark's: {one['spark'][:300]!r}")
    totals = tally.totals()
    assert totals["right"] + totals["other type"], "no query was answered right: nothing would be shown"
    return 1 if totals["differs"] or totals["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
