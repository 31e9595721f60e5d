"""Statements of Spark in the spelling that DataFusion's dialect has for the same: temporary views as views, VALUES in brackets, texts in
double quotes and with escapes, numbers with suffixes, `array()`, `map()` and `int()`, names in backquotes, tables without `USING`.

What is not spelling (functions, clauses, types) stays."""

import re
import typing

TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<raw>\b[rR](?:'[^']*'|"[^"]*"))
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<name>`(?:[^`]|``)*`)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:BD|[LSYDFlsydf]|bd)?(?!\w))
      | (?P<word>\w+)
      | (?P<sign>==|.)""",
    re.X | re.S,
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
SUFFIXES = {"S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT"}
TYPES = {"tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "date", "timestamp"}
# Words behind a row of VALUES that are no alias of it.
ENDS = {"as", "where", "group", "having", "order", "sort", "limit", "union", "except", "intersect", "join", "on", "window", "lateral", "pivot"}


class Token(typing.NamedTuple):
    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words

    @property
    def is_space(self) -> bool:
        return self.kind == "space"


def tokens(sql: str) -> list[Token]:
    return [Token(found.lastgroup, found.group()) for found in TOKEN.finditer(sql)]


def unescaped(text: str) -> str:
    """What stands between the quotes of a text of Spark."""
    found, at, body = [], 0, text[1:-1]
    while at < len(body):
        one = body[at]
        if one == text[0]:
            # Texts beside each other, or a doubled quote.
            at += 2
            found.append(one)
        elif one != "\\" or at + 1 == len(body):
            found.append(one)
            at += 1
        elif (code := re.match(r"\\(u([0-9a-fA-F]{4})|([0-3][0-7]{2}))", body[at:])) is not None:
            found.append(chr(int(code[2], 16) if code[2] else int(code[3], 8)))
            at += code.end()
        else:
            # Of patterns, Spark keeps the escape.
            found.append(f"\\{body[at + 1]}" if body[at + 1] in "%_" else ESCAPES.get(body[at + 1], body[at + 1]))
            at += 2
    return "".join(found)


def spelled(token: Token, is_double_quoted_name: bool) -> Token:
    """A token on its own."""
    if token.kind == "text":
        if token.text[0] == '"' and is_double_quoted_name:
            return token
        return Token("text", "'" + unescaped(token.text).replace("'", "''") + "'")
    if token.kind == "raw":
        return Token("text", "'" + token.text[2:-1].replace("'", "''") + "'")
    if token.kind == "name":
        return Token("name", '"' + token.text[1:-1].replace("``", "`").replace('"', '""') + '"')
    if token.kind == "number" and (suffix := re.search(r"[A-Za-z]+$", token.text)):
        digits = token.text[: suffix.start()]
        kind = SUFFIXES.get(suffix.group().upper())
        return Token("number", f"CAST({digits} AS {kind})" if kind else digits)
    return Token("sign", "=") if token.text == "==" else token


def next_at(found: list[Token], at: int) -> int:
    """The next token that is no space, from a place on."""
    while at < len(found) and found[at].is_space:
        at += 1
    return at


def previous(found: list[Token], at: int) -> Token:
    """The token before a place that is no space."""
    at -= 1
    while at >= 0 and found[at].is_space:
        at -= 1
    return found[at] if at >= 0 else Token("space", "")


def closing(found: list[Token], at: int) -> int:
    """The bracket that closes the one at a place."""
    depth = 0
    for place in range(at, len(found)):
        depth += {"(": 1, ")": -1}.get(found[place].text, 0)
        if depth == 0:
            return place
    return len(found) - 1


def split(found: list[Token]) -> list[list[Token]]:
    """Tokens between commas."""
    parts, depth = [[]], 0
    for token in found:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.text, 0)
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def trimmed(found: list[Token]) -> list[Token]:
    while found and found[0].is_space:
        found = found[1:]
    while found and found[-1].is_space:
        found = found[:-1]
    return found


def text_of(found: list[Token]) -> str:
    return "".join(token.text for token in found)


def values_end(found: list[Token], at: int) -> int:
    """Where the rows behind VALUES end."""
    last = None
    while at < len(found):
        token = found[at]
        if token.text == "(":
            at = closing(found, at)
            last = found[at]
        elif token.text in (")", ";"):
            return at
        elif not token.is_space:
            is_operand = last is not None and (last.kind in ("number", "text") or last.text == ")" or last.is_word("null", "true", "false"))
            if token.is_word(*ENDS) or is_operand and token.kind in ("word", "name"):
                return at
            last = token if token.text != "," else None
        at += 1
    return at


def is_alias_list(found: list[Token], at: int) -> bool:
    """Whether names of columns in brackets follow."""
    at = next_at(found, at)
    return at < len(found) and found[at].text == "(" and all(
        token.kind in ("word", "name", "space") or token.text == "," for token in found[at + 1 : closing(found, at)]
    )  # fmt: skip


def values(found: list[Token]) -> list[Token]:
    """VALUES behind FROM and the like in brackets, and each row in brackets, too."""
    result, at = [], 0
    while at < len(found):
        token = found[at]
        if not token.is_word("values") or previous(found, at).is_word("as") and is_alias_list(found, at + 1):
            result.append(token)
            at += 1
            continue
        before, end = previous(found, at), values_end(found, at + 1)
        rows = []
        for part in map(trimmed, split(found[at + 1 : end])):
            is_row = bool(part) and part[0].text == "(" and closing(part, 0) == len(part) - 1
            rows.append(text_of(values(part)) if is_row else f"({text_of(values(part))})")
        text = "VALUES " + ", ".join(rows)
        result.append(Token("sign", f"({text})" if before.is_word("from", "join") or before.text == "," else text))
        result.append(Token("space", " "))
        at = end
    return result


def calls(found: list[Token]) -> list[Token]:
    """`array(…)`, `map(…)` and casts that look like calls."""
    result, at = [], 0
    while at < len(found):
        token = found[at]
        name = token.text.lower()
        opening = next_at(found, at + 1)
        is_call = token.kind == "word" and opening < len(found) and found[opening].text == "(" and not previous(found, at).is_word("as", "function", "table")
        if is_call and name == "array":
            result.append(Token("word", "make_array"))
        elif is_call and name in ("map", *TYPES):
            end = closing(found, opening)
            parts = [text_of(trimmed(calls(part))) for part in split(found[opening + 1 : end])]
            if name == "map" and parts != [""] and len(parts) % 2 == 0:
                pairs = ", ".join(f"{key}: {value}" for key, value in zip(parts[::2], parts[1::2], strict=True))
                result.append(Token("number", f"MAP {{{pairs}}}"))
                at = end
            elif name != "map" and len(parts) == 1 and parts[0]:
                result.append(Token("number", f"CAST({parts[0]} AS {name.upper()})"))
                at = end
            else:
                result.append(token)
        else:
            result.append(token)
        at += 1
    return result


def respelled(sql: str, is_double_quoted_name: bool = False) -> str:
    """A statement with the same meaning, if it has one in DataFusion's dialect."""
    found = [spelled(token, is_double_quoted_name) for token in tokens(sql)]
    text = text_of(values(calls(found)))
    head = re.match(r"\s*create\b", text, re.I)
    if head:
        text = re.sub(r"^(\s*create\s+(?:or\s+replace\s+)?)(?:global\s+)?temp(?:orary)?\s+(?=view\b)", r"\1", text, flags=re.I)
        if re.match(r"\s*create\s+(?:or\s+replace\s+)?table\b", text, re.I):
            text = re.sub(r"\busing\s+(?:parquet|orc|csv|json|hive)\b", "", text, count=1, flags=re.I)
    return text
