"""Random streaming queries, each as SQL of Spark and of `yeoul stream`, with the files that its streams read batch by batch.

A case is the same for the same seed and number, whoever asks: `spark.py` makes it, and Spark's own Python reads it.
"""

import datetime
import json
import os
import pathlib
import random

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
SCHEMA = "k STRING, v BIGINT, d DOUBLE, ts TIMESTAMP"
EMIT = {"append": "ON WINDOW CLOSE", "update": "UPDATES", "complete": "COMPLETE"}
AGGREGATES = ["count(*)", "count(v)", "sum(v)", "sum(d)", "min(v)", "max(v)", "min(k)", "max(ts)", "avg(v)", "avg(d)", "stddev(v)", "stddev_pop(d)",
              "var_samp(d)", "var_pop(v)", "approx_count_distinct(k)"]  # fmt: skip
# Their answers depend on the order of rows, which is that of the file for a stream that goes through nothing that mixes rows.
IN_ORDER = ["first(v)", "last(v)", "first(k)", "last(d)", "first(v) IGNORE NULLS", "last(k) IGNORE NULLS", "collect_list(v)", "collect_list(k)",
            "collect_list(ts)", "collect_set(v)", "collect_set(k)", "array_agg(d)"]  # fmt: skip
FILTERED = ["count(*) FILTER (WHERE v > 4)", "sum(v) FILTER (WHERE k = 'a')", "max(d) FILTER (WHERE v IS NOT NULL)"]
FILTERS = ["v > 3", "k <> 'a'", "v IS NOT NULL", "ts > TIMESTAMP '2026-01-01 00:00:10'", "k = 'b' OR v < 5", "d >= 2 AND v < 8",
           "k IN ('a', 'c') AND ts < TIMESTAMP '2026-01-01 00:01:00'"]  # fmt: skip


def iso(seconds):
    return (EPOCH + datetime.timedelta(seconds=seconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def rows(chance, start, count):
    """Some without a key, value or time, some late, some far behind or before 1970."""
    for _ in range(count):
        second = start + chance.uniform(-12, 12) if chance.random() < 0.8 else start - chance.uniform(10, 60)
        # Whole seconds meet the edges of windows and bounds; watermarks are cut to milliseconds.
        second = round(second, chance.choice([0, 0, 0, 3, 3, 6])) + (0.0005 if chance.random() < 0.05 else 0)
        row = {"k": chance.choice("abcd"), "v": chance.randrange(10), "d": chance.randrange(40) / 8, "ts": iso(second)}
        if chance.random() < 0.05:
            row["ts"] = chance.choice(["1970-01-01T00:00:00Z", "1969-12-31T23:59:50Z", "1970-01-01T00:00:00.000400Z", "1970-01-01T00:00:07Z"])
        if chance.random() < 0.05:
            row["d"] = -0.0
        for name in row:
            if chance.random() < 0.04:
                row[name] = None
        yield row


def stream(chance, restarts_after=None):
    """Rows of each file, how long the watermark waits, and how many files are there before a restart, if there is one."""
    files, start = [], 10
    for _ in range(chance.randrange(3, 7)):
        files.append(list(rows(chance, start, chance.choice([0, 1, 4, 8, 15, 25]))))
        start += chance.choice([0, 5, 10, 20, 40])
    if chance.random() < 0.03:
        # A time far in the future makes all that comes after it late.
        files[-2].append({"k": "d", "v": 1, "d": 0.5, "ts": iso(86_400)})
    first = len(files) if restarts_after is None else min(restarts_after, len(files))
    # Some have no watermark.
    delay = chance.choice(["0 seconds", "2 seconds", "5 seconds", "10 seconds", "1500 milliseconds"]) if chance.random() < 0.95 else None
    return {"delay": delay, "files": files, "first": first}


def case(chance, kind, mode, names, **more):
    """Streams of these names, and for some a restart in the middle; of several streams one of the policies. The zone of Spark's session says
    nothing but what times without a zone mean."""
    restarts_after = chance.choice([1, 2, 3]) if chance.random() < 0.3 else None
    streams = {name: stream(chance, restarts_after) for name in names}
    policy = chance.choice(["min", "max"]) if len(names) > 1 else "min"
    zone = "UTC" if "TIMESTAMP" in str(more) else chance.choice(["UTC", "UTC", "Asia/Seoul", "America/St_Johns"])
    made = {"kind": kind, "mode": mode, "streams": streams, "policy": policy, "zone": zone, "has_restart": restarts_after is not None}
    return made | more


def where(chance, columns="k v d ts"):
    fitting = [text for text in FILTERS if all(name in columns.split() for name in ("k", "v", "d", "ts") if name in text.replace("TIMESTAMP", "").split())]
    return f" WHERE {chance.choice(fitting)}" if chance.random() < 0.4 else ""


def emit(mode):
    return f" EMIT {EMIT[mode]}" if mode != "append" else ""


def functions(chance, pool, count=4):
    chosen = chance.sample(pool, min(chance.randrange(1, count + 1), len(pool)))
    return ", ".join(f"{function} AS f{at}" for at, function in enumerate(chosen))


class Window:
    """A window of both, over a table with the column `ts`."""

    def __init__(self, chance):
        slide = chance.choice([5, 10])
        size = chance.choice([slide, slide, 2 * slide, 3 * slide, slide + 3])
        offset = chance.choice([0, 0, 2])
        self.spark = f"window(ts, '{size} seconds', '{slide} seconds', '{offset} seconds')"
        self.function = "TUMBLE" if size == slide else "HOP"
        sizes = [size, offset] if size == slide else [slide, size, offset]
        self.sizes = ", ".join(f"INTERVAL '{second}' SECOND" for second in (sizes if offset else sizes[:-1]))

    def yeoul(self, table):
        return f"{self.function}(TABLE {table}, DESCRIPTOR(ts), {self.sizes})"

    def grouped(self, table, keys, values, condition=""):
        """The queries of both: groups of a window and these keys."""
        keys = "".join(f", {key}" for key in keys)
        spark = f"SELECT window.start AS window_start, window.end AS window_end{keys}, {values} FROM {table}{condition} GROUP BY {self.spark}{keys}"
        yeoul = f"SELECT window_start, window_end{keys}, {values} FROM {self.yeoul(table)}{condition} GROUP BY window_start, window_end{keys}"
        return spark, yeoul


def calculation(chance):
    select = f"SELECT k, v * 2 AS w, ts, d + 1 AS e FROM s{where(chance)}"
    mode = chance.choice(["append", "update"])
    return case(chance, "calculation", mode, "s", spark=[select], yeoul=[select])


def union(chance):
    names = chance.choice(["st", "st", "st", "s"])
    select = f"SELECT k, v, d, ts FROM s{where(chance)} UNION ALL SELECT k, v + 100 AS v, d, ts FROM {names[-1]}{where(chance)}"
    form = chance.choice(["rows", "groups", "once"])
    if form == "rows":
        return case(chance, "union", "append", names, spark=[select], yeoul=[select])
    views = [["u", select]]
    if form == "once":
        last = "SELECT DISTINCT ON (k, ts) k, ts FROM u"
        spark = [*views, ["o", "SELECT k, ts FROM u"], {"of": "o", "keys": ["k", "ts"], "within": False}]
        return case(chance, "union, deduplication", "append", names, spark=spark, yeoul=[*views, last])
    mode = chance.choice(["append", "update", "complete"])
    spark, yeoul = Window(chance).grouped("u", chance.choice([[], ["k"]]), functions(chance, AGGREGATES))
    return case(chance, "union, aggregation", mode, names, spark=[*views, spark], yeoul=[*views, f"{yeoul} EMIT {EMIT[mode]}"])


def aggregation(chance):
    pool = AGGREGATES + FILTERED
    mode, keys = chance.choice(["append", "update", "complete"]), chance.choice([[], ["k"], ["k", "d"]])
    spark, yeoul = Window(chance).grouped("s", keys, functions(chance, pool), where(chance))
    return case(chance, "aggregation", mode, "s", spark=[spark], yeoul=[f"{yeoul} EMIT {EMIT[mode]}"])


def collection(chance):
    mode, keys = chance.choice(["append", "update", "complete"]), chance.choice([[], ["k"]])
    spark, yeoul = Window(chance).grouped("s", keys, functions(chance, IN_ORDER, 6), where(chance))
    return case(chance, "collection", mode, "s", spark=[spark], yeoul=[f"{yeoul} EMIT {EMIT[mode]}"])


def without_window(chance):
    """Groups that never end, one group of all rows, and groups by event time itself."""
    keys = chance.choice([["k"], [], ["ts"], ["ts", "k"], ["k", "v"]])
    mode = chance.choice(["append", "update"] if "ts" in keys else ["update", "complete"])
    values = functions(chance, AGGREGATES + IN_ORDER)
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    select = f"SELECT {''.join(f'{key}, ' for key in keys)}{values} FROM s{where(chance)}{by}"
    return case(chance, "aggregation without window", mode, "s", spark=[select], yeoul=[f"{select} EMIT {EMIT[mode]}"])


def deduplication(chance):
    keys = chance.choice([["k"], ["k", "v"], ["k", "ts"], ["ts"], ["d"], ["k", "v", "d", "ts"]])
    within, condition, mode = chance.random() < 0.4, where(chance), chance.choice(["append", "update"])
    # Columns that nothing reads are not there for Spark's operator, the time too.
    columns = chance.choice(["k, v, d, ts", "k, v, d, ts", ", ".join(keys)])
    form = "DISTINCT WITHIN WATERMARK ON" if within else "DISTINCT ON"
    if len(keys) == 4 and not within:
        yeoul = f"SELECT DISTINCT k, v, d, ts FROM s{condition}"
    else:
        yeoul = f"SELECT {form} ({', '.join(keys)}) {columns} FROM s{condition}"
    spark = [["f", f"SELECT * FROM s{condition}"], {"of": "f", "keys": keys, "within": within, "as": "o"}, f"SELECT {columns} FROM o"]
    return case(chance, "deduplication", mode, "s", spark=spark, yeoul=[yeoul + emit(mode)])


def time_condition(chance):
    """Conditions on the times of both sides, in some of the forms in which people write them."""
    first, last = chance.choice([0, 2, 5]), chance.choice([1, 5, 10])
    low, high = chance.choice([">", ">="]), chance.choice(["<", "<="])
    lower = chance.choice([f"r.ts {low} l.ts - INTERVAL '{first}' SECOND", f"r.ts + INTERVAL '{first}' SECOND {low} l.ts"])
    upper = chance.choice([f"r.ts {high} l.ts + INTERVAL '{last}' SECOND", f"r.ts - INTERVAL '{last}' SECOND {high} l.ts"])
    between = f"r.ts BETWEEN l.ts - INTERVAL '{first}' SECOND AND l.ts + INTERVAL '{last}' SECOND"
    both = f"{lower} AND {upper}"
    return chance.choice([both, both, both, between, between, lower, upper, "l.ts = r.ts", "l.ts = r.ts"])


def without_known_differences(made):
    """What is left out because Spark 4.3 and we differ there, as docs/reference/stream-semantics.md says: null keys of a FULL JOIN, which
    Spark lets equal each other, streams without a watermark in outer and semi joins, whose rows Spark never lets go, and some rows of the right
    side of semi joins."""
    query = str(made["spark"])
    for values in made["streams"].values():
        if "FULL JOIN" in query:
            values["files"] = [[row for row in lines if row["k"] is not None] for lines in values["files"]]
        if any(f"{kind} JOIN" in query for kind in ("LEFT", "RIGHT", "FULL", "SEMI")):
            values["delay"] = values["delay"] or "2 seconds"
    if "SEMI JOIN" in query:
        without_rows_over_in_their_batch(made["streams"], list(made["streams"])[-1])
    return made


def without_rows_over_in_their_batch(streams, right):
    """Rows of the right side of a semi join that the watermark of their own batch may let go: Spark 4.3 does not see what of the left side
    comes in the same batch and matches them."""
    over = [EPOCH.replace(year=1)]
    for number in range(len(streams[right]["files"])):
        for values in streams.values():
            times = [time_of(row) for lines in values["files"][max(number - 1, 0) : number] for row in lines if row["ts"]]
            over += [time - datetime.timedelta(milliseconds=milliseconds(values["delay"])) for time in times]
        lines = streams[right]["files"][number]
        streams[right]["files"][number] = [row for row in lines if row["ts"] is None or time_of(row) > max(over)]


def time_of(row):
    return datetime.datetime.fromisoformat(row["ts"])


def milliseconds(delay):
    count, unit = delay.split(" ")
    return int(count) * (1000 if unit == "seconds" else 1)


def join_of(chance, left, right, is_outer_wanted=True):
    kind = chance.choice(["", "", "LEFT", "RIGHT", "FULL", "LEFT SEMI"] if is_outer_wanted else ["", "LEFT"])
    more = chance.choice(["", "", "", " AND l.v > 3", " AND r.v > 3", " AND l.v <= r.v", " AND l.k <> 'a'"])
    if kind in ("LEFT", "RIGHT", "FULL"):
        # Spark takes the 3 of such a condition on the side that keeps its rows for a time that bounds its state, and never lets them go.
        more = more.replace("> 3", "<> 3")
    return kind, f"FROM {left} AS l {kind} JOIN {right} AS r ON l.k = r.k AND {time_condition(chance)}{more}"


def join(chance):
    is_self = chance.random() < 0.1
    kind, clause = join_of(chance, "s", "s" if is_self else "t")
    mode = chance.choice(["append", "update"]) if kind in ("", "LEFT SEMI") else "append"
    columns = "l.k, l.v, l.ts" if kind == "LEFT SEMI" else "l.k AS lk, l.v AS lv, l.ts AS lts, r.k AS rk, r.v AS rv, r.ts AS rts"
    condition = chance.choice(["", "", "", " WHERE l.v < 7"])
    select = f"SELECT {columns} {clause}{condition}"
    # Spark's analyser looks at an outer join before the condition makes an inner or a left one of it; ours after that.
    more = {"is_wider": True} if condition and kind in ("RIGHT", "FULL") else {}
    return case(chance, f"join {kind.lower() or 'inner'}", mode, "s" if is_self else "st", spark=[select], yeoul=[select + emit(mode)], **more)


def join_forms(chance):
    """Conditions that set a bound only for one side, or for none, and joins of windows."""
    if chance.random() < 0.4:
        return join_of_windows(chance)
    form = chance.choice([
        "r.ts <= l.ts + INTERVAL '1' MONTH", "l.ts - r.ts < INTERVAL '5' SECOND", "r.ts > l.ts", "l.v = r.v", "date_trunc('minute', l.ts) <= r.ts",
        "r.ts >= l.ts AND r.ts <= l.ts + INTERVAL '90' MINUTE AND r.ts <= l.ts + INTERVAL '3' SECOND",
    ])  # fmt: skip
    kind = chance.choice(["", "", "LEFT", "LEFT SEMI"])
    columns = "l.k, l.v, l.ts" if kind == "LEFT SEMI" else "l.k AS lk, l.v AS lv, r.v AS rv, r.ts AS rts"
    select = f"SELECT {columns} FROM s AS l {kind} JOIN t AS r ON l.k = r.k AND {form}"
    return case(chance, f"join {kind.lower() or 'inner'}", "append", "st", spark=[select], yeoul=[select])


def join_of_windows(chance):
    window, kind = Window(chance), chance.choice(["", "LEFT", "LEFT SEMI"])
    columns = ["l.k AS lk", "l.v AS lv"] + ([] if kind == "LEFT SEMI" else ["r.v AS rv"])
    spark = [[view, f"SELECT {window.spark} AS window, k, v FROM {name}"] for view, name in (("a", "s"), ("b", "t"))]
    spark.append(f"SELECT l.window.end AS window_end, {', '.join(columns)} FROM a AS l {kind} JOIN b AS r ON l.k = r.k AND l.window = r.window")
    yeoul = [[view, f"SELECT window_end, k, v FROM {window.yeoul(name)}"] for view, name in (("a", "s"), ("b", "t"))]
    yeoul.append(f"SELECT l.window_end, {', '.join(columns)} FROM a AS l {kind} JOIN b AS r ON l.k = r.k AND l.window_end = r.window_end")
    return case(chance, f"windows, join {kind.lower() or 'inner'}", "append", "st", spark=spark, yeoul=yeoul)


def groups_of_groups(chance):
    window, size = Window(chance), chance.choice([20, 30])
    if chance.random() < 0.5:
        spark = [["g", f"SELECT window, k, count(*) AS n, sum(v) AS w FROM s GROUP BY {window.spark}, k"],
                 "SELECT window.start AS window_start, window.end AS window_end, max(n) AS f0, sum(w) AS f1, count(*) AS f2 FROM g GROUP BY window"]  # fmt: skip
        yeoul = [["g", f"SELECT window_start, window_end, k, count(*) AS n, sum(v) AS w FROM {window.yeoul('s')} GROUP BY window_start, window_end, k"],
                 "SELECT window_start, window_end, max(n) AS f0, sum(w) AS f1, count(*) AS f2 FROM g GROUP BY window_start, window_end"]  # fmt: skip
    else:
        spark = [["g", f"SELECT window, k, count(*) AS n, sum(v) AS w FROM s GROUP BY {window.spark}, k"],
                 f"SELECT window.start AS window_start, window.end AS window_end, max(n) AS f0, sum(w) AS f1 FROM (SELECT window(window, '{size} seconds') AS window, n, w FROM g) GROUP BY window"]  # fmt: skip
        yeoul = [["g", f"SELECT window_start, window_end, window_time, k, count(*) AS n, sum(v) AS w FROM {window.yeoul('s')} GROUP BY window_start, window_end, window_time, k"],
                 ["h", "SELECT window_time AS ts, n, w FROM g"],
                 f"SELECT window_start, window_end, max(n) AS f0, sum(w) AS f1 FROM TUMBLE(TABLE h, DESCRIPTOR(ts), INTERVAL '{size}' SECOND) GROUP BY window_start, window_end"]  # fmt: skip
    mode = chance.choice(["append"] * 7 + ["update"])
    return case(chance, "aggregation, aggregation", mode, "s", spark=spark, yeoul=[*yeoul[:-1], yeoul[-1] + emit(mode)])


def groups_of_distinct(chance):
    keys, within = chance.choice([["k", "ts"], ["k", "v"], ["k"]]), chance.random() < 0.5
    form = "DISTINCT WITHIN WATERMARK ON" if within else "DISTINCT ON"
    mode = chance.choice(["append", "update", "complete"])
    spark, yeoul = Window(chance).grouped("o", chance.choice([[], ["k"]]), functions(chance, AGGREGATES))
    spark = [["f", "SELECT * FROM s"], {"of": "f", "keys": keys, "within": within, "as": "o"}, spark]
    yeoul = [["o", f"SELECT {form} ({', '.join(keys)}) k, v, d, ts FROM s"], f"{yeoul} EMIT {EMIT[mode]}"]
    return case(chance, "deduplication, aggregation", mode, "s", spark=spark, yeoul=yeoul)


def groups_of_join(chance):
    kind, clause = join_of(chance, "s", "t", is_outer_wanted=False)
    views = [["j", f"SELECT l.k AS k, l.ts AS ts, l.v AS v, r.v AS rv, r.d AS d {clause}"]]
    # Without a number of pairs Spark's optimizer may leave the join out, and with it the stream whose watermark is waited for then for ever.
    values = "count(rv) AS n, " + functions(chance, [*AGGREGATES, "count(rv)", "sum(rv)"])
    spark, yeoul = Window(chance).grouped("j", chance.choice([[], ["k"]]), values)
    return case(chance, f"join {kind.lower() or 'inner'}, aggregation", "append", "st", spark=[*views, spark], yeoul=[*views, yeoul])


def join_of_distinct(chance):
    within = chance.random() < 0.5
    kind, clause = join_of(chance, "o", "t")
    columns = "l.k, l.v, l.ts" if kind == "LEFT SEMI" else "l.k AS lk, l.v AS lv, l.ts AS lts, r.v AS rv, r.ts AS rts"
    keys = chance.choice([["k", "ts"], ["k", "v"]])
    form = "DISTINCT WITHIN WATERMARK ON" if within else "DISTINCT ON"
    select = f"SELECT {columns} {clause}"
    spark = [["f", "SELECT * FROM s"], {"of": "f", "keys": keys, "within": within, "as": "o"}, select]
    yeoul = [["o", f"SELECT {form} ({', '.join(keys)}) k, v, d, ts FROM s"], select]
    return case(chance, f"deduplication, join {kind.lower() or 'inner'}", "append", "st", spark=spark, yeoul=yeoul)


def keyed(chance):
    """State functions, which Spark has in Python, with times in the session's zone."""
    seconds, form = chance.choice([2, 5, 15]), chance.choice(["running_count", "running_count", "running_count for ever", "sessions", "sessions"])
    spark = [{"of": "s", "function": form, "seconds": seconds}]
    if form == "sessions":
        yeoul = f"SELECT k, session_start, session_end, count FROM sessions(TABLE s PARTITION BY k, time => DESCRIPTOR(ts), gap => INTERVAL '{seconds}' SECOND)"
        return case(chance, form, "append", "s", zone="UTC", spark=spark, yeoul=[yeoul])
    timeout = f", timeout => INTERVAL '{seconds}' SECOND" if form == "running_count" else ""
    yeoul = f"SELECT k, count, last_time FROM running_count(TABLE s PARTITION BY k, time => DESCRIPTOR(ts){timeout})"
    return case(chance, form, "update", "s", zone="UTC", spark=spark, yeoul=[yeoul + emit("update")])


KINDS = [aggregation, deduplication, join, collection, groups_of_groups, union, join, groups_of_distinct, without_window, groups_of_join,
         keyed, deduplication, aggregation, join_forms, join_of_distinct, calculation]  # fmt: skip


def random_case(seed, number):
    """The case of a number: the same for the same seed."""
    return without_known_differences(KINDS[number % len(KINDS)](random.Random(f"{seed} {number}")))


def write_files(folder: pathlib.Path, made: dict, phase: int):
    """Writes files of each stream into a folder of its name: those before the restart (phase 0), or those after it."""
    for name, values in made["streams"].items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        for number, lines in enumerate(values["files"]):
            if (number >= values["first"]) != bool(phase):
                continue
            path = place / f"{number}.json"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            # Both read in the order of these times.
            os.utime(path, (1_700_000_000 + number,) * 2)
