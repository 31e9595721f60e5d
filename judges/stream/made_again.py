"""A topic that is deleted and made again under a query that runs, judged from outside: it has more records than were read at once, so that
offsets alone do not show that it is another one.

- The query ends and says so, and so does the next process on its checkpoint, also if the query was killed before it noticed.
- With 'failOnDataLoss' = 'false' it warns, and every record of the new topic comes out.
- One whose topic stays is not disturbed, however often it looks.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import harness
from broker import Broker, run
from thread import Clients, Query, ids, job, order, parsed, passing

FIRST, SECOND = range(1000), range(100_000, 102_000)
AGAIN = "its topic was deleted and made again"


def make(clients, topic, numbers):
    """Makes a topic of one partition with these orders."""
    from confluent_kafka.admin import NewTopic

    def made():
        try:
            clients.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
        except Exception as error:  # it is still being deleted
            raise OSError(error) from error

    harness.wait_until(made, f"the topic {topic}")
    producer = clients.producer()
    for number in numbers:
        producer.produce(topic, json.dumps(order(number)), partition=0)
    assert producer.flush(30) == 0


def started(clients, folder, name, extra=""):
    """A query that has read the first topic."""
    topic, sink = f"orders-{name}", f"large-{name}"
    make(clients, topic, FIRST)
    clients.create(sink)
    query = Query(folder, job(clients.broker, topic, sink, extra), name=name, checkpoint=f"checkpoint-{name}")
    found = clients.read(sink, lambda found: len(found) >= passing(FIRST))
    assert ids(found) == {n for n in FIRST if n % 3}, f"{len(found)} rows of the first topic"
    time.sleep(2)
    return query, topic, sink


def again(clients, topic):
    clients.admin.delete_topics([topic])[topic].result()
    make(clients, topic, SECOND)


def ended(query, what):
    code, said = query.ended()
    assert code == 1 and AGAIN in said, f"{what}: exit code {code}: {said[-2000:]}"


def strict(clients, folder):
    query, topic, _ = started(clients, folder, "strict")
    again(clients, topic)
    begun = time.monotonic()
    ended(query, "the query that ran")
    seconds = time.monotonic() - begun
    assert seconds < 30, f"it was noticed after {seconds:.0f} s"
    query.start()
    ended(query, "the next process")
    print(f"ok: noticed {seconds:.1f} s after it was made again, and by the next process", flush=True)


def killed(clients, folder):
    """Killed after it has read records of the new topic, and before it noticed."""
    query, topic, sink = started(clients, folder, "killed")
    again(clients, topic)

    def has_new():
        if max(ids(clients.read(sink, lambda _: False, within=0.5))) < SECOND[0]:
            raise OSError("nothing of the new topic yet")

    try:
        harness.wait_until(has_new, "records of the new topic", lambda: query.process.poll() is None)
    except (AssertionError, SystemExit):
        ended(query, "it was noticed before a record came")
        print("ok: noticed before a record of the new topic came out", flush=True)
        return
    time.sleep(1)
    if query.process.poll() is None:
        query.kill()
    query.start()
    ended(query, "the process after the kill")
    print("ok: noticed after a kill by the next process, behind a checkpoint of the new topic", flush=True)


def lenient(clients, folder):
    query, topic, sink = started(clients, folder, "lenient", ", 'failOnDataLoss' = 'false'")
    again(clients, topic)
    wanted = {n for n in SECOND if n % 3}
    found = clients.read(sink, lambda found: wanted <= ids(found), within=40)
    missing = wanted - ids(found)
    assert not missing, f"{len(missing)} of {len(wanted)} rows of the new topic are missing"
    assert AGAIN in query.said(), query.said()[-2000:]
    query.stop()
    print(f"ok: all {len(wanted)} rows of the new topic came with a warning", flush=True)


def stays(clients, folder):
    query, topic, sink = started(clients, folder, "stays", ", 'scan.topic-partition-discovery.interval' = '200 ms'")
    producer = clients.producer()
    for number in SECOND:
        producer.produce(topic, json.dumps(order(number)), partition=0)
        if number % 100 == 0:
            producer.flush()
            time.sleep(0.3)
    producer.flush()
    wanted = passing(FIRST) + passing(SECOND)
    found = clients.read(sink, lambda found: len(found) >= wanted)
    assert len(found) == wanted == len(ids(found)), f"{len(found)} of {wanted} rows"
    query.stop()
    assert "may be lost" not in query.said(), query.said()[-2000:]
    print("ok: one whose topic stays goes on", flush=True)


def main():
    parsed(argparse.ArgumentParser(description=__doc__))
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        folder = pathlib.Path(place)
        with Broker(folder / "broker") as broker:
            clients = Clients(broker)
            for case in (strict, killed, lenient, stays):
                case(clients, folder)


if __name__ == "__main__":
    run(main)
