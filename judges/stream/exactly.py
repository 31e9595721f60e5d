"""Output exactly once, judged from outside: what a consumer of committed records reads is what a batch computation gives.

Five queries run in one process: a filter, a count by windows, a deduplication, an outer join and a running count of keys, each into a topic of its own.

- The process is killed with kill -9 again and again while records come.
- It ends of itself at each named step of a checkpoint and of a commit, and is started again.
- The broker is killed and comes back; the process is started again if it has ended.
- A second process takes the checkpoint over: the first ends with an error.

After all that each row is there, once. What cannot be promised is refused.
"""

import argparse
import collections
import datetime
import json
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import harness
from broker import Broker, run
from join import DELAY_MS, END_MS, RANGE_MS, batch, click, impression
from thread import Clients, Query, parsed
from window import EPOCH, iso

WINDOW_MS = 500
SINKS = ["even", "counts", "once", "joined", "running"]
STEPS = ["before-state", "after-state", "before-prepare", "after-prepare", "before-commit", "after-commit", "before-marker", "after-marker"]


def job(broker, settings="SET 'execution.checkpointing.interval' = '100 ms';", more=""):
    at = f"'connector' = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', 'format' = 'json'"

    def stream(name):
        return f"""CREATE STREAM {name} (id BIGINT NOT NULL, ad BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{DELAY_MS} ms')
WITH ({at}, 'subscribe' = '{name}', 'startingOffsets' = 'earliest');
"""

    sinks = "".join(f"CREATE SINK {name} WITH ({at}, 'topic' = '{name}', 'delivery-guarantee' = 'exactly-once'{more});\n" for name in SINKS)
    return f"""{stream("impressions")}{stream("clicks")}{sinks}{settings}
INSERT INTO even SELECT id, ad FROM impressions WHERE id % 2 = 0 AND id >= 0;
INSERT INTO counts SELECT window_start, ad, count(*) AS n FROM TUMBLE(TABLE impressions, DESCRIPTOR(ts), INTERVAL '{WINDOW_MS} ms')
  GROUP BY window_start, ad EMIT ON WINDOW CLOSE;
INSERT INTO once SELECT DISTINCT WITHIN WATERMARK ON (id) id, ad FROM clicks WHERE id >= 0;
INSERT INTO joined SELECT i.id, c.id AS click FROM impressions AS i LEFT JOIN
  (SELECT DISTINCT WITHIN WATERMARK ON (id) id, ad, ts FROM clicks) AS c
  ON i.ad = c.ad AND c.ts BETWEEN i.ts AND i.ts + INTERVAL '{RANGE_MS} ms';
INSERT INTO running SELECT ad, count AS n
  FROM running_count(TABLE impressions PARTITION BY ad, time => DESCRIPTOR(ts), timeout => INTERVAL '10' DAY) EMIT UPDATES;
"""


class Feed:
    """Impressions and clicks that come while other things happen."""

    def __init__(self, clients):
        # A broker that dies must not make it send anything twice.
        self.producer, self.sent, self.done = clients.producer(enable_idempotence=True), 0, threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def send(self, topic, value, key):
        self.producer.produce(topic, json.dumps({**value, "ts": iso(value["ts"])}), key)

    def work(self):
        while not self.done.is_set():
            for _ in range(20):
                self.send("impressions", impression(self.sent), f"k{self.sent % 31}")
                self.send("clicks", click(self.sent), f"k{self.sent % 17}")
                self.sent += 1
            self.producer.flush()
            time.sleep(0.02)

    def end(self):
        self.done.set()
        self.thread.join()

    def close(self):
        """Lets times go on until everything is over."""
        for number in [-1, -2]:
            for topic in ["impressions", "clicks"]:
                self.send(topic, {"id": number, "ad": -1, "ts": END_MS - number}, "k")
        self.producer.flush()


def wanted(count):
    """What a batch computation gives to each sink."""
    pairs, ids = batch(count)
    counts = collections.Counter((impression(n)["ts"] // WINDOW_MS * WINDOW_MS, impression(n)["ad"]) for n in range(count))
    return {
        "even": {n for n in range(0, count, 2)},
        "counts": {(start, ad, n) for (start, ad), n in counts.items()},
        "once": ids,
        "joined": pairs,
    }


def rows(sink, found):
    """Rows of a sink as `wanted` has them, each with its number; what the records that end it give is left out."""
    values = [json.loads(message.value()) for message in found]
    if sink == "counts":
        return collections.Counter((ms_of(v["window_start"]), v["ad"], v["n"]) for v in values if v["ad"] >= 0)
    if sink == "joined":
        return collections.Counter((v["id"], v.get("click")) for v in values if v["id"] >= 0)
    return collections.Counter(v["id"] for v in values)


def ms_of(text):
    """The time that `iso` writes, in milliseconds."""
    time_of = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (time_of - EPOCH) // datetime.timedelta(milliseconds=1)


def settled(count):
    """Whether there are so many records, and have been for a while: what would be too much has some time to come, too."""
    reached = []

    def is_settled(found):
        if len(found) >= count:
            reached.append(time.monotonic())
        return bool(reached) and time.monotonic() - reached[0] > 2

    return is_settled


def check(clients, feed):
    """Each row is there, once, in each of the sinks."""
    expected = wanted(feed.sent)
    for sink in ["even", "once"]:
        clients.read(sink, lambda found: len(found) >= len(expected[sink]))
    feed.close()
    for sink in expected:
        found = rows(sink, clients.read(sink, settled(len(expected[sink]))))
        missing, more = expected[sink] - set(found), set(found) - expected[sink]
        assert not missing and not more, f"{sink}: {len(missing)} are missing: {sorted(missing, key=str)[:5]}; {len(more)} are more: {sorted(more, key=str)[:5]}"
        twice = [row for row, times in found.items() if times > 1]
        assert not twice, f"{sink}: {len(twice)} rows came twice: {sorted(twice, key=str)[:5]}"
    numbers = ", ".join(f"{len(expected[sink])} rows of '{sink}'" for sink in expected)
    return f"{numbers}, {check_running(clients, feed.sent)} of 'running'"


def check_running(clients, count):
    """A key's count comes out when rows of it came, how many at a time is open: each count is there once at most, and the last is that of all rows."""
    totals = collections.Counter(impression(n)["ad"] for n in range(count))

    def counts(found):
        values = [json.loads(message.value()) for message in found]
        return collections.Counter((v["ad"], v["n"]) for v in values if v["ad"] >= 0)

    def last(counts):
        # The greatest of a key comes last.
        return dict(sorted(counts))

    reached = []

    def is_enough(found):
        if found and last(counts(found)) == totals:
            reached.append(time.monotonic())
        return bool(reached) and time.monotonic() - reached[0] > 2

    found = counts(clients.read("running", is_enough))
    twice = [row for row, times in found.items() if times > 1]
    assert not twice, f"running: {len(twice)} counts came twice: {sorted(twice)[:5]}"
    wrong = {ad: (n, totals[ad]) for ad, n in last(found).items() if n != totals[ad]}
    assert not wrong and set(last(found)) == set(totals), f"running: last counts and those of all rows differ: {list(wrong.items())[:5]}"
    return len(found)


def kills(query, count):
    """kill -9 at random moments: every second time some moments after the first checkpoint, else even before it."""
    slowest = 0
    for number in range(count):
        if number % 2 == 0:
            begun = time.monotonic()
            first_checkpoint(query)
            slowest = max(slowest, time.monotonic() - begun)
            time.sleep(random.uniform(0, 0.5))
        else:
            time.sleep(random.uniform(0.3, 2.5))
        query.kill()
        query.start()
    return slowest


def progressed(query):
    """Each of the queries has completed a checkpoint in this life: none is still about to claim its own."""
    if {event["name"] for event in query.events("progress")} != set(SINKS):
        raise TimeoutError("no progress yet")


def steps(query):
    """Ends at each step of a checkpoint, some checkpoints after the start."""
    for step in STEPS:
        query.kill()
        query.start(YEOUL_FAILPOINTS=f"stream-{step}@{random.randint(3, 12)}")
        harness.wait_until(lambda step=step: met(query, step), f"the failpoint {step}")
        # The others of the job go on.
        if query.process.poll() is None:
            query.process.send_signal(signal.SIGTERM)
        code, said = query.ended()
        assert code == 1 and f"failpoint stream-{step}" in said, (step, code, said[-2000:])
        query.start()
        time.sleep(0.5)


def met(query, step):
    """One of the queries has ended at a step, or all have."""
    if query.process.poll() is None and f"failpoint stream-{step}" not in query.said():
        raise TimeoutError("it goes on")


def first_checkpoint(query):
    harness.wait_until(lambda: progressed(query), "the first checkpoint", lambda: query.process.poll() is None)


def fenced(query):
    """How often queries of this life started anew because another process had fenced them. A broker that is slow may lose a transaction, too."""
    return sum("taken its transactional id" in str(event["warnings"]) for event in query.events("started"))


def more_checkpoints(query, count):
    """Each of the queries completes so many checkpoints more."""
    before = collections.Counter(event["name"] for event in query.events("progress"))

    def go_on():
        now = collections.Counter(event["name"] for event in query.events("progress"))
        if any(now[name] < before[name] + count for name in SINKS):
            raise TimeoutError("too few checkpoints since")

    harness.wait_until(go_on, f"{count} checkpoints more", lambda: query.process.poll() is None)


def broker_restart(clients, query):
    """A process that is at work goes on, or ends with an error and is started again."""
    first_checkpoint(query)
    # Transactions are open, and none is being committed: of one whose end is not in all partitions yet, Kafka 4.3 forgets it where
    # there is no leader, as when the only replica comes back (docs/stream.md).
    query.process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    clients.broker.kill()
    time.sleep(1)
    clients.broker.start()
    query.process.send_signal(signal.SIGCONT)
    time.sleep(3)
    ended = query.process.poll()
    if ended is not None:
        assert ended == 1, f"exit code {ended}: {query.happened()}"
        query.start()
    return "went on" if ended is None else "ended and was started again"


def second_process(folder, query):
    """The first of two processes ends, and the second goes on."""
    first_checkpoint(query)
    second = Query(folder, query.text, "second", query.checkpoint)
    try:
        code, said = query.ended()
    except AssertionError:
        print(f"the second says:\n{second.happened()}", file=sys.stderr)
        raise
    assert code == 1 and "another process has taken the query" in said, said[-2000:]
    # The first may have fenced the second before that claimed the query; its transaction is then lost, and the query starts anew. One
    # checkpoint may have been complete by then.
    more_checkpoints(second, 2)
    return second


def refusals(clients, folder, query):
    """What cannot be is refused, and does not disturb the process that has the query."""
    before = fenced(query)
    cases = [
        (job(clients.broker, "SET 'execution.checkpointing.interval' = '900 s';"), "may be open for 900000 ms"),
        (job(clients.broker, more=", 'kafka.acks' = '1'"), "'kafka.acks' is not for queries to set"),
        (job(clients.broker, more=", 'transactional-id-prefix' = 'a b'"), "'transactional-id-prefix' is 'a b'"),
        (job(clients.broker).replace("'exactly-once'", "'twice'"), "expected at-least-once or exactly-once"),
        (job(clients.broker).replace("'exactly-once'", "'at-least-once'"), "delivered exactly once"),
        (job(clients.broker, more=", 'transactional-id-prefix' = 'other'"), "has 'other-"),
        (job(clients.broker).replace(f"'{WINDOW_MS} ms'", f"'{WINDOW_MS + 1} ms'"), f"windows of 'ts', {WINDOW_MS + 1} ms"),
        (job(clients.broker).replace("'subscribe' = 'clicks'", "'subscribe' = 'orders'"), "the query reads"),
        (job(clients.broker).replace("'startingOffsets'", "'kafka.no.such.setting' = '1', 'startingOffsets'"), "no.such.setting"),
        (job(clients.broker, more=", 'kafka.no.such.setting' = '1'"), "no.such.setting"),
    ]
    for number, (text, reason) in enumerate(cases):
        code, said = Query(folder, text, f"wrong{number}", query.checkpoint).ended()
        assert code == 2 and reason in said, (reason, code, said[-2000:])
    more_checkpoints(query, 1)
    assert fenced(query) == before, query.happened()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kills", type=int, default=10)
    arguments.add_argument("--checkpoint", default="checkpoint", help="address of the checkpoint, such as s3://bucket/prefix")
    given = parsed(arguments)
    kill_count, checkpoint = given.kills, given.checkpoint
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        folder = pathlib.Path(place)
        with Broker(folder / "broker") as broker:
            clients = Clients(broker)
            clients.create("impressions", "clicks", *SINKS)
            feed = Feed(clients)
            try:
                query = Query(folder, job(broker), checkpoint=checkpoint)
                slowest = kills(query, kill_count)
                print(f"{kill_count} kills; the first checkpoint after at most {slowest:.1f} s")
                steps(query)
                print(f"an end at each of {len(STEPS)} steps")
                outcome = broker_restart(clients, query)
                print(f"the broker was killed and came back: the process {outcome}")
                query = second_process(folder, query)
                print("a second process on the checkpoint: the first ended")
                refusals(clients, folder, query)
                print("what cannot be promised is refused, and the process that runs is not disturbed")
            finally:
                feed.end()
            try:
                print(f"{feed.sent} records in each stream, each row committed once: {check(clients, feed)}")
            except AssertionError:
                print(query.said()[-3000:], file=sys.stderr)
                raise
            query.stop()


if __name__ == "__main__":
    run(main)
