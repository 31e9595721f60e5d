"""Kafka, filter and projection, Kafka at least once, judged from outside: a broker, a producer and a consumer that are not ours.

- `yeoul stream run` is killed with kill -9 again and again while records come; each record has to come out, with the right value,
  and none that the filter drops. Output is visible at once, not only at checkpoints.
- The broker is killed and comes back: the query goes on by itself.
- A second process on the checkpoint: the first stops with an error and writes nothing more.
- A malformed record ends the query, or goes to the dead-letter topic with its reason.
- Records come in with each of Kafka's compressions and go out with zstd.
- SIGTERM drains: nothing comes twice after it.
"""

import argparse
import atexit
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import harness
from broker import Broker, run
from process import WITHIN, StreamProcess

PARTITIONS = 5


def job(broker, source, sink, extra="", settings="SET 'execution.checkpointing.interval' = '200 ms';"):
    return f"""
CREATE STREAM orders (id BIGINT NOT NULL, `userName` STRING, amount DOUBLE, part INT METADATA FROM 'partition')
WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', 'subscribe' = '{source}',
      'startingOffsets' = 'earliest', 'format' = 'json'{extra});
CREATE SINK large WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', 'topic' = '{sink}',
      'format' = 'json', 'key.fields' = 'user');
{settings}
INSERT INTO large SELECT id, `userName` AS `user`, amount * 2 AS doubled FROM orders WHERE amount >= 10;
"""


def parsed(arguments):
    """Arguments, of which one says how many threads queries have."""
    arguments.add_argument(
        "--parallelism", default="1", help="threads of a query in one life after another, such as 3 or 3,1,2"
    )
    found = arguments.parse_args()
    Query.parallelism = [int(number) for number in found.parallelism.split(",")]
    return found


class Query(StreamProcess):
    """A process of `yeoul stream run`."""

    parallelism = [1]

    def __init__(self, folder, text, name="q", checkpoint="checkpoint", more=()):
        self.folder, self.name, self.checkpoint, self.more = folder, name, checkpoint, more
        self.text, self.lives = text, 0
        self.start()

    def start(self, **environment):
        threads = self.parallelism[self.lives % len(self.parallelism)]
        (self.folder / f"{self.name}.sql").write_text(f"SET parallelism = {threads};\n{self.text}")
        self.lives += 1
        self.log = self.folder / f"{self.name}-{self.lives}.log"
        # A folder in the judge's own, or an address.
        place = self.checkpoint if "://" in self.checkpoint else self.folder / self.checkpoint
        line = [harness.binary(), "stream", "run", self.folder / f"{self.name}.sql", "--checkpoint", place, *self.more]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(line, stdout=log, stderr=log, env={**os.environ, **environment})
        # A judge that fails leaves none behind.
        atexit.register(self.process.kill)


class Clients:
    """Producers and consumers of confluent-kafka."""

    def __init__(self, broker):
        from confluent_kafka.admin import AdminClient

        self.broker, self.admin = broker, AdminClient({"bootstrap.servers": broker.address})

    def create(self, *topics):
        from confluent_kafka.admin import NewTopic

        for future in self.admin.create_topics([NewTopic(t, PARTITIONS, 1) for t in topics]).values():
            future.result()

    def producer(self, **more):
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.broker.address, "linger.ms": 5, **{k.replace("_", "."): v for k, v in more.items()}})

    def ends(self, topics):
        """Offsets after the last records of topics, of which each has so many partitions."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": "ends"})
        ends = {
            topic: {str(p): consumer.get_watermark_offsets(TopicPartition(topic, p), 30)[1] for p in range(count)}
            for topic, count in topics.items()
        }
        consumer.close()
        return ends

    def read(self, topic, is_enough, within=WITHIN):
        """Records of a topic from its begin, until they are enough, or none has come for so many seconds."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": f"judge-{random.random()}"})
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        found, looked, deadline = [], 0, time.monotonic() + within
        while time.monotonic() < deadline:
            came = consumer.consume(1000, 0.2)
            for message in came:
                assert message.error() is None, message.error()
                found.append(message)
            if came:
                deadline = time.monotonic() + within
            # All are looked at: not each time while more and more come.
            if not came or len(found) > looked * 1.1:
                looked = len(found)
                if is_enough(found):
                    break
        consumer.close()
        return found


def order(number):
    """Amounts that tell apart which record is which; each third is dropped by the filter."""
    return {"id": number, "userName": f"user {number % 97}", "amount": 5.0 if number % 3 == 0 else 10 + number * 0.5}


def check(found, numbers):
    """Every order that passes the filter is there, with its values; nothing else is."""
    wanted = {n: {"id": n, "user": f"user {n % 97}", "doubled": (10 + n * 0.5) * 2} for n in numbers if n % 3}
    seen = {}
    for message in found:
        value = json.loads(message.value())
        assert value == wanted.get(value["id"]), f"{value} came out, expected {wanted.get(value['id'])}"
        assert message.key().decode() == value["user"]
        seen[value["id"]] = seen.get(value["id"], 0) + 1
    missing = sorted(set(wanted) - set(seen))
    assert not missing, f"lost: {len(missing)} records, the first are {missing[:10]}"
    return sum(seen.values()) - len(seen)


def passing(numbers):
    return sum(1 for n in numbers if n % 3)


def ids(found):
    return {json.loads(message.value())["id"] for message in found}


def kills(clients, folder, count):
    """kill -9 while records come."""
    clients.create("orders", "large")
    producer, numbers, done = clients.producer(), [], threading.Event()

    def send():
        for _ in range(50):
            number = len(numbers)
            producer.produce("orders", json.dumps(order(number)), f"k{number % 13}")
            numbers.append(number)
        assert producer.flush(WITHIN) == 0

    def produce():
        while not done.is_set():
            send()
            time.sleep(0.02)

    feeder = threading.Thread(target=produce)
    feeder.start()
    query = Query(folder, job(clients.broker, "orders", "large"))

    def progressed():
        if '"event":"progress"' not in query.said():
            raise OSError("no progress yet")

    try:
        for number in range(count):
            # Each second life completes a checkpoint; the others may die before.
            if number % 2 == 0:
                harness.wait_until(progressed, "the first checkpoint", lambda: query.process.poll() is None)
            time.sleep(random.uniform(0.3, 1.5))
            query.kill()
            query.start()
    finally:
        done.set()
        feeder.join()
    # The last process may still send again what one before it had sent. It has done so once a checkpoint of its own has all.
    send()
    ended_at(query, clients.ends({"orders": PARTITIONS}))
    wanted = passing(numbers)
    found = clients.read("large", lambda _: False, within=2)
    repeats = check(found, numbers)
    query.stop()
    after = clients.read("large", lambda _: False, within=2)
    assert len(after) == len(found), "a stop gave rows out again"
    query.start()
    time.sleep(1)
    assert len(clients.read("large", lambda _: False, within=2)) == len(found), "a restart after a stop gave rows out again"
    query.stop()
    commits, offsets = (entries(folder / "checkpoint/large" / log) for log in ("commits", "offsets"))
    assert commits == offsets and len(commits) > count, "Spark's logs have gaps"
    print(f"{count} kills: {len(numbers)} records in, each of {wanted} out, {repeats} repeated")


def started(query):
    if not query.events("started"):
        raise OSError("not started yet")


def ended_at(query, ends):
    """Waits until a checkpoint has all."""

    def has_all():
        progress = query.events("progress")
        if not progress or progress[-1]["sources"][0]["endOffset"] != ends:
            raise OSError("not all is in a checkpoint yet")

    harness.wait_until(has_all, "the last checkpoint", lambda: query.process.poll() is None)


def entries(log):
    """Numbers of the entries of one of Spark's logs; a killed process may leave a file that it had not put in its place."""
    return {int(path.name) for path in log.iterdir() if path.name.isdigit()}


def broker_restart(clients, folder):
    """The query outlives its broker."""
    clients.create("orders2", "large2")
    query = Query(folder, job(clients.broker, "orders2", "large2"), "restart")
    producer = clients.producer()

    def send(numbers):
        for number in numbers:
            producer.produce("orders2", json.dumps(order(number)), f"k{number % 13}")
        assert producer.flush(WITHIN) == 0

    send(range(500))
    clients.read("large2", lambda found: len(found) >= passing(range(500)))
    clients.broker.kill()
    time.sleep(2)
    clients.broker.start()
    send(range(500, 1000))
    found = clients.read("large2", lambda found: len(ids(found)) >= passing(range(1000)))
    check(found, range(1000))
    query.stop()
    print("the broker was killed and came back: nothing is lost, and the query went on")


def second_process(clients, folder):
    """The first of two processes stops."""
    clients.create("orders3", "large3")
    producer = clients.producer()
    first = Query(folder, job(clients.broker, "orders3", "large3"), "two")
    harness.wait_until(lambda: started(first), "the first process", lambda: first.process.poll() is None)
    second = Query(folder, first.text, "two-b")
    time.sleep(1)
    for number in range(300):
        producer.produce("orders3", json.dumps(order(number)))
    producer.flush()
    code, said = first.ended()
    assert code == 1 and "another process has taken the query 'large' over" in said, said[-2000:]
    check(clients.read("large3", lambda found: len(ids(found)) >= passing(range(300))), range(300))
    second.stop()
    print("a second process on the checkpoint: the first stopped, nothing is lost")


def malformed(clients, folder):
    """Records that are no orders."""
    clients.create("orders4", "large4", "dead", "large5")
    producer = clients.producer()
    bad = [b"{\"id\": 1", b"[]", b"{\"amount\": 20}"]
    for number in range(100):
        producer.produce("orders4", json.dumps(order(number)))
    for value in bad:
        producer.produce("orders4", value, b"the key")
    producer.produce("orders4", None, b"tombstone")
    producer.flush()
    query = Query(folder, job(clients.broker, "orders4", "large4"), "strict")
    code, said = query.ended()
    assert code == 2 and "a record cannot be read" in said and "orders4" in said, said[-2000:]
    query = Query(folder, job(clients.broker, "orders4", "large4", ", 'dead-letter.topic' = 'dead'"), "lenient")
    check(clients.read("large4", lambda found: len(ids(found)) >= passing(range(100))), range(100))
    dead = clients.read("dead", lambda found: len(found) >= 4)
    query.stop()
    assert sorted(m.value() or b"" for m in dead) == sorted([*bad, b""]), [m.value() for m in dead]
    headers = [dict(m.headers()) for m in dead]
    assert all(h["yeoul.topic"] == b"orders4" and h["yeoul.reason"] and h["yeoul.offset"] for h in headers), headers
    query = Query(folder, job(clients.broker, "missing", "large5"), "missing", "missing")
    code, said = query.ended()
    assert code == 1 and "there is no topic 'missing' in Kafka" in said, said[-2000:]
    print("malformed records end the query or go to the dead-letter topic; a missing topic is refused by name")


def compressions(clients, folder):
    """Every codec in, the newest out."""
    clients.create("orders6", "large6")
    codecs, each = ["none", "gzip", "snappy", "lz4", "zstd"], 100
    for place, codec in enumerate(codecs):
        producer = clients.producer(compression_type=codec)
        for number in range(place * each, (place + 1) * each):
            producer.produce("orders6", json.dumps(order(number)) + " " * 1000)
        assert producer.flush(WITHIN) == 0
    text = job(clients.broker, "orders6", "large6").replace("'topic' = 'large6'", "'topic' = 'large6', 'kafka.compression.type' = 'zstd'")
    query = Query(folder, text)
    numbers = range(len(codecs) * each)
    check(clients.read("large6", lambda found: len(ids(found)) >= passing(numbers)), numbers)
    query.stop()
    print(f"records compressed with {', '.join(codecs)} are read, and written with zstd")


def in_turn(acts):
    """Acts with one broker, each in a folder of its name."""
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        folder = pathlib.Path(place)
        with Broker(folder / "broker") as broker:
            clients = Clients(broker)
            for name, act in acts.items():
                (folder / name).mkdir()
                act(clients, folder / name)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kills", type=int, default=10)
    count = arguments.parse_args().kills
    in_turn({"kills": lambda c, f: kills(c, f, count), "restart": broker_restart, "two": second_process, "malformed": malformed, "codecs": compressions})


if __name__ == "__main__":
    run(main)
