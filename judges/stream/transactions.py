"""Transactions that are lost, judged from outside: each record comes out once to who reads what is committed, and malformed ones
come to the dead-letter topic once.

- Commits whose answers do not come: the process goes on by itself, does not give its rows out again, and ends after some tries.
- A process that stands still until brokers abort its transaction: it goes on by itself from its last checkpoint.
- A broker that stands still until it aborts the transaction: likewise. (One that is killed may forget to end a transaction that it has
  settled: Kafka 4.3 passes over partitions that have no leader yet when the only replica comes back.)
- A process that stands still while another one takes the query over, for shorter and for longer than a transaction may be open:
  it ends with an error when it wakes, and does not disturb the other one.
- A producer with the query's transactional id that claims nothing: the process has the query still, and goes on by itself.
- What is there, a backlog that takes longer than a transaction may be open: it is read in many transactions.
- Dead letters that would go to other brokers are refused.
- A transaction in the control topic that is neither committed nor aborted: the query does not go on, and says why.
"""

import collections
import json
import pathlib
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import harness
from broker import Broker, run
from thread import Clients, Query, job, order

TIMEOUT_S = 3
# The broker looks each second for transactions that are too old.
STALL_S = TIMEOUT_S + 2.5
# Records that are there before a query reads them.
BACKLOG = 200_000
# Each so many records one is malformed.
MALFORMED_EACH = 20
SETTINGS = "SET 'execution.checkpointing.interval' = '100 ms';"
EXACTLY = f"'format' = 'json', 'delivery-guarantee' = 'exactly-once', 'kafka.transaction.timeout.ms' = '{TIMEOUT_S * 1000}', 'key.fields'"
# How often a query goes on without a checkpoint that is completed meanwhile.
TRIES_MAX = 5
TAKEN_OVER = "another process has taken the query"


def text(broker, letters_at=""):
    orders = job(broker, "orders", "large", ", 'dead-letter.topic' = 'dead'", SETTINGS)
    assert orders.count("'format' = 'json', 'key.fields'") == 1, orders
    orders = orders.replace("'format' = 'json', 'key.fields'", EXACTLY)
    return orders.replace(broker.address, letters_at, 1) if letters_at else orders


class Feed:
    """Orders that come while other things happen."""

    def __init__(self, clients):
        self.producer, self.sent, self.done = clients.producer(enable_idempotence=True), 0, threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.done.is_set():
            for _ in range(20):
                value = json.dumps(order(self.sent))
                value = f"malformed {self.sent}" if self.is_malformed(self.sent) else value
                self.producer.produce("orders", value, f"k{self.sent % 31}")
                self.sent += 1
            self.producer.flush()
            time.sleep(0.02)

    def is_malformed(self, number):
        return number % MALFORMED_EACH == 0

    def end(self):
        self.done.set()
        self.thread.join()


def wait_for(is_there, what, query):
    def look():
        if not is_there():
            raise TimeoutError(query.said()[-1000:])

    harness.wait_until(look, what, lambda: query.process.poll() is None)


def kinds(query):
    """Kinds of all events, in their order."""
    return [line.split('"event":"')[1].split('"')[0] for line in query.said().splitlines() if '"event":"' in line]


def progressed(query, starts=1):
    """Waits until it has completed a checkpoint since it began for the last of so many times."""

    def is_there():
        found = kinds(query)
        return found.count("started") >= starts and found[-1] == "progress"

    wait_for(is_there, f"a checkpoint after {starts} starts", query)


def lost_answer(query):
    """From the fifth commit on no answer comes: it goes on some times, and ends when it has completed nothing since."""
    query.kill()
    query.start(YEOUL_FAILPOINTS="stream-commit-answer@5")
    code, said = query.ended()
    starts, found = query.events("started"), kinds(query)
    # An epoch without output has nothing to commit, and is completed beside the four.
    completed = found.count("progress")
    expected = ["started", *["progress"] * completed, *["started"] * TRIES_MAX, "terminated"]
    assert code == 1 and found == expected and completed >= 4, (code, found, said[-3000:])
    for start in starts[1:]:
        assert "Kafka does not say whether" in "".join(start["warnings"]), start
    assert "start the query again" in said, said[-3000:]
    query.start()
    progressed(query)
    print(f"commits without answers: the process went on by itself {TRIES_MAX} times, and then ended")


def stall(query):
    """It stands still for longer than its transaction may be open."""
    for attempt in range(5):
        starts = len(query.events("started"))
        query.process.send_signal(signal.SIGSTOP)
        time.sleep(STALL_S)
        query.process.send_signal(signal.SIGCONT)
        time.sleep(1)
        progressed(query, starts)
        now = query.events("started")
        if len(now) > starts:
            reason = "".join(now[-1]["warnings"])
            # Records that waited in the client's queue meanwhile are as old as the transaction, and may be what fails first.
            is_expired = "a transaction was open for" in reason and f"brokers abort one after {TIMEOUT_S}.0 s" in reason
            assert is_expired or "could not be delivered" in reason, reason
            print(f"a process that stood still for {STALL_S} s went on by itself (attempt {attempt + 1})")
            return
        # It had no transaction open when it was stopped.
    raise AssertionError(f"no transaction was ever aborted: {query.said()[-3000:]}")


def broker_away(broker, query):
    """The broker stands still for longer than a transaction may be open."""
    for attempt in range(5):
        starts, checkpoints = len(query.events("started")), len(query.events("progress"))
        broker.pause(STALL_S)
        wait_for(lambda: len(query.events("progress")) > checkpoints + 2, "checkpoints after the broker went on", query)
        now = query.events("started")
        if len(now) > starts:
            reason = "".join(now[-1]["warnings"])
            assert "the query goes on from its last checkpoint" in reason, reason
            print(f"a broker that stood still for {STALL_S} s: the process went on by itself (attempt {attempt + 1})")
            return
        # There was no transaction open when the broker stopped.
    raise AssertionError(f"no transaction was ever lost: {query.said()[-3000:]}")


def control_topic(clients):
    topics = clients.admin.list_topics(timeout=10).topics
    return next(name for name in topics if name.startswith("yeoul-") and name.endswith("-control"))


def fenced(clients, query):
    """Another process fences it, as one does that starts, and dies before it has claimed the query."""
    starts = len(query.events("started"))
    clients.producer(transactional_id=control_topic(clients).removesuffix("-control")).init_transactions()
    wait_for(lambda: len(query.events("started")) > starts, "the query that was fenced", query)
    progressed(query, starts + 1)
    reason = "".join(query.events("started")[-1]["warnings"])
    assert "another one has taken its transactional id" in reason, reason
    print("a process that was fenced by one that claimed nothing went on by itself")


def overtaken(folder, query, pause):
    """It stands still while another process takes the query over."""
    query.process.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    second = Query(folder, query.text, f"second{pause}")
    progressed(second)
    time.sleep(pause)
    slept = time.monotonic() - stopped
    query.process.send_signal(signal.SIGCONT)
    code, said = query.ended()
    assert code == 1 and TAKEN_OVER in said.split('"event":"terminated"')[1], said[-3000:]
    before = len(second.events("progress"))
    wait_for(lambda: len(second.events("progress")) > before + 5, "more checkpoints of the second process", second)
    assert len(second.events("started")) == 1, f"the second process was disturbed: {second.said()[-3000:]}"
    print(f"a process that slept for {slept:.1f} s while another took the query over ended, and left that one alone")
    return second


def backlog(clients, folder):
    """A query with state and `available now`, of what takes longer than one transaction may."""
    clients.create("many", "distinct")
    producer = clients.producer(enable_idempotence=True, queue_buffering_max_messages=BACKLOG)
    for number in range(BACKLOG):
        # Each tenth is a repeat.
        producer.produce("many", json.dumps({"id": number - (number % 10 == 9), "name": f"name {number}"}))
    producer.flush()
    at = f"'connector' = 'kafka', 'kafka.bootstrap.servers' = '{clients.broker.address}', 'format' = 'json'"
    text = f"""CREATE STREAM many (id BIGINT NOT NULL, name STRING) WITH ({at}, 'subscribe' = 'many', 'startingOffsets' = 'earliest');
CREATE SINK found WITH ({at}, 'topic' = 'distinct', 'delivery-guarantee' = 'exactly-once', 'kafka.transaction.timeout.ms' = '{TIMEOUT_S * 1000}');
SET 'execution.checkpointing.interval' = '200 ms';
SET trigger = 'available now';
INSERT INTO found SELECT DISTINCT ON (id) id, name FROM many;
"""
    query = Query(folder, text, "backlog", "backlog")
    code, said = query.ended()
    epochs = [event for event in query.events("progress") if event["numInputRows"]]
    assert code == 0 and len(query.events("started")) == 1, said[-3000:]
    assert len(epochs) > 2 and sum(event["numInputRows"] for event in epochs) == BACKLOG, said[-3000:]
    slowest = max(event["batchDuration"] for event in epochs)
    wanted = {n for n in range(BACKLOG) if n % 10 != 9}
    found = collections.Counter(json.loads(message.value())["id"] for message in clients.read("distinct", lambda found: len(found) >= len(wanted)))
    assert set(found) == wanted and set(found.values()) == {1}, f"{len(found)} of {len(wanted)}"
    rows = [event["numInputRows"] for event in epochs]
    print(f"a backlog of {BACKLOG} records: {len(rows)} transactions of {min(rows)} to {max(rows)} records, {slowest} ms at most")


def check(clients, feed):
    """What came out is what is in the source, as often: a broker that is killed may have a record of the producer's twice."""
    source = collections.Counter(message.value().decode() for message in clients.read("orders", settled(feed.sent)))
    sent = {json.dumps(order(n)) if not feed.is_malformed(n) else f"malformed {n}" for n in range(feed.sent)}
    assert set(source) == sent, f"the source has {len(source)} of {feed.sent} records"
    letters, orders = collections.Counter(), collections.Counter()
    for value, times in source.items():
        if value.startswith("malformed"):
            letters[value] = times
        elif json.loads(value)["id"] % 3:
            orders[json.loads(value)["id"]] = times
    for topic, wanted, of in [
        ("large", orders, lambda m: json.loads(m.value())["id"]),
        ("dead", letters, lambda m: m.value().decode()),
    ]:
        found = collections.Counter(of(message) for message in clients.read(topic, settled(wanted.total())))
        missing, more = sorted((wanted - found).elements()), sorted((found - wanted).elements())
        assert not missing and not more, f"{topic}: missing {missing[:5]}, more {more[:5]} of {wanted.total()}, {len(more)} more"
    twice = source.total() - len(source)
    print(f"{source.total()} records, {twice} of them sent twice: {orders.total()} committed once, and {letters.total()} dead letters once")


def undecided(clients, query):
    """A transaction that hangs in the control topic, as one does whose end a broker forgot."""
    hanging = clients.producer(transactional_id="hanging", transaction_timeout_ms=600_000)
    hanging.init_transactions()
    hanging.begin_transaction()
    hanging.produce(control_topic(clients), json.dumps({"batch": 1, "generation": 1}), "committed")
    hanging.flush()
    query.start()
    code, said = query.ended()
    assert code == 1 and "is neither committed nor aborted" in said and "find-hanging" in said, (code, said[-2000:])
    hanging.abort_transaction()
    query.start()
    wait_for(lambda: query.events("started"), "the query once the transaction has an end", query)
    query.stop()
    print("a transaction without its end: the query does not go on until it has one")


def settled(count):
    """Whether so many records were found, some time ago: what would be too much has some time to come, too."""
    reached = []

    def is_enough(found):
        reached.extend([time.monotonic()] if len(found) >= count else [])
        return bool(reached) and time.monotonic() - reached[0] > 2

    return is_enough


def main():
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        folder = pathlib.Path(place)
        with Broker(folder / "broker") as broker:
            clients = Clients(broker)
            clients.create("orders", "large", "dead")
            feed = Feed(clients)
            query = Query(folder, text(broker))
            try:
                progressed(query)
                lost_answer(query)
                stall(query)
                broker_away(broker, query)
                fenced(clients, query)
                query = overtaken(folder, query, 0)
                query = overtaken(folder, query, STALL_S)
                feed.end()
                check(clients, feed)
                query.stop()
                undecided(clients, query)
                backlog(clients, folder)
            finally:
                feed.end()
                if query.process.poll() is None:
                    query.kill()
            code, said = Query(folder, text(broker, "127.0.0.1:1"), "elsewhere", "elsewhere").ended()
            assert code == 2 and "they go to 127.0.0.1:1 and output to" in said, (code, said[-2000:])
            print("dead letters to other brokers are refused")


if __name__ == "__main__":
    run(main)
