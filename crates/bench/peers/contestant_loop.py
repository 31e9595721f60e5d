"""The protocol that every contestant speaks: one JSON object per line, a request on stdin, its answer on stdout.

    {"open": {"data": DIR, "tables": [NAME, ...], "threads": N, "memory_bytes": N or null, "scratch": DIR}}
        -> {"opened": {"version": TEXT, "pids": [N, ...], "dialect": {...}}}
    {"run": {"sql": TEXT, "save": PATH or null, "dialect": {...} or null}}
        -> {"ran": {"elapsed_ms": X, "rows": N, "notices": [TEXT, ...]}} or {"failed": {"kind": KIND, "message": TEXT}}

The clock of a run starts with the SQL text and stops when the last row has come out of the engine as Arrow, be it
written to `save` or only counted. The end of stdin ends the process.

A peer defines a class with open(request) -> opened, and run(sql, dialect) -> a schema and an iterator of batches, and
names its kinds of errors in kind_of(error). This file knows nothing of any engine.
"""

import json
import os
import sys
import time

import pyarrow


def serve(engine):
    # Engines print to stdout what they like; the protocol keeps the real one to itself.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "open" in request:
                answer = {"opened": engine.open(request["open"])}
            else:
                answer = {"ran": run(engine, request["run"])}
        except Exception as error:  # whatever an engine raises is its answer
            answer = {"failed": {"kind": engine.kind_of(error), "message": first_lines(str(error))}}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def run(engine, request):
    start = time.perf_counter()
    schema, batches = engine.run(request["sql"], request.get("dialect"))
    rows = 0
    if request.get("save"):
        with pyarrow.ipc.new_stream(request["save"], schema) as out:
            for batch in batches:
                rows += batch.num_rows
                out.write_batch(batch)
    else:
        for batch in batches:
            rows += batch.num_rows
    elapsed_ms = (time.perf_counter() - start) * 1000
    return {"elapsed_ms": elapsed_ms, "rows": rows, "notices": []}


def first_lines(text, lines=4, characters=600):
    return "\n".join(text.strip().splitlines()[:lines])[:characters] or "no message"
