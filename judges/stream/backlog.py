"""Rows that become visible at once, judged from outside: none is late that lies in Kafka already.

- A row each 0.3 s trickles into one partition, so that no pause shows the query that a backlog came. Then a transaction commits 20 s
  of event time in all partitions, in the order of time in each; the watermark waits 8 s. Every row has to be counted, burst by burst.
- The same with partitions of very different sizes, and with a query that is killed in the middle.
"""

import argparse
import collections
import datetime
import json
import pathlib
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from broker import Broker, run
from thread import Clients, Query, parsed

EPOCH = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
PARTITIONS = 6
DELAY_MS = 8000
BURST_MS = 20_000
WITHIN = 60


def iso(ms):
    return (EPOCH + datetime.timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")


def job(broker, topic, sink):
    return f"""
CREATE STREAM events (part INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{DELAY_MS} ms')
WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', 'subscribe' = '{topic}',
      'kafka.isolation.level' = 'read_committed', 'startingOffsets' = 'earliest', 'format' = 'json');
CREATE SINK counted WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', 'topic' = '{sink}',
      'format' = 'json', 'key.fields' = 'key');
SET 'execution.checkpointing.interval' = '500 ms';
INSERT INTO counted SELECT CAST(window_start AS STRING) AS `key`, part, count(*) AS n
FROM TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND) GROUP BY window_start, part EMIT UPDATES;
"""


def bursts(clients, folder, name, steps_ms, kills=False):
    """Bursts whose partitions have a row each so many milliseconds."""
    from confluent_kafka.admin import NewTopic

    topic, sink = f"events-{name}", f"counted-{name}"
    topics = [NewTopic(topic, PARTITIONS, 1), NewTopic(sink, 1, 1)]
    for future in clients.admin.create_topics(topics).values():
        future.result()
    sent, event_ms, done, committing = collections.Counter(), [0], threading.Event(), threading.Lock()

    def send(producer, partition, ms):
        value = {"part": partition, "ts": iso(ms)}
        producer.produce(topic, json.dumps(value), partition=partition, on_delivery=lambda error, _: check_none(error))
        sent[partition] += 1

    def trickle():
        producer = clients.producer()
        while not done.is_set():
            # None has a time of before a burst and comes after it: such a row may be late.
            with committing:
                send(producer, 0, event_ms[0])
                producer.flush()
            time.sleep(0.3)

    query = Query(folder, job(clients.broker, topic, sink), name=name, checkpoint=f"checkpoint-{name}")
    trickler = threading.Thread(target=trickle)
    trickler.start()
    writer = clients.producer(transactional_id=f"writer-{name}", queue_buffering_max_messages=1_000_000)
    writer.init_transactions()
    for burst in range(3):
        time.sleep(3)
        writer.begin_transaction()
        begin = event_ms[0]
        for partition, step_ms in enumerate(steps_ms):
            for ms in range(begin, begin + BURST_MS, step_ms):
                send(writer, partition, ms)
                writer.poll(0)
        with committing:
            writer.commit_transaction()
            event_ms[0] = begin + BURST_MS
        if kills and burst == 1:
            time.sleep(0.3)
            query.kill()
            query.start()
    time.sleep(2)
    done.set()
    trickler.join()
    wanted = sum(sent.values())

    def counted(found):
        last = {}
        for message in found:
            value = json.loads(message.value())
            last[value["key"], value["part"]] = value["n"]
        return sum(last.values())

    found = read(clients, sink, lambda found: counted(found) == wanted)
    assert counted(found) == wanted, f"{name}: {counted(found)} of {wanted} rows were counted"
    query.stop()
    print(f"ok: {name}: {wanted} rows in 3 bursts beside a trickle, none late", flush=True)


def check_none(error):
    assert error is None, error


def read(clients, topic, is_enough):
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": clients.broker.address, "group.id": f"judge-{topic}"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found, deadline = [], time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        came = consumer.consume(10_000, 0.5)
        for message in came:
            assert message.error() is None, message.error()
        found += came
        if not came and is_enough(found):
            break
    consumer.close()
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--short", action="store_true", help="a quarter of the rows, and of the queries only the skewed and the killed one")
    given = parsed(arguments)
    slower = 4 if given.short else 1
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        folder = pathlib.Path(place)
        with Broker(folder / "broker") as broker:
            clients = Clients(broker)
            if not given.short:
                bursts(clients, folder, "even", [1] * PARTITIONS)
            bursts(clients, folder, "skewed", [200, slower, slower, 40, 5 * slower, 1000])
            bursts(clients, folder, "killed", [2 * slower] * PARTITIONS, kills=True)


if __name__ == "__main__":
    run(main)
