"""Runs inside Spark's own Python: one query for each line of stdin, its time and rows as a line of JSON on OUT.

Usage: spark_turns.py OUT TABLES CONF.json

A line is the path of a file with one statement or more; the rows are those of the last that has any. It ends with stdin.
"""

import json
import pathlib
import sys

from spark_session import last_rows, outcome, session


def shown(value):
    """A value as text; the last digits of a double depend on the order of additions."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def main():
    out, tables, conf = sys.argv[1:]
    spark = session(json.loads(conf), tables)
    with open(out, "w") as answers:
        for line in sys.stdin:
            answer = outcome(lambda: last_rows(spark, pathlib.Path(line.strip())))
            if "rows" in answer:
                answer["rows"] = sorted(str([shown(value) for value in row]) for row in answer["rows"])
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    spark.stop()


main()
