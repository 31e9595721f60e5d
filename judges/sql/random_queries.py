"""Random queries, and some changes, over small tables full of nulls and repeated values, each answered by ours and by DuckDB.

Usage: random_queries.py [--count N] [--seed S] [--show]    exits 1 if an answer differs, or if ours fails in an unknown way
       random_queries.py --seed S --count 1 --show          shows one query again

Each query has a seed of its own, from which its tables, its text and our settings follow. Ours may refuse what it does
not support (REFUSALS), and a query that DuckDB cannot answer is not counted. Rows are compared in order where the whole query has one.
"""

import argparse
import collections
import datetime
import decimal
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import binary, venv

# The version with which the benchmarks compare.
DUCKDB = ["duckdb==2.0.0"]
ANSWER_SECONDS_MAX = 60

# What ours says of a query that it does not support, one in some eighty, and of one in some thousand for which DataFusion loses track
# of columns: of a subquery that is joined twice, of a window ordered by what a filter makes constant, of a field that is moved to a scan. Everything else that it says is
# a finding.
REFUSALS = [
    "error: not supported: ",
    "error: projections require unique expression names",
    "error: SanityCheckPlan",
    "__datafusion_extracted",
]

# Settings, and options that begin with `--`. Each of these is as likely as the next; small batches end in the middle of everything.
SETTINGS = [
    [],
    ["datafusion.execution.target_partitions=4"],
    ["datafusion.optimizer.prefer_hash_join=false"],
    ["datafusion.execution.batch_size=2", "datafusion.execution.target_partitions=3"],
    ["datafusion.execution.batch_size=1", "datafusion.optimizer.prefer_hash_join=false"],
    ["datafusion.optimizer.repartition_joins=false", "datafusion.execution.batch_size=3"],
    ["yeoul.share_subplans=false", "yeoul.grouping_levels=false"],
    ["yeoul.filter_scans=false", "yeoul.order_joins=false"],
    ["--memory=1GiB", "--threads=1"],
    ["--memory=1GiB", "--threads=3", "datafusion.execution.batch_size=2"],
]

COLUMNS = {"a": "int", "b": "int", "c": "text", "d": "date", "e": "bool", "f": "dec", "g": "time", "h": "float"}
SQL_TYPES = {"int": "BIGINT", "text": "VARCHAR", "date": "DATE", "bool": "BOOLEAN", "dec": "DECIMAL(9,2)", "time": "TIMESTAMP", "float": "DOUBLE"}
# Columns of the tables whose fields and values are asked for.
NESTED = {"s": "struct", "m": "map"}
NESTED_TYPES = {"struct": "STRUCT(x BIGINT, y VARCHAR)", "map": "MAP(VARCHAR, BIGINT)"}
TABLES = ["t0", "t1", "t2", "t3"]


def literal(rng: random.Random, kind: str) -> str:
    if rng.random() < 0.04:
        return f"CAST(NULL AS {(SQL_TYPES | NESTED_TYPES)[kind]})"
    return {
        "int": lambda: str(rng.randint(-1, 4)),
        "text": lambda: rng.choice(["''", "'x'", "'xy'", "'yx'", "'Zz'"]),
        "date": lambda: f"DATE '2024-0{rng.randint(1, 3)}-01'",
        "bool": lambda: rng.choice(["TRUE", "FALSE"]),
        "dec": lambda: rng.choice(["0.00", "1.50", "-2.25", "3.00"]),
        "float": lambda: rng.choice(["1.5e0", "0.5e0", "-2e0", "'NaN'::DOUBLE", "(-('NaN'::DOUBLE))"]),
        "struct": lambda: rng.choice(["{'x': 1, 'y': 'x'}", "{'x': NULL, 'y': 'xy'}", "{'x': 3, 'y': NULL}"]),
        "map": lambda: rng.choice(["MAP {'k': 1}", "MAP {'k': 2, 'l': 3}", "MAP {'l': 4}", "MAP {'k': NULL}"]),
        "time": lambda: f"TIMESTAMP '2024-0{rng.randint(1, 3)}-0{rng.randint(1, 2)} {rng.choice(['00:00:00', '12:30:00', '23:59:59'])}'",
    }[kind]()


def interval(rng: random.Random) -> str:
    """Intervals that are equal though their fields are not among them."""
    return rng.choice(["INTERVAL '1 day'", "INTERVAL '24 hours'", "INTERVAL '1 month'", "INTERVAL '30 days'", "INTERVAL '90 minutes'", "INTERVAL '-1 second'"])


# DuckDB computes these for the same when they are added to, or subtracted from, one value: a statement has one of them.
LENGTHS_ALIKE = ["INTERVAL '1 month'", "INTERVAL '30 days'"]


def plain_pattern(pattern: str, operand: str) -> str:
    """A LIKE pattern for this operand. For what may be a CASE or nullif, DuckDB's statistics have the values and not the nulls: if all
    values begin with the prefix, or have the part, it keeps the nulls in WHERE and ON, too. It has none about a pattern with `_`."""
    is_of_table = re.search(r"\bCASE\b|\bnullif\b", operand) is None and not re.search(r"(?<![\w.'])(?!r\d)[a-z]\w*\.|(?<![\w.'])[a-g](?![\w.'(])", operand)
    return pattern if is_of_table else {"%x%": "%x_%", "x%": "x_%"}.get(pattern, pattern)


def is_plain(name: str) -> bool:
    """Whether a column is named without its table, as only one that a join merged may be."""
    return "." not in name


def flat(scope: list) -> list:
    """The columns that can be compared and sorted."""
    return [column for column in scope if column[1] in SQL_TYPES]


def mentions(text: str, scope: list) -> bool:
    """Whether an expression has one of these columns."""
    return any(re.search(rf"(?<![\w.']){re.escape(name)}(?![\w'])", text) for name, _ in scope)


def tables(rng: random.Random) -> dict[str, str]:
    """The tables' contents as queries. Sometimes one is empty."""
    found, columns, types = {}, COLUMNS | NESTED, SQL_TYPES | NESTED_TYPES
    for table in TABLES:
        rows = []
        for _ in range(rng.choice([0, 1, 3, 8, 8, 15])):
            rows.append("(" + ", ".join("NULL" if rng.random() < 0.25 else literal(rng, kind) for kind in columns.values()) + ")")
        casts = ", ".join(f"CAST({name} AS {types[kind]}) AS {name}" for name, kind in columns.items())
        names = ", ".join(columns)
        nulls = "(" + ", ".join(["NULL"] * len(columns)) + ")"
        found[table] = f"SELECT {casts} FROM (VALUES {', '.join(rows or [nulls])}) AS v({names})" + ("" if rows else " WHERE false")
    return found


class Query:
    """Makes the text of one query. A scope is a list of (column, kind); `outer` are those of the queries around it."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.names = 0
        self.length_alike = ""
        self.is_ordered = False

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def column_names(self, count: int, scope: list = ()) -> list[str]:
        """Names for the columns of a query: often those of other tables' columns, but not what stands for a column in its scope."""
        letters = [letter for letter in self.rng.sample(list(COLUMNS), len(COLUMNS)) if letter not in dict(scope)]
        return [letters.pop() if letters and self.maybe(0.4) else self.name("v") for _ in range(count)]

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def around(self, scope: list, outer: list) -> list:
        """The columns of a scope and of those around it, for a query within it, in which a name without a table may mean another."""
        return [column for column in scope + outer if not is_plain(column[0]) or self.maybe(0.05)]

    def column(self, kind: str, scope: list, outer: list) -> str | None:
        own = [name for name, of in scope if of == kind]
        others = [name for name, of in outer if of == kind]
        if others and (not own or self.maybe(0.3)):
            return self.rng.choice(others)
        return self.rng.choice(own) if own else None

    def value(self, kind: str, scope: list, outer: list, depth: int) -> str:
        """An expression of this kind."""
        column = self.column(kind, scope, outer)
        if column and self.maybe(0.75 if depth <= 0 else 0.5):
            return column
        if depth <= 0 or self.maybe(0.15):
            return literal(self.rng, kind)
        another = lambda of=kind: self.value(of, scope, outer, depth - 1)
        common = [
            lambda: f"CASE WHEN {self.condition(scope, outer, depth - 1)} THEN {another()} ELSE {another()} END",
            lambda: f"CASE WHEN {self.condition(scope, outer, depth - 1)} THEN {another()} END",
            lambda: f"coalesce({another()}, {another()})",
            lambda: f"nullif({another()}, {another()})",
            lambda: self.scalar_subquery(kind, scope, outer, depth - 1),
        ]
        own = {
            "int": [
                lambda: f"({another()} {self.rng.choice('+-*')} {another()})",
                lambda: f"abs({another()})",
                lambda: f"CAST(length({another('text')}) AS BIGINT)",
                lambda: f"CAST(extract(month FROM {another('date')}) AS BIGINT)",
                lambda: f"CAST({another('bool')} AS BIGINT)",
                lambda: f"greatest({another()}, {another()})",
                lambda: f"({another()} // {self.rng.choice(['2', '3', '(-2)'])})",
                lambda: f"CAST(date_diff('{self.rng.choice(['day', 'week', 'month', 'year'])}', {another('date')}, {another('time')}) AS BIGINT)",
                lambda: f"({self.nested('struct', scope, outer, depth - 1)})['x']",
                lambda: f"({self.nested('map', scope, outer, depth - 1)})['{self.rng.choice('kl')}']",
            ],
            "text": [
                lambda: f"({another()} || {another()})",
                lambda: f"upper({another()})",
                lambda: f"substring({another()}, 1, 1)",
                lambda: f"hex({another(self.rng.choice(['text', 'int']))})",
                lambda: f"regexp_extract({another()}, '{self.rng.choice(['[xy]+', '(x)(y)?', 'z'])}', 0)",
                lambda: f"CAST({another('int')} AS VARCHAR)",
                lambda: f"({self.nested('struct', scope, outer, depth - 1)})['y']",
            ],
            "date": [lambda: f"least({another()}, {another()})", lambda: f"CAST({another('time')} AS DATE)"],
            "bool": [lambda: f"({self.condition(scope, outer, depth - 1)})"],
            "dec": [
                lambda: f"CAST({another('int')} AS DECIMAL(9,2))",
                lambda: f"CAST({another()} {self.rng.choice('+-')} {another()} AS DECIMAL(9,2))",
                lambda: f"CAST({another()} * {another('int')} AS DECIMAL(9,2))",
                lambda: f"CAST({another()} {self.rng.choice('+-*')} {self.rng.choice(['0.5', '1.25', '10.0', '-0.1'])} AS DECIMAL(9,2))",
                lambda: f"abs({another()})",
            ],
            "float": [
                lambda: f"(-{another()})",
                lambda: f"({another()} {self.rng.choice('+-')} {another()})",
                lambda: f"CAST({another('int')} AS DOUBLE)",
                lambda: f"CAST({another('dec')} AS DOUBLE)",
                lambda: f"abs({another()})",
                lambda: f"greatest({another()}, {another()})",
            ],
            "time": [
                lambda: f"({another()} {self.rng.choice('+-')} {self.shift()})",
                lambda: f"({another('date')} {self.rng.choice('+-')} {self.shift()})",
                lambda: f"CAST({another('date')} AS TIMESTAMP)",
                lambda: f"date_trunc('{self.rng.choice(['month', 'day', 'hour'])}', {another()})",
                lambda: f"greatest({another()}, {another()})",
            ],
        }
        return self.rng.choice(common + own[kind] * 2)()

    def nested(self, kind: str, scope: list, outer: list, depth: int) -> str:
        """A struct or map, which is often null where something lies under it."""
        column = self.column(kind, scope, outer)
        own = column or {"struct": "{'x': 1, 'y': 'x'}", "map": "MAP {'k': 1}"}[kind]
        if depth <= 0:
            return own
        shape = self.rng.choice(["own", "case", "else", "nullif", "coalesce"])
        if shape == "own":
            return own
        if shape == "nullif":
            return f"nullif({own}, {own})" if kind == "struct" else own
        another = self.nested(kind, scope, outer, depth - 1)
        if shape == "coalesce":
            return f"coalesce({own}, {another})"
        last = f" ELSE {another}" if shape == "else" else ""
        return f"CASE WHEN {self.condition(scope, outer, depth - 1)} THEN {own}{last} END"

    def condition(self, scope: list, outer: list, depth: int) -> str:
        kind = self.rng.choice(["int", "int", "int", "text", "date", "dec", "dec", "time", "float"])
        value = lambda of=kind: self.value(of, scope, outer, depth - 1)
        simple = [
            lambda: f"{value()} {self.rng.choice(['=', '=', '<>', '<', '<=', '>', '>='])} {value()}",
            lambda: f"{value()} IS {self.rng.choice(['', 'NOT '])}NULL",
            lambda: f"{value()} IS {self.rng.choice(['', 'NOT '])}DISTINCT FROM {value()}",
            lambda: f"{value()} {self.rng.choice(['', 'NOT '])}BETWEEN {value()} AND {value()}",
            lambda: f"{value()} {self.rng.choice(['', 'NOT '])}IN ({self.items(kind, scope, outer, depth)})",
            lambda: f"({value('time')} - {value('time')}) {self.rng.choice(['=', '<>', '<', '<=', '>', '>='])} {interval(self.rng)}",
            lambda: self.like(value("text")),
            lambda: f"{value('int')} {self.rng.choice(['=', '<', '>='])} {self.rng.choice(['0.5', '1.0', '2.50'])}",
            lambda: f"{self.nested('struct', scope, outer, depth - 1)} IS {self.rng.choice(['', 'NOT '])}NULL",
            lambda: value("bool"),
            lambda: f"{value('bool')} IS {self.rng.choice(['TRUE', 'NOT TRUE', 'FALSE', 'NOT FALSE'])}",
        ]
        if depth <= 0:
            return self.rng.choice(simple)()
        nested = lambda: self.condition(scope, outer, depth - 1)
        subquery = lambda: self.one_column(kind, self.around(scope, outer), depth - 1)
        compound = [
            lambda: f"({nested()} AND {nested()})",
            lambda: f"({nested()} OR {nested()})",
            lambda: f"NOT ({nested()})",
            lambda: f"{self.rng.choice(['', 'NOT '])}EXISTS ({subquery()})",
            lambda: f"{value()} {self.rng.choice(['', 'NOT '])}IN ({subquery()})",
            lambda: self.row_in(scope, outer, depth - 1),
            lambda: f"{value()} {self.rng.choice(['=', '<>', '<', '>='])} {self.rng.choice(['ANY', 'ALL'])} ({subquery()})",
        ]
        return self.rng.choice(simple + compound)()

    def row_in(self, scope: list, outer: list, depth: int) -> str:
        """A row that is one of a query's."""
        kinds = [self.rng.choice(list(SQL_TYPES)) for _ in range(self.rng.randint(2, 3))]
        values = ", ".join(self.value(kind, scope, outer, depth - 1) for kind in kinds)
        query, _ = self.select(kinds, self.around(scope, outer) if self.maybe(0.3) else [], depth - 1)
        return f"({values}) {self.rng.choice(['', 'NOT '])}IN ({query})"

    def like(self, operand: str) -> str:
        negated = self.rng.choice(["", "NOT "])
        return f"{operand} {negated}LIKE {plain_pattern(self.rng.choice(['%x%', '_', 'x%', '']), operand)!r}"

    def shift(self) -> str:
        """An interval to add or subtract."""
        made = interval(self.rng)
        if made in LENGTHS_ALIKE:
            self.length_alike = self.length_alike or made
            return self.length_alike
        return made

    def items(self, kind: str, scope: list, outer: list, depth: int) -> str:
        """The items of an IN list, which may be any expressions."""
        return ", ".join(self.value(kind, scope, outer, depth - 1) for _ in range(self.rng.choice([1, 2, 3, 3, 4, 6])))

    def aggregate(self, kind: str, scope: list, outer: list, depth: int) -> str:
        """An aggregate of this kind; its argument is of the query's own columns only."""
        value = lambda of=kind: self.value(of, scope, [], min(depth, 1))
        filtered = f" FILTER (WHERE {self.condition(scope, [], 0)})" if self.maybe(0.2) else ""
        choices = {
            "int": [
                lambda: "count(*)",
                lambda: f"count({value(self.rng.choice(list(SQL_TYPES)))})",
                lambda: f"count(DISTINCT {value(self.rng.choice(list(SQL_TYPES)))})",
                lambda: f"CAST(sum({self.rng.choice(['', 'DISTINCT '])}{value()}) AS BIGINT)",
                lambda: f"{self.rng.choice(['min', 'max'])}({value()})",
            ],
            "text": [
                lambda: f"{self.rng.choice(['min', 'max'])}({value()})",
                lambda: (lambda v: f"string_agg({v}, '-' ORDER BY {v})")(value()),
            ],
            "date": [lambda: f"{self.rng.choice(['min', 'max'])}({value()})"],
            "bool": [lambda: f"{self.rng.choice(['bool_and', 'bool_or'])}({value()})"],
            "dec": [lambda: f"{self.rng.choice(['min', 'max'])}({value()})", lambda: f"CAST(sum({value()}) AS DECIMAL(9,2))"],
            "time": [lambda: f"{self.rng.choice(['min', 'max'])}({value()})"],
            "float": [lambda: f"{self.rng.choice(['min', 'max'])}({value()})"],
        }[kind]
        made = self.rng.choice(choices)()
        if made.startswith("CAST(sum"):
            return made
        return made + filtered

    def scalar_subquery(self, kind: str, scope: list, outer: list, depth: int) -> str:
        """An aggregate without groups, which has one row, or the first of several rows."""
        around = self.around(scope, outer) if self.maybe(0.7) else []
        source, inner = self.source(around, depth - 1)
        if self.maybe(0.3):
            value = self.value(kind, inner, [], 1)
            return f"(SELECT {value} FROM {source}{self.where(inner, around, depth)} ORDER BY {value} {self.order()} LIMIT 1)"
        return f"(SELECT {self.aggregate(kind, inner, around, depth)} FROM {source}{self.where(inner, around, depth)})"

    def one_column(self, kind: str, around: list, depth: int) -> str:
        around = around if self.maybe(0.7) else []
        if self.maybe(0.15):
            return self.grouped([kind], around, depth)[0]
        source, inner = self.source(around, depth - 1)
        distinct = "DISTINCT " if self.maybe(0.1) else ""
        value = self.value(kind, inner, [], 1)
        alias = "" if self.maybe(0.3) else f" AS {self.column_names(1, inner)[0]}"
        return f"SELECT {distinct}{value}{alias} FROM {source}{self.where(inner, around, depth)}"

    def where(self, scope: list, outer: list, depth: int) -> str:
        conditions = [self.condition(scope, outer, depth)] if self.maybe(0.65) else []
        pairs = [(own, other) for own, kind in flat(scope) for other, of in outer if kind == of]
        while pairs and self.maybe(0.4):
            own, other = self.rng.choice(pairs)
            conditions.append(f"{own} {self.rng.choice(['=', '=', '=', '<>', '<', '>='])} {other}")
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def source(self, around: list, depth: int) -> tuple[str, list]:
        """What stands behind FROM, and its columns."""
        if depth <= 0 or self.maybe(0.45):
            return self.relation(around, depth)
        left, columns = self.relation(around, depth - 1)
        for _ in range(self.rng.choice([1, 1, 2])):
            kind = self.rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "LATERAL", "LEFT LATERAL", "SEMI JOIN", "ANTI JOIN"])
            if kind.endswith("LATERAL"):
                text, more = self.derived(self.around(columns, []), depth - 1)
                join = "LEFT JOIN" if kind.startswith("LEFT") else "JOIN"
                left, columns = f"{left} {join} LATERAL {text} ON TRUE", self.unambiguous(columns, more)
                continue
            right, more = self.relation([], depth - 1)
            if kind in ("SEMI JOIN", "ANTI JOIN"):
                left = f"{left} {kind} {right} ON {self.join_condition(self.unambiguous(columns, more), more, depth)}"
                continue
            if kind != "CROSS JOIN" and self.maybe(0.4):
                merged = self.merged(columns, more)
                if any(kind in SQL_TYPES for kind in merged.values()):
                    left, columns = self.merging(left, columns, kind, right, more, merged)
                    continue
            columns = self.unambiguous(columns, more)
            on = f" ON {self.join_condition(columns, more, depth)}" if kind != "CROSS JOIN" else ""
            left = f"{left} {kind} {right}{on}"
        return left, columns

    def merging(self, left: str, columns: list, kind: str, right: str, more: list, merged: dict) -> tuple[str, list]:
        """A NATURAL join, or one with USING, and its columns."""
        names = [name for name, kind in merged.items() if kind in SQL_TYPES]
        if self.maybe(0.7) or len(names) < len(merged):
            names = self.rng.sample(names, self.rng.randint(1, len(names)))
            text = f"{left} {kind} {right} USING ({', '.join(names)})"
        else:
            text = f"{left} NATURAL {kind} {right}"
        new = [(name, merged[name]) for name in names]
        return text, [column for column in self.unambiguous(columns, more) if column[0] not in names] + new

    @staticmethod
    def merged(left: list, right: list) -> dict:
        """The common names of two sides with their kinds, if a NATURAL join of them has a meaning. A name that is merged already counts once."""
        kinds, common = {}, {}
        for side in [left, right]:
            plain = {name for name, _ in side if is_plain(name)}
            found = collections.Counter()
            for name, kind in side:
                bare = name.split(".")[-1]
                if is_plain(name) or bare not in plain:
                    found[bare] += 1
                    kinds.setdefault(bare, set()).add(kind)
            common[id(side)] = found
        names = set(common[id(left)]) & set(common[id(right)])
        if any(common[id(side)][name] > 1 or len(kinds[name]) > 1 for side in [left, right] for name in names):
            return {}
        return {name: kinds[name].pop() for name in sorted(names)}

    @staticmethod
    def unambiguous(columns: list, more: list) -> list:
        """The columns of a join without a condition on names: a merged name that the other side has, too, means nothing any more."""
        names = [{name.split(".")[-1] for name, _ in side} for side in [columns, more]]
        kept = [column for column in columns if not (is_plain(column[0]) and column[0] in names[1])]
        return kept + [column for column in more if not (is_plain(column[0]) and column[0] in names[0])]

    def join_condition(self, columns: list, right: list, depth: int) -> str:
        pairs = [(a, b) for a, of in flat(columns) for b, other in right if of == other and a.split(".")[0] != b.split(".")[0]]
        if not pairs:
            return "TRUE"
        equal = " = ".join(self.rng.choice(pairs))
        if self.maybe(0.5):
            return equal
        if self.maybe(0.5):
            return f"{equal} AND {self.condition(columns, [], 1)}"
        return self.condition(columns, [], 1)

    def relation(self, around: list, depth: int) -> tuple[str, list]:
        if depth > 0 and self.maybe(0.3):
            return self.derived([], depth - 1)
        if self.maybe(0.15):
            return self.keyed()
        alias = self.name("r")
        return f"{self.rng.choice(TABLES)} AS {alias}", [(f"{alias}.{name}", kind) for name, kind in (COLUMNS | NESTED).items()]

    def keyed(self) -> tuple[str, list]:
        """A table some of whose columns determine the others: distinct rows, or groups."""
        alias, table = self.name("k"), self.rng.choice(TABLES)
        names = self.rng.sample(list(COLUMNS), self.rng.randint(1, 3))
        if self.maybe(0.5):
            text = f"SELECT DISTINCT {', '.join(names)} FROM {table}"
        else:
            key, *others = names
            items = [key, *(f"{'bool_or' if COLUMNS[name] == 'bool' else 'max'}({table}.{name}) AS {name}" for name in others)]
            text = f"SELECT {', '.join(items)} FROM {table} GROUP BY {key}"
        return f"({text}) AS {alias}", [(f"{alias}.{name}", COLUMNS[name]) for name in names]

    def derived(self, around: list, depth: int) -> tuple[str, list]:
        alias = self.name("q")
        kinds = [self.rng.choice(list(SQL_TYPES)) for _ in range(self.rng.randint(1, 3))]
        text, names = self.select(kinds, around, depth)
        return f"({text}) AS {alias}", [(f"{alias}.{name}", kind) for name, kind in zip(names, kinds)]

    def grouped(self, kinds: list, around: list, depth: int, is_operand: bool = False) -> tuple[str, list]:
        source, scope = self.source(around, depth - 1)
        keys = [self.value(self.rng.choice(list(SQL_TYPES)), scope, [], 1) for _ in range(self.rng.randint(0, 2))]
        # A key must be an expression over columns: a bare literal or number would mean something else.
        keys = [key for key in keys if mentions(key, scope) and "SELECT" not in key]
        if is_operand and not keys:
            # DuckDB has no row, where an aggregate has one, for an outer row without a match, if UNION, INTERSECT or EXCEPT is around it.
            around = []
        by_key = {}
        for key in keys:
            for name, kind in scope:
                if name == key:
                    by_key[key] = kind
        names, items = self.column_names(len(kinds), scope), []
        for name, kind in zip(names, kinds):
            fitting = [key for key, of in by_key.items() if of == kind]
            item = self.rng.choice(fitting) if fitting and self.maybe(0.5) else self.aggregate(kind, scope, around, depth)
            items.append(f"{item} AS {name}")
        text = f"SELECT {', '.join(items)} FROM {source}{self.where(scope, around, depth)}"
        if keys:
            # A key that begins with a parenthesis is a list of keys to our parser.
            is_flat = not around and not any(key.startswith("(") for key in keys)
            form = self.rng.choice(["{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})"]) if is_flat else "{}"
            text += " GROUP BY " + form.format(", ".join(dict.fromkeys(keys)))
        if keys and self.maybe(0.3):
            text += f" HAVING {self.aggregate('int', scope, [], 1)} {self.rng.choice(['<', '>=', '<>'])} {literal(self.rng, 'int')}"
        return text, names

    def regrouped(self, kinds: list, around: list, depth: int) -> tuple[str, list]:
        """Distinct rows, or groups, of the groups or distinct rows of a source."""
        source, scope = self.source(around, depth - 1)
        scope = flat(scope)
        kept = self.rng.sample(scope, min(len(scope), self.rng.randint(1, 4)))
        inner = [(self.name("v"), kind, name) for name, kind in kept]
        items = ", ".join(f"{name} AS {own}" for own, _, name in inner)
        text = f"SELECT DISTINCT {items} FROM {source}{self.where(scope, around, 1)}"
        if self.maybe(0.5):
            columns = ", ".join(name for _, _, name in inner)
            text = f"SELECT {items} FROM {source}{self.where(scope, around, 1)} GROUP BY {columns}"
        alias = self.name("q")
        scope = [(f"{alias}.{own}", kind) for own, kind, _ in inner]
        keys = [name for name, _ in self.rng.sample(scope, self.rng.randint(1, len(scope)))]
        names, items = self.column_names(len(kinds)), []
        for name, kind in zip(names, kinds):
            fitting = [key for key in keys if dict(scope)[key] == kind]
            items.append(f"{self.rng.choice(fitting) if fitting else self.aggregate(kind, scope, [], 1)} AS {name}")
        return f"SELECT {', '.join(items)} FROM ({text}) AS {alias} GROUP BY {', '.join(keys)}", names

    def windowed(self, kinds: list, around: list, depth: int) -> tuple[str, list]:
        source, scope = self.source(around, depth - 1)
        keys = flat(scope)
        everything = ", ".join(f"{name} {self.order()}" for name, _ in self.rng.sample(keys, len(keys)))
        some = self.rng.sample(keys, min(len(keys), self.rng.randint(0, 2)))
        partition = f"PARTITION BY {', '.join(name for name, _ in some)} " if some else ""
        names, items = self.column_names(len(kinds), scope), []
        for name, kind in zip(names, kinds):
            value = self.value(kind, scope, [], 1)
            frame = self.rng.choice(["", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"])
            over = f"OVER ({partition}ORDER BY {everything}{frame})"
            unframed = f"OVER ({partition}ORDER BY {everything})"
            choices = [
                lambda: value,
                lambda: f"lag({value}) {unframed}",
                lambda: f"lead({value}, 2) {unframed}",
                lambda: f"first_value({value}) {over}",
                lambda: f"last_value({value}) {over}",
                lambda: f"max({value}) {over}" if kind != "bool" else f"bool_or({value}) {over}",
            ]
            if kind == "int":
                peers = self.rng.choice(keys)[0]
                choices += [
                    lambda: f"row_number() {unframed}",
                    lambda: f"CAST({self.rng.choice(['rank', 'dense_rank'])}() OVER ({partition}ORDER BY {peers} {self.order()}) AS BIGINT)",
                    lambda: f"CAST(sum({value}) {over} AS BIGINT)",
                    lambda: f"CAST(sum({value}) OVER ({partition}ORDER BY {peers} {self.order()}) AS BIGINT)",
                    lambda: f"count({value}) {over}",
                ]
            items.append(f"{self.rng.choice(choices)()} AS {name}")
        return f"SELECT {', '.join(items)} FROM {source}{self.where(scope, around, depth)}", names

    def item(self, kind: str, earlier, scope: list, around: list, depth: int) -> str:
        """A column of a SELECT, which may be made of an earlier one whose name no table has."""
        earlier = [name for of, name in earlier if of == kind and name.startswith("v")]
        if earlier and self.maybe(0.3):
            name = self.rng.choice(earlier)
            return self.rng.choice([name, f"nullif({name}, {literal(self.rng, kind)})", f"CASE WHEN {name} IS NULL THEN {literal(self.rng, kind)} ELSE {name} END"])
        return self.value(kind, scope, around, depth)

    def order(self) -> str:
        return self.rng.choice(["ASC", "DESC"]) + " NULLS " + self.rng.choice(["FIRST", "LAST"])

    def select(self, kinds: list, around: list, depth: int, is_operand: bool = False) -> tuple[str, list]:
        """A query with columns of these kinds, and their names; `is_operand`: of a UNION, INTERSECT or EXCEPT."""
        shape = self.rng.random()
        if depth > 0 and shape < 0.12:
            left, names = self.select(kinds, around, depth - 1, True)
            right, _ = self.select(kinds, around, depth - 1, True)
            operation = self.rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
            text = f"({left}) {operation} ({right})"
        elif shape < 0.35:
            text, names = self.grouped(kinds, around, depth, is_operand)
        elif shape < 0.5 and not around:
            text, names = self.windowed(kinds, around, depth)
        elif shape < 0.6 and depth > 0:
            text, names = self.regrouped(kinds, around, depth)
        else:
            source, scope = self.source(around, depth - 1)
            names = self.column_names(len(kinds), scope)
            items = [f"{self.item(kind, zip(kinds[:place], names), scope, around, depth)} AS {names[place]}" for place, kind in enumerate(kinds)]
            distinct = "DISTINCT " if self.maybe(0.15) else ""
            text = f"SELECT {distinct}{', '.join(items)} FROM {source}{self.where(scope, around, depth)}"
        if self.maybe(0.1):
            # Some order that keeps all rows.
            order = ", ".join(f"{name} {self.order()}" for name in self.rng.sample(names, self.rng.randint(1, len(names))))
            text = f"SELECT {', '.join(names)} FROM ({text}) AS {self.name('o')} ORDER BY {order} LIMIT 100000"
        if self.maybe(0.12):
            # By all columns, so that equal rows are the only ties.
            order = ", ".join(f"{name} {self.order()}" for name in names)
            text = f"SELECT {', '.join(names)} FROM ({text}) AS {self.name('o')} ORDER BY {order} LIMIT {self.rng.randint(0, 5)}"
            text += f" OFFSET {self.rng.randint(0, 2)}" if self.maybe(0.3) else ""
        return text, names

    def change(self) -> list[str]:
        """A DELETE or UPDATE of a copy of a table, and what is left there."""
        scope = [(f"x.{name}", kind) for name, kind in (COLUMNS | NESTED).items()]
        depth = self.rng.choice([1, 2, 2, 3])
        where = f" WHERE {self.condition(scope, [], depth)}" if self.maybe(0.9) else ""
        text = f"DELETE FROM x{where}"
        if self.maybe(0.5):
            changed = self.rng.sample(list(COLUMNS.items()), self.rng.randint(1, 3))
            values = ", ".join(f"{name} = {self.value(kind, scope, [], depth)}" for name, kind in changed)
            text = f"UPDATE x SET {values}{where}"
        return [f"CREATE TABLE x AS SELECT * FROM {self.rng.choice(TABLES)}", text, "SELECT * FROM x"]

    def statements(self) -> list[str]:
        """The statements of one seed; `is_ordered` says then whether their rows have an order."""
        return self.change() if self.maybe(0.08) else [self.statement()]

    def ordered(self, text: str, names: list[str]) -> str:
        """A query whose rows are in order at times: by all columns, so that equal rows are the only ties."""
        if not self.maybe(0.3):
            return text
        self.is_ordered = True
        order = ", ".join(f"{name} {self.order()}" for name in self.rng.sample(names, len(names)))
        return f"SELECT * FROM ({text}) AS {self.name('o')} ORDER BY {order}"

    def statement(self) -> str:
        kinds = [self.rng.choice(list(SQL_TYPES)) for _ in range(self.rng.randint(1, 4))]
        depth = self.rng.choice([1, 2, 2, 3, 3, 4])
        if self.maybe(0.1):
            # With columns of the same name, which both may call as they like.
            source, scope = self.source([], depth - 1)
            if " USING (" in source or " NATURAL " in source:
                # Its columns have another order in DuckDB: see docs/reference/sql-differences.md.
                items = ", ".join(f"{name} AS v{place}" for place, (name, _) in enumerate(scope))
                return f"SELECT {items} FROM {source}{self.where(scope, [], depth)}"
            (name,) = self.column_names(1)
            return f"SELECT *, {self.value(kinds[0], scope, [], depth)} AS {name} FROM {source}{self.where(scope, [], depth)}"
        if not self.maybe(0.15):
            return self.ordered(*self.select(kinds, [], depth))
        # A common table expression that is used twice.
        inner, names = self.select(kinds, [], depth - 1)
        table, on = self.name("w"), self.rng.randrange(len(kinds))
        columns = ", ".join(f"{side}.{name} AS {side}_{name}" for side in ["x", "y"] for name in names)
        join = self.rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
        return f"WITH {table} AS ({inner}) SELECT {columns} FROM {table} AS x {join} {table} AS y ON x.{names[on]} = y.{names[on]}"


def plain(value):
    """A value as both sides write it."""
    if isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool):
        return str(decimal.Decimal(str(value)).normalize() + 0)
    return str(value) if isinstance(value, (datetime.date, datetime.datetime)) else value


def in_order(rows: list) -> list:
    return sorted(rows, key=lambda row: json.dumps(row))


def theirs(connection, statements: list[str]) -> tuple[list | None, str]:
    """The rows of all statements, of a DELETE or UPDATE the number of rows that it changed."""
    import duckdb

    found = []
    try:
        for text in statements:
            rows = connection.execute(text).fetchall()
            found += [] if text.startswith("CREATE") else rows
    except duckdb.Error as error:
        return None, str(error)
    return [[plain(value) for value in row] for row in found], ""


def ours(folder: str, settings: list[str], statements: list[str]) -> tuple[list | None, str]:
    views = "; ".join(f"CREATE VIEW {table} AS SELECT * FROM '{folder}/{table}.parquet'" for table in TABLES)
    command = [binary(), "sql", "-q", "--format", "json"]
    for setting in settings:
        command += [setting] if setting.startswith("--") else ["--set", setting]
    try:
        ended = subprocess.run([*command, "-c", "; ".join([views, *statements])], capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return None, f"no answer within {ANSWER_SECONDS_MAX} s"
    if ended.returncode != 0:
        return None, ended.stderr or f"exit {ended.returncode}"
    rows = [list(json.loads(line, parse_float=decimal.Decimal).values()) for line in ended.stdout.splitlines()]
    return [[plain(value) for value in row] for row in rows], ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="show each query and its answers")
    options = parser.parse_args()
    try:
        import duckdb
    except ImportError:
        python = venv("duckdb", DUCKDB) / "python"
        os.execv(python, [python, __file__, *sys.argv[1:]])
    counted = collections.Counter()
    for seed in range(options.seed, options.seed + options.count):
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
            made = tables(rng)
            for table, text in made.items():
                connection.sql(f"COPY ({text}) TO '{folder}/{table}.parquet'")
                connection.sql(f"CREATE VIEW {table} AS SELECT * FROM '{folder}/{table}.parquet'")
            settings = rng.choice(SETTINGS)
            written = Query(rng)
            statements = written.statements()
            query = "; ".join(statements)
            expected, their_error = theirs(connection, statements)
            answer, error = ours(folder, settings, statements)
        if options.show:
            print(f"{query}\nsettings: {settings}\ntables: {json.dumps(made, indent=1)}\nDuckDB: {expected} {their_error}\nours:   {answer} {error}")
        if expected is None:
            counted["not counted: DuckDB fails"] += 1
        elif answer is None:
            refusal = next((refusal for refusal in REFUSALS if refusal in error), None)
            counted["refused" if refusal else "FAILED"] += 1
            if not refusal:
                print(f"FAIL seed {seed}: {' '.join(error.split())[:400]}", flush=True)
        elif (answer != expected) if written.is_ordered else (in_order(answer) != in_order(expected)):
            counted["DIFFERENT"] += 1
            print(f"FAIL seed {seed}: {len(expected)} rows in DuckDB, {len(answer)} in ours: {query[:300]}", flush=True)
        else:
            counted["equal"] += 1
            counted["equal, in order"] += written.is_ordered
            counted["equal, with rows"] += bool(expected)
    print(", ".join(f"{what}: {times}" for what, times in sorted(counted.items())))
    return 1 if counted["FAILED"] or counted["DIFFERENT"] or not counted["equal, with rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
