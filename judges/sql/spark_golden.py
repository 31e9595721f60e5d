"""The golden files of Spark's SQL test suite: statements with Spark's schema and output, the types and values in them, and how the rows
of `yeoul sql` compare with them."""

import datetime
import decimal
import json
import math
import re
import typing
import zoneinfo

from shell import Number, Pairs

# The session's zone in Spark's suite.
ZONE = zoneinfo.ZoneInfo("America/Los_Angeles")
RELATIVE = {"double": 1e-9, "float": 1e-5}
# Rows of a kind that are paired one by one with others if sorting does not pair them.
PAIRED_ROWS_MAX = 2_000


class Case(typing.NamedTuple):
    """A statement of a golden file. `schema` is `struct<>` for what has no columns, and for what Spark refuses."""

    sql: str
    schema: str
    output: str

    @property
    def is_answered(self) -> bool:
        return self.schema not in ("struct<>", "")

    @property
    def is_refused(self) -> bool:
        return not self.is_answered and re.match(r"[a-z]+(\.[\w$]+)+(Exception|Error)\b", self.output) is not None


def cases(text: str) -> list[Case]:
    parts = re.split(r"^-- !query.*\n", text, flags=re.M)[1:]
    found = []
    for sql, schema, output in zip(*[iter(parts)] * 3, strict=True):
        # Two empty lines part statements; of the output Spark has cut off white space at the end.
        found.append(Case(sql.strip(), schema.strip(), output.rstrip()))
    return found


# Types. A type is a text, or a tuple: ("array", T), ("map", K, V), ("struct", ((name, T), ...)).
SCALAR = re.compile(
    r"decimal\(\d+,\d+\)|(?:char|varchar)\(\d+\)|time\(\d\)|timestamp_ntz|timestamp_ltz|timestamp|"
    r"interval (?:year|month|day|hour|minute|second)(?: to (?:month|hour|minute|second))?|interval|string(?: collate [\w.]+)?|"
    r"tinyint|smallint|int|bigint|float|double|boolean|binary|date|void|variant"
)


def type_at(text: str, at: int) -> tuple | None:
    """The type that begins at a place, and where it ends."""
    for opening, count in [("array<", 1), ("map<", 2)]:
        if text.startswith(opening, at):
            parts, at = [opening[:-1]], at + len(opening)
            for number in range(count):
                found = type_at(text, at)
                if found is None or not text.startswith(">" if number == count - 1 else ",", found[1]):
                    return None
                parts.append(found[0])
                at = found[1] + 1
            return tuple(parts), at
    if text.startswith("struct<", at):
        return fields_at(text, at + len("struct<"))
    found = SCALAR.match(text, at)
    return (found.group(), found.end()) if found else None


def fields_at(text: str, at: int) -> tuple | None:
    """The fields of a struct up to its `>`. Names of columns are any text, and end at the first `:` behind which a type and a comma are."""
    fields = []
    if text.startswith(">", at):
        return ("struct", ()), at + 1
    colon = at
    while (colon := text.find(":", colon)) >= 0:
        found = type_at(text, colon + 1)
        if found is None or text[found[1] : found[1] + 1] not in (",", ">"):
            colon += 1
            continue
        fields.append((text[at:colon], found[0]))
        if text[found[1]] == ">":
            return ("struct", tuple(fields)), found[1] + 1
        at = colon = found[1] + 1
    return None


def columns(schema: str) -> list | None:
    """The names and types of a schema; nothing if they cannot be told apart."""
    if not (schema.startswith("struct<") and schema.endswith(">")):
        return None
    at, fields, end = len("struct<"), [], len(schema) - 1
    colon = at
    while (colon := schema.find(":", colon)) >= 0:
        found = type_at(schema, colon + 1)
        if found is None or (found[1] != end and schema[found[1]] != ","):
            colon += 1
            continue
        fields.append((schema[at:colon], found[0]))
        if found[1] == end:
            return fields
        at = colon = found[1] + 1
    return None


class Unreadable(Exception):
    """A text is none of its type."""


class Reader:
    """Reads a value within brackets, where texts are quoted but not escaped."""

    def __init__(self, text: str):
        self.text, self.at = text, 0

    def take(self, what: str):
        if not self.text.startswith(what, self.at):
            raise Unreadable(f"{what!r} expected at {self.at} of {self.text!r}")
        self.at += len(what)

    def has(self, what: str) -> bool:
        if self.text.startswith(what, self.at):
            self.at += len(what)
            return True
        return False

    def items(self, opening: str, closing: str, read) -> list:
        self.take(opening)
        if self.has(closing):
            return []
        found = [read()]
        while not self.has(closing):
            self.take(",")
            found.append(read())
        return found

    def value(self, of, stops: str):
        if re.compile(rf"null(?=[{re.escape(stops)}]|$)").match(self.text, self.at):
            self.at += 4
            return None
        if isinstance(of, tuple):
            if of[0] == "array":
                return self.items("[", "]", lambda: self.value(of[1], ",]"))
            if of[0] == "map":
                return self.items("{", "}", lambda: self.entry(of))
            fields = iter(of[1])
            return self.items("{", "}", lambda: self.field(next(fields, None)))
        if of.startswith(("string", "char", "varchar")):
            found = re.compile(rf'"(.*?)"(?=[{re.escape(stops)}]|$)', re.S).match(self.text, self.at)
        else:
            pattern = rf"(\d{{4,}}-\d\d-\d\d[ \d:.]*|.*?)(?=[{re.escape(stops)}]|$)"
            found = re.compile(pattern, re.S).match(self.text, self.at)
        if found is None:
            raise Unreadable(self.text[self.at :])
        self.at = found.end()
        return scalar(found.group(1), of)

    def entry(self, of) -> tuple:
        key = self.value(of[1], ":")
        self.take(":")
        return key, self.value(of[2], ",}")

    def field(self, of):
        if of is None:
            raise Unreadable(self.text)
        self.take(f'"{of[0]}":')
        return self.value(of[1], ",}")


def scalar(text: str, of: str):
    """A scalar as Spark writes it."""
    try:
        if of in ("double", "float") or of.startswith("decimal") or of in ("tinyint", "smallint", "int", "bigint"):
            return decimal.Decimal(text)
        if of.startswith("interval"):
            return interval(text, of)
    except (decimal.InvalidOperation, ValueError) as error:
        raise Unreadable(text) from error
    if of == "boolean":
        if text not in ("true", "false"):
            raise Unreadable(text)
        return text == "true"
    return text


def interval(text: str, of: str = "interval") -> tuple:
    """Months, days and microseconds. An interval of Spark's days to seconds has its days among the microseconds."""
    second = decimal.Decimal(1_000_000)
    if found := re.fullmatch(r"(-?)(\d+)-(\d+)", text):
        sign = -1 if found[1] else 1
        return sign * (int(found[2]) * 12 + int(found[3])), 0, 0
    if found := re.fullmatch(r"(-?)(\d+) (\d+):(\d+):([\d.]+)", text):
        sign = -1 if found[1] else 1
        return 0, 0, sign * int((int(found[2]) * 86400 + int(found[3]) * 3600 + int(found[4]) * 60) * second + decimal.Decimal(found[5]) * second)
    months, days, micros, rest = 0, 0, 0, text.strip()
    if rest == "PT0S":
        rest = ""
    while rest:
        if found := re.match(r"([-+]?)(\d+):(\d+):([\d.]+)\s*", rest):
            part = (int(found[2]) * 3600 + int(found[3]) * 60) * second + decimal.Decimal(found[4]) * second
            micros += int(-part if found[1] == "-" else part)
        elif found := re.match(r"([-+]?[\d.]+) ?(year|mon|week|day|hour|min|sec|milli|micro|nano|ms|us|ns)[a-z]*\s*", rest):
            number = decimal.Decimal(found[1])
            if found[2] in ("year", "mon"):
                months += int(number * (12 if found[2] == "year" else 1))
            elif found[2] in ("week", "day"):
                days += int(number * (7 if found[2] == "week" else 1))
            else:
                seconds = {"hour": 3600, "min": 60, "sec": 1, "milli": "0.001", "ms": "0.001", "micro": "0.000001", "us": "0.000001"}
                micros += int(number * decimal.Decimal(seconds.get(found[2], "0.000000001")) * second)
        else:
            raise ValueError(text)
        rest = rest[found.end() :]
    if of.startswith("interval "):
        return months, 0, days * 86_400_000_000 + micros
    return months, days, micros


def rows_of(output: str, types: list) -> list:
    """The rows of a golden output."""
    found = []
    for line in output.split("\n"):
        texts = line.split("\t")
        # White space at the end of the output is lost: empty texts.
        texts += [""] * (len(types) - len(texts))
        if len(texts) != len(types):
            raise Unreadable(line)
        row = []
        for text, of in zip(texts, types, strict=True):
            if text == "NULL":
                row.append(None)
            elif isinstance(of, tuple):
                reader = Reader(text)
                row.append(reader.value(of, "\0"))
                if reader.at != len(text):
                    raise Unreadable(text)
            else:
                row.append(scalar(text, of))
        found.append(row)
    return found


def local_time(text: str, of: str) -> str:
    """A time without zeros at its end, without `T`, and without a zone: in that of Spark's suite."""
    found = re.fullmatch(r"([-+]?\d{4,}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[-+]\d\d(?::?\d\d){0,2})?", text)
    if found is None:
        return text
    day, time, offset = found.groups()
    if offset and of == "timestamp":
        try:
            told = datetime.datetime.fromisoformat(f"{day}T{time[:15]}{offset.replace('Z', '+00:00')}")
            local = told.astimezone(ZONE)
            day, time = local.strftime("%Y-%m-%d"), local.strftime("%H:%M:%S.%f")
        except (ValueError, OverflowError):
            pass
    if "." in time:
        time = time.rstrip("0").rstrip(".")
    return f"{day} {time}"


def plain(value) -> str:
    """A value of ours as a text."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)


def is_same(ours, theirs, of) -> bool:
    """Whether a value of our JSON is one of Spark's."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(of, tuple):
        return is_same_nested(ours, theirs, of)
    if of.startswith("decimal") or of in ("double", "float", "tinyint", "smallint", "int", "bigint"):
        if isinstance(ours, (bool, list)):
            return False
        try:
            number = decimal.Decimal(ours)
        except decimal.InvalidOperation:
            return False
        if number.is_nan() or theirs.is_nan():
            return number.is_nan() and theirs.is_nan()
        if of in RELATIVE or isinstance(ours, Number) and re.search("[eE]", ours):
            return math.isclose(float(number), float(theirs), rel_tol=RELATIVE.get(of, 1e-9), abs_tol=1e-12)
        return number == theirs
    if of == "boolean":
        return ours is theirs
    text = plain(ours)
    if of.startswith("interval"):
        try:
            return interval(text, of) == theirs
        except (ValueError, decimal.InvalidOperation):
            return False
    if of == "binary":
        return text.lower() == theirs.lower() or is_hex(text) and bytes.fromhex(text).decode(errors="replace").strip() == theirs.strip()
    if of in ("timestamp", "timestamp_ntz", "timestamp_ltz", "date"):
        return local_time(text, of) == local_time(theirs, of)
    if of.startswith("time("):
        return (text.rstrip("0").rstrip(".") if "." in text else text) == theirs
    return text == theirs


def is_hex(text: str) -> bool:
    return len(text) % 2 == 0 and re.fullmatch(r"[0-9a-fA-F]*", text) is not None


def is_same_nested(ours, theirs, of: tuple) -> bool:
    if not isinstance(ours, list) or len(ours) != len(theirs):
        return False
    if of[0] == "array":
        return not isinstance(ours, Pairs) and all(is_same(mine, his, of[1]) for mine, his in zip(ours, theirs, strict=True))
    if not isinstance(ours, Pairs):
        return False
    if of[0] == "struct":
        return all(is_same(mine, his, to) for (_, mine), his, (_, to) in zip(ours, theirs, of[1], strict=True))
    # Keys of JSON are texts.
    def key(name):
        if isinstance(of[1], tuple):
            return json.loads(name, parse_float=Number, parse_int=Number, object_pairs_hook=Pairs)
        if of[1] == "boolean":
            return name == "true"
        return name if of[1].startswith("string") else Number(name)

    left = list(theirs)
    for name, value in ours:
        match = next((pair for pair in left if is_same(key(name), pair[0], of[1]) and is_same(value, pair[1], of[2])), None)
        if match is None:
            return False
        left.remove(match)
    return True


def is_same_row(ours: list, theirs: list, types: list) -> bool:
    return len(ours) == len(theirs) and all(map(is_same, ours, theirs, types))


def rough(row: list) -> str:
    """Text by which equal rows of both sort alike, mostly."""
    texts = []
    for value in row:
        try:
            texts.append(f"{float(value):.6g}")
        except (TypeError, ValueError):
            texts.append("" if value is None else re.sub(r"[^\w]", "", plain(value)) if isinstance(value, (str, bool)) else "nested")
    return repr(texts)


def compared(ours: list[list], case: Case, is_ordered: bool) -> str:
    """`right`, `other order` or `differs`."""
    told = columns(case.schema)
    types = [of for _, of in told] if told else []
    if not case.output and (not ours or all(value in (None, "") for row in ours for value in row)):
        return "right"
    try:
        theirs = rows_of(case.output, types)
    except Unreadable:
        theirs = None
    # Rows of empty texts at the end are cut off.
    if theirs is not None and len(theirs) < len(ours) and all(of == "string" for of in types):
        theirs += [[""] * len(types)] * sum(not any(row) and None not in row for row in ours)
    if theirs is None or len(theirs) != len(ours):
        return compared_as_texts(ours, case)
    if all(is_same_row(mine, his, types) for mine, his in zip(ours, theirs, strict=True)):
        return "right"
    mine, his = sorted(ours, key=rough), sorted(theirs, key=rough)
    is_paired = all(is_same_row(one, other, types) for one, other in zip(mine, his, strict=True))
    if not is_paired and len(ours) <= PAIRED_ROWS_MAX:
        is_paired = all(takes(left := his, row, types) for row in mine) and not left
    if is_paired:
        return "other order" if is_ordered else "right"
    return compared_as_texts(ours, case)


def takes(rows: list, row: list, types: list) -> bool:
    """Removes a row that is the same."""
    for at, other in enumerate(rows):
        if is_same_row(row, other, types):
            del rows[at]
            return True
    return False


def compared_as_texts(ours: list[list], case: Case) -> str:
    """For texts with tabs and line breaks in them, which cannot be told from columns and rows."""
    lines = ["\t".join("NULL" if value is None else plain(value) for value in row) for row in ours]
    same = "\n".join(lines).rstrip() == case.output or "\n".join(sorted(lines)).rstrip() == case.output
    return "right" if same else "differs"


# What DESCRIBE calls a type, by Spark's name.
TYPES = {
    "NULL": "void", "INTEGER": "int", "VARCHAR": "string", "BLOB": "binary", "TIME": "time(6)", "TIMESTAMP WITH TIME ZONE": "timestamp",
    "TIMESTAMP": "timestamp_ntz", "TIMESTAMP_S": "timestamp_ntz", "TIMESTAMP_MS": "timestamp_ntz", "TIMESTAMP_NS": "timestamp_ntz",
}  # fmt: skip


def our_type(text: str) -> str:
    """A type of DESCRIBE by Spark's name, without spaces."""
    if text.endswith("]"):
        return f"array<{our_type(text[: text.rindex('[')])}>"
    if text.startswith("MAP("):
        return f"map<{','.join(map(our_type, parts_of(text[4:-1])))}>"
    if text.startswith("STRUCT("):
        return f"struct<{','.join(map(field_of, parts_of(text[7:-1])))}>"
    return TYPES.get(text, text.lower())


def parts_of(text: str) -> list[str]:
    """What is between the commas of a list that are within no parentheses and quotes."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter == "(") - (letter == ")")
        if letter == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def field_of(text: str) -> str:
    """A field of a struct, `name TYPE`, by Spark's names."""
    name, kind = re.fullmatch(r'("(?:[^"]|"")*"|\S+) (.*)', text).groups()
    if name.startswith('"'):
        name = name[1:-1].replace('""', '"')
    return f"{name}:{our_type(kind)}"


def spelled(of) -> str:
    """A type of Spark as `our_type` spells it."""
    if isinstance(of, tuple):
        if of[0] == "struct":
            return "struct<" + ",".join(f"{name}:{spelled(to)}" for name, to in of[1]) + ">"
        return f"{of[0]}<{','.join(map(spelled, of[1:]))}>"
    return "string" if of.startswith(("string", "char", "varchar")) else of


def has_their_types(described: list[str], case: Case) -> bool:
    told = columns(case.schema)
    if told is None or len(told) != len(described):
        return False
    for text, (_, of) in zip(described, told, strict=True):
        mine, his = our_type(text).lower(), spelled(of).lower()
        if mine != his and not (mine == "interval" and his.startswith("interval")):
            return False
    return True
