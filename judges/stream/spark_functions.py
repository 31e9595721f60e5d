"""The state functions of `yeoul stream`, written for Spark's `applyInPandasWithState`: what they call and when is Spark's."""

import datetime
import json

import pandas
from pyspark.sql.streaming.state import GroupStateTimeout

ZERO = datetime.datetime(1970, 1, 1)


def micros(times) -> list:
    """Microseconds since 1970 of those that are there."""
    return [(time.to_pydatetime().replace(tzinfo=None) - ZERO) // datetime.timedelta(microseconds=1) for time in times if not pandas.isna(time)]


def times(values):
    return pandas.Series([pandas.NaT if us is None else ZERO + datetime.timedelta(microseconds=us) for us in values], dtype="datetime64[us]")


def running_count(seconds, has_timeout=True):
    def call(key, frames, state):
        if state.hasTimedOut:
            state.remove()
            return
        count, last = state.get if state.exists else (0, None)
        for frame in frames:
            count += len(frame)
            last = max([us for us in [last] if us is not None] + micros(frame["ts"]), default=None)
        state.update((count, last))
        if has_timeout:
            watermark = state.getCurrentWatermarkMs()
            last_ms = watermark if last is None else last // 1000
            state.setTimeoutTimestamp(max(last_ms + seconds * 1000, watermark, 1))
        yield pandas.DataFrame({"k": [key[0]], "count": [count], "last_time": times([last])})

    return call, "k STRING, count BIGINT, last_time TIMESTAMP", "count BIGINT, last_us BIGINT", "update"


def merged(parts, gap):
    sessions = []
    for first, last, count in sorted(parts):
        if sessions and first <= sessions[-1][1] + gap:
            before = sessions[-1]
            sessions[-1] = (before[0], max(before[1], last), before[2] + count)
        else:
            sessions.append((first, last, count))
    return sessions


def sessions(seconds):
    gap = seconds * 1_000_000

    def over_ms(session):
        return -(-(session[1] + gap) // 1000)

    def call(key, frames, state):
        watermark = state.getCurrentWatermarkMs()
        kept = [tuple(session) for session in json.loads(state.get[0])] if state.exists else []
        over = []
        if state.hasTimedOut:
            over = [session for session in kept if over_ms(session) <= watermark]
            kept = [session for session in kept if over_ms(session) > watermark]
        else:
            for frame in frames:
                kept += [(us, us, 1) for us in micros(frame["ts"])]
            kept = merged(kept, gap)
        if kept:
            state.update((json.dumps(kept),))
            state.setTimeoutTimestamp(max(min(map(over_ms, kept)) - 1, watermark, 1))
        else:
            state.remove()
        if over:
            starts, ends = times([first for first, _, _ in over]), times([last + gap for _, last, _ in over])
            yield pandas.DataFrame({"k": [key[0]] * len(over), "session_start": starts, "session_end": ends, "count": [n for _, _, n in over]})

    # Lists in the state are more than PySpark 4.3 can read.
    return call, "k STRING, session_start TIMESTAMP, session_end TIMESTAMP, count BIGINT", "sessions STRING", "append"


def running_count_for_ever(seconds):
    return running_count(seconds, has_timeout=False)


FUNCTIONS = {"running_count": running_count, "running_count for ever": running_count_for_ever, "sessions": sessions}


def apply(frame, name, seconds):
    call, output, state, mode = FUNCTIONS[name](seconds)
    timeout = GroupStateTimeout.NoTimeout if name.endswith("for ever") else GroupStateTimeout.EventTimeTimeout
    return frame.select("k", "ts").groupBy("k").applyInPandasWithState(call, output, state, mode, timeout)
