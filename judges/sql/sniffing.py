"""Files of many makers, whose columns, types and rows nobody declares: as `yeoul sql` reads them, and as DuckDB 2.0 does.

Usage: sniffing.py [--only REGEX] [--twice] [--out FILE] [--show]    exits 1 if a file is read in another way that
`sniffing_differences.toml` does not know, or at a panic

Each file is read by `read_csv`, `read_json` or `read_parquet` without options. Compared are the names of the columns, their types as
DESCRIBE names them, the number of rows, and the rows: all of a small file in any order, the first ones of a large one in theirs. A file is
`equal` if all is alike, or if both refuse it; `known` if all that differs is a known difference; `refused` if only DuckDB reads it;
else `different`.
"""

import argparse
import collections
import decimal
import json
import os
import pathlib
import re
import struct
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from harness import CACHE, venv  # noqa: E402
from shell import Pairs, Shell, decoded  # noqa: E402
from sniffing_files import File, packaged, written  # noqa: E402

# The version with which the other judges compare.
DUCKDB = ["duckdb==2.0.0"]
ANSWER_SECONDS_MAX = 60
# Of a file with more of them, the first ones are compared, in their order.
ROWS_MAX = 10_000
VERDICTS = ("equal", "known", "different", "refused", "crash")
INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}
ZONED = "TIMESTAMP WITH TIME ZONE"


class Type:
    """A type as DESCRIBE names it: a name, and for those that hold others a kind, and these with the names of fields."""

    def __init__(self, kind: str, parts: list | None = None, fields: list[str] | None = None):
        self.kind, self.parts, self.fields = kind, parts or [], fields or []

    def __str__(self) -> str:
        if self.kind == "STRUCT":
            return "STRUCT(" + ", ".join(f"{name} {part}" for name, part in zip(self.fields, self.parts)) + ")"
        if self.kind == "MAP":
            return f"MAP({self.parts[0]}, {self.parts[1]})"
        return f"{self.parts[0]}{self.kind}" if self.parts else self.kind


def type_of(text: str) -> Type:
    """The type that has this name. Names of fields lose their quotes, as who quotes which is not compared."""
    tokens = re.findall(r'"(?:[^"]|"")*"|\[\d*\]|[(),]|[^\s"(),\[\]]+', text)
    at = 0

    def take() -> str:
        nonlocal at
        at += 1
        return tokens[at - 1]

    def next_is(*choices: str) -> bool:
        return at < len(tokens) and tokens[at] in choices

    def one() -> Type:
        word = take().upper()
        if word in ("STRUCT", "MAP") and next_is("("):
            found = Type(word)
            if tokens[at + 1 : at + 2] == [")"]:
                take()
            while take() != ")":
                if word == "STRUCT":
                    name = take()
                    found.fields.append(name[1:-1].replace('""', '"') if name.startswith('"') else name)
                found.parts.append(one())
        else:
            # DECIMAL(18,2), and TIMESTAMP WITH TIME ZONE.
            while at < len(tokens) and not next_is(")", ",") and not tokens[at].startswith("["):
                if next_is("("):
                    while not word.endswith(")"):
                        word += take()
                else:
                    word += f" {take().upper()}"
            found = Type(word.strip('"'))
        while at < len(tokens) and tokens[at].startswith("["):
            found = Type(take(), [found])
        return found

    return one()


def normal(value, kind: Type):
    """A value of either system as one that can be compared, by its type."""
    if value is None:
        return None
    if kind.kind.startswith("["):
        return [normal(one, kind.parts[0]) for one in value] if isinstance(value, (list, tuple)) else ["no list", str(value)]
    if kind.kind == "STRUCT":
        values = list(value.values()) if isinstance(value, dict) else [one for _, one in value] if isinstance(value, Pairs) else None
        if values is None or len(values) != len(kind.parts):
            return ["no struct", str(value)]
        return [normal(one, part) for one, part in zip(values, kind.parts)]
    if kind.kind == "MAP":
        entries = list(value.items()) if isinstance(value, dict) else value if isinstance(value, Pairs) else None
        if entries is None:
            return ["no map", str(value)]
        return sorted(([normal(key, kind.parts[0]), normal(one, kind.parts[1])] for key, one in entries), key=json.dumps)
    return _scalar(value, kind.kind)


def _scalar(value, kind: str):
    try:
        if kind in INTEGERS:
            return str(int(value))
        if kind.startswith("DECIMAL"):
            return f"{decimal.Decimal(value).normalize():f}"
        if kind == "DOUBLE":
            return repr(float(value))
        if kind == "FLOAT":
            # Of what is written in fewer digits the nearest number that has 32 bits.
            return repr(struct.unpack("f", struct.pack("f", float(value)))[0])
    except (ValueError, OverflowError, TypeError, decimal.DecimalException):
        return f"no {kind}: {value}"
    if kind == "BOOLEAN":
        return value if isinstance(value, bool) else f"no BOOLEAN: {value}"
    if kind in ("TIME", "DATE") or kind.startswith("TIMESTAMP"):
        text = str(value).replace("T", " ")
        # An offset may stand behind the fraction.
        return re.sub(r"(\.\d*?)0+(?!\d)", r"\1", text).replace(".+", "+").removesuffix(".")
    if kind == "JSON":
        return _json(value)
    if isinstance(value, bytes):
        return value.hex()
    return value.lower().replace("\\x", "") if kind == "BLOB" and isinstance(value, str) else str(value)


def _json(value):
    """JSON, which DuckDB has as a text, and others may write as it is."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return str(value)
    return json.dumps(dict(value) if isinstance(value, Pairs) else value, sort_keys=True)


class Reading:
    """What a system finds in a file, or why it does not read it."""

    def __init__(self, names=(), types=(), count: int = 0, rows=(), error: str = "", is_crash: bool = False):
        self.names, self.types, self.count, self.rows = list(names), [type_of(text) for text in types], count, list(rows)
        self.error, self.is_crash = error, is_crash

    def columns(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in zip(self.names, self.types))

    def shown(self) -> str:
        return f"error: {self.error}" if self.error else f"{self.count} rows of {self.columns()}: {self.rows[:2]}"


def _column(at: int, of: str) -> str:
    """A column. Python has its own mind about zones: times with one are read as texts, and not by a cast, for which DuckDB takes the text of
    the file as it is."""
    if of == ZONED:
        return f"strftime(#{at}, '%Y-%m-%d %H:%M:%S.%f+00')"
    return f"#{at}::{of.replace(ZONED, 'VARCHAR')}" if ZONED in of else f"#{at}"


class DuckDB:
    """Reads files by DuckDB."""

    def __init__(self):
        import duckdb

        self.error = duckdb.Error
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")

    def rows(self, query: str) -> list:
        return self.connection.execute(query).fetchall()

    def read(self, file: File) -> Reading:
        call = file.call()
        try:
            described = self.rows(f"DESCRIBE SELECT * FROM {call}")
            chosen = [_column(at, of) for at, (_, of, *_) in enumerate(described, 1)]
            [(count,)] = self.rows(f"SELECT count(*) FROM {call}")
            rows = self.rows(f"SELECT {', '.join(chosen)} FROM {call} LIMIT {ROWS_MAX}")
        except self.error as error:
            return Reading(error=str(error))
        return Reading([name for name, *_ in described], [of for _, of, *_ in described], count, rows)


class DuckDBByJson(DuckDB):
    """Reads files by DuckDB, and takes the answers from JSON, as those of ours are: what it finds must always be equal."""

    def read(self, file: File) -> Reading:
        found = super().read(file)
        if not found.error:
            with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as folder:
                self.connection.execute(f"COPY (FROM {file.call()} LIMIT {ROWS_MAX}) TO '{folder}/rows.json' (FORMAT json)")
                lines = pathlib.Path(folder, "rows.json").read_text().splitlines()
            found.rows = [[value for _, value in row] for row in decoded(lines)]
        return found


class Yeoul:
    """Reads files by `yeoul sql`."""

    def __init__(self, shell: Shell):
        self.shell = shell

    def read(self, file: File) -> Reading:
        call = file.call()
        answers = []
        for statement in (f"DESCRIBE SELECT * FROM {call}", f"SELECT count(*) FROM {call}", f"SELECT * FROM {call} LIMIT {ROWS_MAX}"):
            answers.append(self.shell.run(statement))
            if answers[-1].rows is None:
                return Reading(error=answers[-1].message(), is_crash=answers[-1].is_crash)
        described, [[(_, count)]], rows = (answer.rows for answer in answers)
        columns = [[value for _, value in row][:2] for row in described]
        return Reading([name for name, _ in columns], [of for _, of in columns], int(count), [[value for _, value in row] for row in rows])


def differences(theirs: Reading, ours: Reading) -> list[str]:
    """What differs, each in a sentence that begins with its kind."""
    if theirs.error or ours.error:
        if theirs.error and ours.error:
            return []
        return [f"refused: {ours.error}" if ours.error else f"answered: DuckDB has an error: {first_line(theirs.error)}"]
    if len(theirs.names) != len(ours.names):
        return [f"columns: {len(theirs.names)} ({theirs.columns()[:300]}), ours {len(ours.names)} ({ours.columns()[:300]})"]
    found = [f"name: {theirs.names[at]!r}, ours {name!r}" for at, name in enumerate(ours.names) if name != theirs.names[at]]
    alike = [at for at, of in enumerate(ours.types) if str(of) == str(theirs.types[at])]
    found += [f"type: {theirs.types[at]}, ours {of} of {theirs.names[at]!r}" for at, of in enumerate(ours.types) if at not in alike]
    if theirs.count != ours.count:
        return [*found, f"count: {theirs.count}, ours {ours.count}"]
    # Values of other types are not compared.
    theirs_rows, ours_rows = ([json.dumps([normal(row[at], theirs.types[at]) for at in alike]) for row in one.rows] for one in (theirs, ours))
    if theirs.count <= ROWS_MAX:
        lost = collections.Counter(theirs_rows) - collections.Counter(ours_rows)
        new = collections.Counter(ours_rows) - collections.Counter(theirs_rows)
        if lost or new:
            found.append(f"rows: {lost.total()} other ones, of which one is {_first(lost)}, ours {_first(new)}")
    elif theirs_rows != ours_rows:
        at = next((at for at, pair in enumerate(zip(theirs_rows, ours_rows)) if pair[0] != pair[1]), min(len(theirs_rows), len(ours_rows)))
        found.append(f"rows: from row {at + 1} on, {''.join(theirs_rows[at : at + 1])}, ours {''.join(ours_rows[at : at + 1])}")
    return found


def _first(rows: collections.Counter) -> str:
    return next(iter(rows), "none")[:300]


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def known_differences() -> list[dict]:
    with open(HERE / "sniffing_differences.toml", "rb") as source:
        return tomllib.load(source).get("difference", [])


def reasons(name: str, found: list[str], rules: list[dict]) -> list[str | None]:
    """Of each difference the reason for it, or none."""
    fitting = [rule for rule in rules if re.fullmatch(rule["file"], name)]
    return [next((rule["reason"] for rule in fitting if re.match(rule["differs"], one)), None) for one in found]


def verdict_of(name: str, theirs: Reading, ours: Reading, rules: list[dict]) -> tuple[str, list[str]]:
    """One of `VERDICTS`, and what differs."""
    if ours.is_crash:
        return "crash", [f"crash: {ours.error}"]
    found = differences(theirs, ours)
    if not found:
        return "equal", found
    if None not in reasons(name, found, rules):
        return "known", found
    return "refused" if ours.error else "different", found


def reason_of(error: str) -> str:
    """An error without what is in quotes and without numbers, to count those that are alike."""
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "…", first_line(error)))[:120]


class Report:
    """What was found of each file."""

    def __init__(self):
        self.files, self.refusals = [], collections.Counter()

    def take(self, file: File, theirs: Reading, ours: Reading, verdict: str, found: list[str]):
        if verdict == "refused":
            self.refusals[reason_of(ours.error)] += 1
        shown = {"theirs": theirs.shown()[:2000], "ours": ours.shown()[:2000]}
        self.files.append({"file": file.name, "about": file.about, "class": verdict, "differences": found, "path": str(file.path)} | shown)

    def counted(self, verdict: str, is_ours: bool | None = None) -> int:
        return sum(one["class"] == verdict and is_ours in (None, one["file"].startswith("written/")) for one in self.files)

    def print(self, shows_all: bool):
        for one in self.files:
            if shows_all or one["class"] in ("different", "crash"):
                print(f"{one['class']:9} {one['file']}: {one['about']}")
                print("".join(f"          {sentence[:700]}\n" for sentence in one["differences"]), end="")
        print(f"\n{'files':12}" + "".join(f"{verdict:>11}" for verdict in VERDICTS) + f"{'all':>11}")
        for title, is_ours in (("of packages", False), ("written here", True), ("all", None)):
            counts = [self.counted(verdict, is_ours) for verdict in VERDICTS]
            print(f"{title:12}" + "".join(f"{count:>11}" for count in [*counts, sum(counts)]))
        for why, times in self.refusals.most_common():
            print(f"refused {times}: {why}")


def self_test():
    """The comparison finds what differs, and only that."""
    assert str(type_of('STRUCT("type" VARCHAR, a STRUCT(b DECIMAL(18,2)[], c "NULL"))[]')) == "STRUCT(type VARCHAR, a STRUCT(b DECIMAL(18,2)[], c NULL))[]"
    assert str(type_of("MAP(VARCHAR, TIMESTAMP WITH TIME ZONE[])")) == "MAP(VARCHAR, TIMESTAMP WITH TIME ZONE[])"
    types = ["BIGINT", "DOUBLE", "TIMESTAMP", "STRUCT(a BIGINT, b VARCHAR[])", "JSON"]
    names = ["i", "d", "t", "s", "j"]
    line = '{"i": 9007199254740993, "d": 1.50, "t": "2024-01-05 10:00:00.500", "s": {"a": 1, "b": ["x", null]}, "j": "[1, 2]"}'
    ours = Reading(names, types, 1, [[value for _, value in row] for row in decoded([line])])
    import datetime

    row = [9007199254740993, 1.5, datetime.datetime(2024, 1, 5, 10, 0, 0, 500000), {"a": 1, "b": ["x", None]}, "[1,2]"]
    theirs = Reading(names, types, 1, [row])
    assert differences(theirs, ours) == [], differences(theirs, ours)
    for at, other in enumerate((9007199254740992, 1.25, row[2].replace(microsecond=1), {"a": 1, "b": ["x", ""]}, "[2,1]")):
        changed = Reading(names, types, 1, [[*row[:at], other, *row[at + 1 :]]])
        assert [one.split(":")[0] for one in differences(changed, ours)] == ["rows"], names[at]
    for changed, kind in (
        (Reading(["i", "d", "t", "s", "J"], types, 1, [row]), "name"),
        (Reading(names, ["HUGEINT", *types[1:]], 1, [row]), "type"),
        (Reading(names, types, 2, [row, row]), "count"),
        (Reading(names[1:], types[1:], 1, [row[1:]]), "columns"),
        (Reading(error="no"), "answered"),
    ):
        assert [one.split(":")[0] for one in differences(changed, ours)] == [kind], kind
    refused = Reading(error="cannot")
    assert differences(theirs, refused) == ["refused: cannot"] and differences(refused, refused) == []
    many = [[str(at)] for at in range(ROWS_MAX)]
    long, turned = (Reading(["a"], ["VARCHAR"], ROWS_MAX + 1, rows) for rows in (many, [*many[1:], many[0]]))
    assert differences(long, long) == [] and differences(long, turned)[0].startswith("rows: from row 1 on")
    other = Reading(names, ["HUGEINT", *types[1:]], 1, [row])
    rules = [{"file": "a/.*", "differs": "type: BIGINT, ours HUGEINT", "reason": "so"}]
    assert verdict_of("a/b.csv", theirs, other, rules)[0] == "known" and verdict_of("b.csv", theirs, other, rules)[0] == "different"
    assert verdict_of("a/b.csv", theirs, refused, rules)[0] == "refused"
    assert all(rule["reason"] and rule["where"] and re.compile(rule["file"]) and re.compile(rule["differs"]) for rule in known_differences())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="files whose names have this regular expression in them")
    parser.add_argument("--twice", action="store_true", help="in place of ours take DuckDB again, through JSON: all must be equal")
    parser.add_argument("--out", type=pathlib.Path, help="write what was found as JSON")
    parser.add_argument("--show", action="store_true", help="show each file")
    parser.add_argument("--self-test", action="store_true", help="test the judge itself")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    try:
        import duckdb  # noqa: F401
    except ImportError:
        python = venv("duckdb", DUCKDB) / "python"
        os.execv(python, [python, __file__, *sys.argv[1:]])
    report, peer, rules = Report(), DuckDB(), known_differences()
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-", dir=os.environ.get("YEOUL_JUDGE_TMP")) as place:
        folder = pathlib.Path(place)
        for name in ("files", "shell"):
            (folder / name).mkdir()
        files = [*packaged(CACHE / "sniffing"), *written(folder / "files", peer.connection)]
        files = [file for file in files if re.search(options.only, file.name)]
        if options.twice:
            judge(files, peer, DuckDBByJson(), report, rules)
        else:
            with Shell(folder / "shell", ["--memory", "1GiB", "--threads", "1"], ANSWER_SECONDS_MAX) as shell:
                judge(files, peer, Yeoul(shell), report, rules)
    report.print(options.show)
    if options.out:
        options.out.write_text(json.dumps(report.files, indent=1))
    assert report.counted("equal"), "no file was read alike: nothing would be shown"
    return 1 if report.counted("different") or report.counted("crash") else 0


def judge(files: list[File], peer: DuckDB, reader: DuckDB | Yeoul, report: Report, rules: list[dict]):
    """Reads each file twice."""
    for file in files:
        theirs, ours = peer.read(file), reader.read(file)
        report.take(file, theirs, ours, *verdict_of(file.name, theirs, ours, rules))


if __name__ == "__main__":
    sys.exit(main())
