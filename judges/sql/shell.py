"""One session of `yeoul sql` at a terminal, which goes on after a statement that fails, as a script does not. Answers come back as JSON,
the messages of errors as they are. A session that dies or hangs is begun again with the statements that had changed it."""

import collections.abc
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import termios
import time

from harness import binary, end

# Lines of answers begin with a brace.
PROMPT = re.compile(rb"^yeoul> ", re.M)
FOOTER = re.compile(r"(no|[\d,]+) rows?\b|done\b")
# The terminal holds 4096 bytes of input.
IN_FLIGHT_MAX = 64
READ_BYTES = 1 << 16
ANSWER_BYTES_MAX = 64 << 20
# What the panic hook of the shell makes of a panic.
NO_QUERY = re.compile(r"\s*(explain|show|desc|describe|create|insert|drop|alter|set|reset|use|delete|update|truncate|merge|declare|copy)\b", re.I)
PANICS = ("failed in an unforeseen way", "reading the script ended in an unforeseen way")
CHANGES = re.compile(r"\s*(create|insert|drop|alter|set|reset|use|delete|update|truncate|merge|declare|cache|analyze|refresh)\b", re.I)


class Pairs(list):
    """A JSON object as (key, value) pairs: keys may be equal, and their order counts in structs."""


class Answer:
    """Rows of a statement, each a list of (column, value) pairs, and the types of its columns by DESCRIBE; or why there are none."""

    def __init__(self, rows: list | None, error: str = "", types: list | None = None, is_crash: bool = False, is_gone: bool = False):
        self.rows, self.error, self.types, self.is_gone = rows, error, types, is_gone
        self.is_crash = is_crash or any(text in error for text in PANICS)

    def message(self) -> str:
        """The first line of the error."""
        return next((line.removeprefix("error: ") for line in self.error.splitlines() if line.strip()), self.error)


def offers(option: str) -> bool:
    """Whether the binary has an option."""
    return option in subprocess.run([binary(), "sql", "--help"], capture_output=True, text=True, check=True).stdout


def decoded(lines: list[str]) -> list:
    """The rows of lines of JSON. Numbers keep their digits."""
    return [json.loads(line, parse_float=Number, parse_int=Number, object_pairs_hook=Pairs) for line in lines]


class Number(str):
    """A number of JSON as its digits."""


class Shell:
    """Use it with `with`. Runs in `folder`, which it fills with files of its own."""

    def __init__(self, folder: pathlib.Path, options: list[str], seconds_max: float):
        self.folder, self.options, self.seconds_max = folder, options, seconds_max
        self.changes: list[str] = []
        self.process = None

    def __enter__(self):
        self._start()
        return self

    def __exit__(self, *_):
        self._stop()

    def _start(self):
        master, slave = pty.openpty()
        modes = termios.tcgetattr(slave)
        modes[1] &= ~termios.OPOST
        modes[3] &= ~(termios.ECHO | termios.ISIG)
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        # A dumb terminal has no line editor in it.
        environment = os.environ | {"TERM": "dumb", "XDG_STATE_HOME": str(self.folder), "NO_COLOR": "1", "TZ": "UTC"}
        command = [binary(), "sql", "--quiet", "--format", "json", *self.options]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=self.folder, env=environment, start_new_session=True
        )
        os.close(slave)
        self.terminal, self.unread = master, bytearray()
        if self._read_to_prompt() is None:
            raise SystemExit(f"error: {' '.join(command)} is no shell here: {self.unread.decode(errors='replace')}")

    def _stop(self):
        end(self.process)
        os.close(self.terminal)

    def _read_to_prompt(self) -> bytes | None:
        """What comes before the next prompt, or nothing if the process ended or did not answer in time."""
        deadline, searched = time.monotonic() + self.seconds_max, 0
        while (found := PROMPT.search(self.unread, searched)) is None:
            # The last line may be the beginning of a prompt.
            searched = self.unread.rfind(b"\n") + 1
            left = deadline - time.monotonic()
            if left <= 0 or len(self.unread) > ANSWER_BYTES_MAX:
                return None
            ready, _, _ = select.select([self.terminal], [], [], left)
            try:
                read = os.read(self.terminal, READ_BYTES) if ready else b""
            except OSError:
                read = b""
            if not read:
                return None
            self.unread += read
        before = bytes(self.unread[: found.start()])
        del self.unread[: found.end()]
        return before

    def _send(self, number: int, text: str):
        """A statement in a file, as a line of a terminal has at most 4095 bytes, and in another one a question for its types, which an
        open quote in the first does not reach."""
        read = ""
        if not NO_QUERY.match(text):
            (self.folder / f"{number}-types.sql").write_text(f"DESCRIBE {text}\n;\n")
            read = f".read {number}-types.sql\n"
        (self.folder / f"{number}.sql").write_text(f"{text}\n;\n{read}")
        os.write(self.terminal, f".read {number}.sql\n".encode())

    def _receive(self) -> Answer:
        said = self._read_to_prompt()
        if said is None:
            code = self.process.poll()
            why = f"no whole answer within {self.seconds_max:g} s" if code is None else f"the process ended with {code}"
            return Answer(None, f"error: {why}\n{self.unread[-2000:].decode(errors='replace')}", is_crash=True, is_gone=True)
        return answer_of(said.decode(errors="replace"))

    def _restart(self):
        self._stop()
        self._start()
        for text in self.changes:
            self._send(0, text)
            self._receive()

    def run_all(self, statements: list[str]) -> collections.abc.Iterator[Answer]:
        """Runs statements, each whatever came of those before it. After a crash the next one finds the session as it was."""
        sent = 0
        for number, text in enumerate(statements):
            while sent < min(number + IN_FLIGHT_MAX, len(statements)):
                self._send(sent, statements[sent])
                sent += 1
            answer = self._receive()
            if answer.is_gone:
                self._restart()
                sent = number + 1
            elif answer.rows is not None and CHANGES.match(text):
                self.changes.append(text)
            yield answer

    def run(self, text: str) -> Answer:
        """Runs one statement."""
        return next(iter(self.run_all([text])))


def answer_of(said: str) -> Answer:
    """What the shell said of a statement: rows, a line that ends them, rows of DESCRIBE, a line, or an error in place of each."""
    lines, answers = said.split("\n"), []
    rows = []
    for at, line in enumerate(lines):
        if line.startswith("{"):
            rows.append(line)
        elif FOOTER.match(line):
            answers.append(rows)
            rows = []
        elif line.startswith("error: "):
            if not answers:
                return Answer(None, "\n".join(lines[at:]).strip())
            break
    if not answers:
        return Answer(None, f"error: no answer: {said[:300]}", is_crash=True)
    try:
        types = [dict(row).get("data_type", "") for row in decoded(answers[1])] if len(answers) > 1 else None
        return Answer(decoded(answers[0]), types=types)
    except (ValueError, RecursionError) as error:
        return Answer(None, f"error: the answer is no JSON ({error}): {said[:300]}", is_crash=True)
