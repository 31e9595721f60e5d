"""Topics of Kafka by a pattern, judged from outside: a broker, a producer and a consumer that are not ours.

- Topics that match are made, and partitions are added to them, while `yeoul stream run` is killed with kill -9 again and again and
  records come: each record of each partition has to come out, and the checkpoint ends at the end of each of them.
- The progress of a backlog shows how far the query is behind, and that of a query which has all shows that it is not; its pages show
  the same, and the times of its work.
- A query of what is there ends behind the control records of several topics.
- A topic that is deleted ends the query or, with 'failOnDataLoss' = 'false', is left with a warning.
- A pattern that matches the sink, or that cannot be compiled, is refused.
"""

import argparse
import json
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import harness
from broker import run
from thread import WITHIN, Query, check, ended_at, entries, ids, in_turn, job, order, passing, started

LOOK = "'scan.topic-partition-discovery.interval' = '300 ms'"


def pattern_job(broker, pattern, sink, extra="", **more):
    text = job(broker, "TOPICS", sink, f", {LOOK}{extra}", **more)
    return text.replace("'subscribe' = 'TOPICS'", f"'subscribePattern' = '{pattern}'")


class Topics:
    """Topics and their partitions, which grow."""

    def __init__(self, clients):
        self.clients, self.partitions = clients, {}

    def create(self, topic, partitions):
        from confluent_kafka.admin import NewTopic

        self.clients.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
        self.made(topic, partitions)

    def grow(self, topic):
        from confluent_kafka.admin import NewPartitions

        count = self.partitions[topic] + 1
        self.clients.admin.create_partitions([NewPartitions(topic, count)])[topic].result()
        self.made(topic, count)

    def made(self, topic, count):
        """Waits until the broker tells of so many partitions: the controller has made them some time before."""

        def is_told():
            there = self.clients.admin.list_topics(topic, timeout=WITHIN).topics[topic].partitions
            if len(there) < count:
                raise OSError(f"{len(there)} partitions of {topic}")

        harness.wait_until(is_told, f"{count} partitions of {topic}")
        self.partitions[topic] = count

    def ends(self):
        """Offsets after the last records."""
        return self.clients.ends(self.partitions)


class Feed:
    """Orders that come to all partitions of all topics, new ones too, until it is told to stop."""

    def __init__(self, topics):
        self.topics, self.numbers, self.done, self.failed = topics, [], threading.Event(), None
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        try:
            known, producer = None, None
            while not self.done.is_set():
                partitions = [(topic, p) for topic, count in list(self.topics.partitions.items()) for p in range(count)]
                if partitions != known:
                    # A producer looks for new partitions each five minutes only.
                    known, producer = partitions, self.topics.clients.producer()
                for topic, partition in partitions:
                    for _ in range(5):
                        producer.produce(topic, json.dumps(order(len(self.numbers))), partition=partition)
                        self.numbers.append(len(self.numbers))
                assert producer.flush(WITHIN) == 0
                time.sleep(0.02)
        except Exception as error:
            self.failed = error

    def stop(self):
        self.done.set()
        self.thread.join()
        assert self.failed is None, self.failed


def last_offsets(folder, query="large"):
    log = folder / "checkpoint" / query / "offsets"
    return json.loads((log / str(max(entries(log)))).read_text().splitlines()[-1])


def kills(clients, folder, count):
    """kill -9 while topics are made and partitions are added."""
    topics = Topics(clients)
    topics.create("shop-0-orders", 2)
    # None of the pattern: its records cannot be read.
    clients.create("large", "shop-orders-old")
    other = clients.producer()
    other.produce("shop-orders-old", "no order")
    other.flush()
    query = Query(folder, pattern_job(clients.broker, "^shop-\\d+-orders$", "large"))
    feed, made, grown = Feed(topics), 0, 0
    try:
        for number in range(count):
            time.sleep(random.uniform(0.2, 0.8))
            if number % 2 == 0:
                made += 1
                topics.create(f"shop-{made}-orders", random.randint(1, 3))
            else:
                grown += 1
                topics.grow(random.choice(list(topics.partitions)))
            # Before it is noticed, and after.
            time.sleep(random.uniform(0.0, 1.2))
            query.kill()
            query.start()
        # Two more that this process notices by itself.
        harness.wait_until(lambda: progressed(query), "the first checkpoint", lambda: query.process.poll() is None)
        topics.create("shop-99-orders", 2)
        topics.grow("shop-0-orders")
        time.sleep(2)
    finally:
        feed.stop()
    numbers = feed.numbers
    found = clients.read("large", lambda found: len(found) >= passing(numbers) and len(ids(found)) >= passing(numbers))
    repeats = check(found, numbers)
    ended_at(query, topics.ends())
    query.stop()
    starts = [event["sources"][0]["startOffset"] for event in query.events("progress")]
    assert "shop-99-orders" not in starts[0] and "shop-99-orders" in starts[-1], "the last process did not notice the new topic"
    assert last_offsets(folder) == topics.ends(), (last_offsets(folder), topics.ends())
    description = query.events("progress")[-1]["sources"][0]["description"]
    assert description == "kafka subscribePattern [^shop-\\d+-orders$]", description
    partitions = sum(topics.partitions.values())
    print(f"{count} kills, {made + 1} topics made and {grown + 1} partitions added: {len(numbers)} records of {partitions} partitions in, each of {passing(numbers)} out, {repeats} repeated")


def progressed(query):
    if not query.events("progress"):
        raise OSError("no progress yet")


def lag(clients, folder):
    """How far a query is behind."""
    backlog, each = 20_000, 500
    topics = Topics(clients)
    for topic in ["lag-a", "lag-b"]:
        topics.create(topic, 2)
    clients.create("large2")
    producer = clients.producer()
    for number in range(backlog):
        # One partition has more than the others.
        partition = 0 if number % 4 else 1
        producer.produce(["lag-a", "lag-b"][number % 2], json.dumps(order(number)), partition=partition)
        producer.poll(0)
    assert producer.flush(WITHIN) == 0
    port = harness.free_ports(1)[0]
    text = pattern_job(clients.broker, "^lag-", "large2", f", 'maxOffsetsPerTrigger' = '{each}'", settings="SET 'trigger' = 'every 100 ms';")
    query = Query(folder, text, more=["--http-port", str(port)])
    check(clients.read("large2", lambda found: len(ids(found)) >= passing(range(backlog))), range(backlog))
    ends = topics.ends()
    ended_at(query, ends)
    page = harness.page(port, "/metrics/prometheus")
    # A query that plans all its batches finds new topics, too.
    count = len(query.events("progress"))
    topics.create("lag-c", 1)
    for number in range(backlog, backlog + 100):
        producer.produce("lag-c", json.dumps(order(number)))
    assert producer.flush(WITHIN) == 0
    all_numbers = range(backlog + 100)
    check(clients.read("large2", lambda found: len(ids(found)) >= passing(all_numbers)), all_numbers)
    query.stop()
    epochs = [event for event in query.events("progress")[:count] if event["numInputRows"]]
    for epoch in epochs:
        source, times = epoch["sources"][0], epoch["durationMs"]
        lags = [source["latestOffset"][t][p] - end for t, of in source["endOffset"].items() for p, end in of.items()]
        expected = {
            "avgOffsetsBehindLatest": str(sum(lags) / len(lags)),
            "maxOffsetsBehindLatest": str(max(lags)),
            "minOffsetsBehindLatest": str(min(lags)),
        }
        assert source["metrics"] == expected, (source, expected)
        assert set(times) == {"triggerExecution", "latestOffset", "addBatch", "commitOffsets"}, times
        assert all(0 <= ms <= times["triggerExecution"] for ms in times.values()), times
    first, last = epochs[0]["sources"][0], epochs[-1]["sources"][0]
    # It was all there when the first epoch ended.
    assert first["latestOffset"] == ends and first["startOffset"] == {t: {p: 0 for p in of} for t, of in ends.items()}, first
    assert int(first["metrics"]["maxOffsetsBehindLatest"]) > backlog / 8, first
    assert last["metrics"]["maxOffsetsBehindLatest"] == "0" and last["latestOffset"] == ends, last
    behind = [int(epoch["sources"][0]["metrics"]["maxOffsetsBehindLatest"]) for epoch in epochs]
    assert behind == sorted(behind, reverse=True) and len(set(behind)) > 10, behind
    assert 'yeoul_stream_offset_lag{query="large",topic="lag-a",partition="1"} 0' in page, page
    assert 'yeoul_stream_last_epoch_duration_seconds{query="large",phase="addBatch"}' in page, page
    print(f"{len(epochs)} epochs of a backlog: it is {behind[0]} records behind at first and none at last, as progress and pages say")


def control_records(clients, folder):
    """Plans that end behind control records."""
    topics, total = Topics(clients), 0
    for topic in ["moved-a", "moved-b", "moved-c"]:
        topics.create(topic, 2)
        producer = clients.producer(transactional_id=f"judge-{topic}")
        producer.init_transactions(30)
        for _ in range(3):
            producer.begin_transaction()
            for _ in range(100):
                producer.produce(topic, json.dumps(order(total)), partition=total % 2)
                total += 1
            producer.commit_transaction(30)
    clients.create("large3")
    began = time.monotonic()
    text = pattern_job(clients.broker, "^moved-", "large3", settings="SET 'trigger' = 'available now';")
    code, said = Query(folder, text, "moved").ended()
    took = time.monotonic() - began
    assert code == 0, said[-2000:]
    assert check(clients.read("large3", lambda found: len(found) >= passing(range(total))), range(total)) == 0
    print(f"a query of what is there in three topics with transactions ends behind their control records, after {took:.1f} s")


def deleted(clients, folder):
    """A topic is deleted."""
    for name, extra in [("strict", ""), ("lenient", ", 'failOnDataLoss' = 'false'")]:
        topics, sink = Topics(clients), f"large-{name}"
        topics.create(f"{name}-a", 1)
        topics.create(f"{name}-b", 1)
        clients.create(sink)
        producer = clients.producer()

        def send(topic, numbers):
            for number in numbers:
                producer.produce(topic, json.dumps(order(number)))
            assert producer.flush(WITHIN) == 0

        send(f"{name}-a", range(50))
        send(f"{name}-b", range(50, 100))
        query = Query(folder, pattern_job(clients.broker, f"^{name}-", sink, extra), name, name)
        check(clients.read(sink, lambda found: len(ids(found)) >= passing(range(100))), range(100))
        clients.admin.delete_topics([f"{name}-b"])[f"{name}-b"].result()
        if name == "strict":
            code, said = query.ended()
            assert code == 1 and "strict-b-0 is gone" in said, (code, said[-2000:])
            continue

        def warned():
            if not any("lenient-b-0 is gone" in event["text"] for event in query.events("warning")):
                raise OSError("no warning yet")

        harness.wait_until(warned, "the warning", lambda: query.process.poll() is None)
        send("lenient-a", range(100, 200))
        check(clients.read(sink, lambda found: len(ids(found)) >= passing(range(200))), range(200))
        query.stop()
        end = query.events("progress")[-1]["sources"][0]["endOffset"]
        assert end == {"lenient-a": {"0": 150}}, end
        # The checkpoint does not know it any more: it is no news to the next process.
        query.start()
        harness.wait_until(lambda: started(query), "the query", lambda: query.process.poll() is None)
        query.stop()
        assert not query.events("warning"), query.said()
    print("a topic that is deleted ends a query, or is left with a warning")


def refusals(clients, folder):
    """Patterns that cannot be."""
    for number, (pattern, reason) in enumerate([("large", "matches the topic of the sink"), ("a(?=b)", "look-around"), ("", "it is empty")]):
        code, said = Query(folder, pattern_job(clients.broker, pattern, "large"), f"wrong{number}", f"wrong{number}").ended()
        assert code == 2 and reason in said, (reason, code, said[-2000:])
    print("patterns that match the sink or cannot be compiled are refused")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kills", type=int, default=10)
    count = arguments.parse_args().kills
    in_turn({"kills": lambda c, f: kills(c, f, count), "lag": lag, "control": control_records, "deleted": deleted, "refusals": refusals})


if __name__ == "__main__":
    run(main)
