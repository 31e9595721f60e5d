"""Statements that make large values or large plans of little, in processes that may have 128 and 256 MiB.

Usage: large_values.py [--short] [--show]    exits 1 if a process had more, ended by a signal of its own, or did not end when it was told to

The operating system says how much a process had at its peak. Each statement may answer or fail with a typed error. Each is also run
again and told to end (SIGTERM) while it runs, and has to within a second: of its own, for a slow machine is not its fault.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import binary

MIB = 1 << 20
# Seconds of the processor that a statement may take, and that it may take after it was told to end.
ANSWER_CPU_SECONDS_MAX = 120
END_CPU_SECONDS_MAX = 1.0
# Nothing takes so long but what waits for itself.
SECONDS_MAX = 600
# How long after its start a statement is told to end.
TOLD_AFTER_SECONDS = 0.3


def doubled(times):
    """Table expressions of which each unites the one before with itself."""
    tables = ["t0 AS (SELECT 1 AS a)"]
    tables += [f"t{n} AS (SELECT a FROM t{n - 1} UNION ALL SELECT a FROM t{n - 1})" for n in range(1, times + 1)]
    return f"WITH {', '.join(tables)} SELECT count(*) FROM t{times}"


def joined(times):
    """Table expressions of which each joins the one before with itself."""
    tables = ["t0 AS (SELECT 1 AS a)"]
    tables += [f"t{n} AS (SELECT x.a FROM t{n - 1} AS x JOIN t{n - 1} AS y ON x.a = y.a)" for n in range(1, times + 1)]
    return f"WITH {', '.join(tables)} SELECT count(*) FROM t{times}"


MANY = "(SELECT value AS n, 'abc' AS s FROM generate_series(1, 8000)) AS t"
SHORT = [
    "SELECT length(repeat('a', 2000000000))",
    "SELECT cardinality(range(0, 200000000))",
    doubled(20),
    f"SELECT sum(length(lpad(s, 100000 + n))) FROM {MANY}",
    f"SELECT sum(length(repeat(s, n * 100))) FROM {MANY}",
    "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 10000)))",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n FROM t) SELECT count(*) FROM t",
]
LONG = [
    *(f"SELECT length(repeat('ab', {n}))" for n in (1_000_000, 20_000_000, 60_000_000, 200_000_000)),
    *(f"SELECT length({pad}('a', {n}, 'xy'))" for pad in ("lpad", "rpad") for n in (1_000_000, 100_000_000, 1_000_000_000)),
    *(f"SELECT cardinality({series}(1, {n}))" for series in ("range", "generate_series") for n in (100_000, 10_000_000, 2_000_000_000)),
    "SELECT cardinality(generate_series(DATE '1700-01-01', DATE '2200-01-01', INTERVAL '1 second'))",
    "SELECT cardinality(generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2024-01-01', INTERVAL '1 minute'))",
    *(f"SELECT cardinality(array_repeat('abcdefgh', {n}))" for n in (100_000, 10_000_000, 1_000_000_000)),
    *(f"SELECT sum(length(rpad(s, {n} + n))) FROM {MANY}" for n in (1_000, 10_000, 100_000)),
    *(f"SELECT sum(length(concat(repeat('a', {n}), s))) FROM {MANY}" for n in (1_000, 10_000, 1_000_000)),
    *(f"SELECT sum(length(repeat('a', {n}) || s)) FROM {MANY}" for n in (1_000, 10_000)),
    *(f"SELECT length(string_agg(repeat(s, {n}), ',')) FROM {MANY}" for n in (100, 1_000, 10_000, 100_000)),
    *(f"SELECT cardinality(array_agg(repeat(s, {n}))) FROM {MANY}" for n in (100, 1_000, 10_000)),
    *(f"SELECT max(length(x)) FROM (SELECT repeat(s, {n}) AS x FROM {MANY} ORDER BY x)" for n in (100, 10_000)),
    *(f"SELECT count(DISTINCT repeat(s, n % {n})) FROM {MANY}" for n in (100, 5_000)),
    *(doubled(times) for times in (8, 12, 16, 24, 60)),
    *(joined(times) for times in (4, 6, 16, 24, 60)),
    "SELECT replace('aaaa', '', repeat('b', 100000000))",
    "SELECT count(*) FROM generate_series(1, 30000000)",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT max(n) FROM t) SELECT count(*) FROM t",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3000) SELECT sum(n) FROM t",
    "WITH RECURSIVE t AS (SELECT 'a' AS s UNION ALL SELECT s || s FROM t WHERE length(s) < 1000000000) SELECT max(length(s)) FROM t",
]


def start(sql, mib):
    command = [binary(), "sql", "--memory", f"{mib}MiB", "-q", "-c", sql]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def cpu_seconds(process):
    """What a process has had of the processor; 0 once it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_of(process, cpu_seconds_max=ANSWER_CPU_SECONDS_MAX):
    """How a process ended, or None if it had to be killed, its peak in bytes, and its seconds of the processor: its own, not those of all
    children. As every child begins with the memory of this process, that has to be small."""
    deadline = time.monotonic() + SECONDS_MAX
    is_killed = False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            code = None if is_killed else process.returncode
            return code, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime
        if not is_killed and (cpu_seconds(process) > cpu_seconds_max or time.monotonic() > deadline):
            process.kill()
            is_killed = True
        time.sleep(0.005)


def faults_of(sql, mib, show):
    faults = []
    process = start(sql, mib)
    code, peak, seconds = end_of(process)
    said = process.stderr.read().strip().split("\n")[0] or process.stdout.read().strip().replace("\n", " ")
    if code is None:
        faults.append(f"no end after {seconds:.0f} s of the processor")
    elif code not in (0, 1, 2):
        faults.append(f"ended with {code}")
    if peak > mib * MIB:
        faults.append(f"had {peak / MIB:.0f} MiB")
    process = start(sql, mib)
    time.sleep(TOLD_AFTER_SECONDS)
    before = cpu_seconds(process)
    # Popen would collect one that has ended already.
    os.kill(process.pid, signal.SIGTERM)
    code, _, after = end_of(process, before + 10 * END_CPU_SECONDS_MAX)
    if before and after - before > END_CPU_SECONDS_MAX:
        faults.append(f"took {after - before:.1f} s of the processor after it was told to end")
    elif code is None:
        faults.append("did not end when it was told to")
    if show or faults:
        print(f"{mib} MiB: {sql[:100]}: {said[:160]} ({peak // MIB} MiB, {seconds:.1f} s)", flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="only some of the statements")
    parser.add_argument("--show", action="store_true", help="what each statement says")
    args = parser.parse_args()
    statements = SHORT if args.short else SHORT + LONG
    failed = 0
    for sql in statements:
        for mib in (128, 256):
            for fault in faults_of(sql, mib, args.show):
                print(f"FAULT: {fault}", flush=True)
                failed += 1
    print(f"large values: {len(statements)} statements at 128 and 256 MiB, {failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
