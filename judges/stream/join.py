"""Joins and deduplication over Kafka, judged from outside: a broker, a producer and a consumer that are not ours.

- Impressions are joined with clicks (LEFT OUTER, within a second of event time) and clicks are deduplicated within the watermark,
  while `yeoul stream run` is killed with kill -9 again and again. Each pair and each impression without a click has to come out,
  nothing that a batch computation does not give may, and each click's id has to come out.
- What was read is read once more by a query of what is there (`available now`): it gives each of them exactly once.
- What Spark's analyser refuses is refused, with its reason.
"""

import argparse
import collections
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from broker import Broker, run
from thread import Clients, Query, parsed
from window import iso

STEP_MS = 5
# A record's time is that of its number, and up to this much earlier; the watermark waits longer.
DISORDER_MS = 400
DELAY_MS = 2000
RANGE_MS = 1000
ADS = 40
# A time that ends everything: each stream has one such record at last.
END_MS = 10_000_000


def impression(number):
    chance = random.Random(number)
    return {"id": number, "ad": chance.randrange(ADS), "ts": max(0, number * STEP_MS - chance.randrange(DISORDER_MS))}


def click(number):
    """Each fourth click comes a second time."""
    number -= 1 if number % 4 == 3 else 0
    chance = random.Random(-1 - number)
    return {"id": number, "ad": chance.randrange(ADS), "ts": max(0, number * STEP_MS - chance.randrange(DISORDER_MS))}


def job(broker, names, settings="SET 'execution.checkpointing.interval' = '200 ms';"):
    at = f"'connector' = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', 'format' = 'json'"

    def stream(name):
        return f"""CREATE STREAM {name} (id BIGINT NOT NULL, ad BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{DELAY_MS} ms')
WITH ({at}, 'subscribe' = '{name}', 'startingOffsets' = 'earliest');
"""

    joined, once = names
    return f"""{stream("impressions")}{stream("clicks")}
CREATE SINK {joined} WITH ({at}, 'topic' = '{joined}');
CREATE SINK {once} WITH ({at}, 'topic' = '{once}');
{settings}
INSERT INTO {joined} SELECT i.id, c.id AS click FROM impressions AS i LEFT JOIN
  (SELECT DISTINCT WITHIN WATERMARK ON (id) id, ad, ts FROM clicks) AS c
  ON i.ad = c.ad AND c.ts BETWEEN i.ts AND i.ts + INTERVAL '{RANGE_MS} ms';
INSERT INTO {once} SELECT DISTINCT WITHIN WATERMARK ON (id) id, ad FROM clicks;
"""


def batch(count):
    """Pairs of a batch computation, and impressions with nothing."""
    clicks = collections.defaultdict(set)
    for number in range(count):
        value = click(number)
        clicks[value["ad"]].add((value["ts"], value["id"]))
    pairs = set()
    for number in range(count):
        value = impression(number)
        matches = [c for ts, c in clicks[value["ad"]] if value["ts"] <= ts <= value["ts"] + RANGE_MS]
        pairs.update((number, c) for c in matches or [None])
    return pairs, {click(number)["id"] for number in range(count)}


def pairs_of(found):
    values = [json.loads(message.value()) for message in found]
    return collections.Counter((v["id"], v.get("click")) for v in values if v["id"] >= 0)


def ids_of(found):
    values = [json.loads(message.value()) for message in found]
    return collections.Counter(v["id"] for v in values if v["id"] >= 0)


def check(found, wanted, what):
    missing, more = wanted - set(found), set(found) - wanted
    assert not missing and not more, f"{what}: {len(missing)} are missing: {sorted(missing, key=str)[:5]}; {len(more)} are more: {sorted(more, key=str)[:5]}"
    return sum(found.values()) - len(found)


def kills(clients, folder, count):
    """kill -9 while records come."""
    clients.create("impressions", "clicks", "joined", "once")
    producer, sent, done = clients.producer(), [0], threading.Event()

    def send(topic, value, key):
        producer.produce(topic, json.dumps({**value, "ts": iso(value["ts"])}), key)

    def produce():
        while not done.is_set():
            for _ in range(20):
                send("impressions", impression(sent[0]), f"k{sent[0] % 31}")
                send("clicks", click(sent[0]), f"k{sent[0] % 17}")
                sent[0] += 1
            producer.flush()
            time.sleep(0.02)

    feeder = threading.Thread(target=produce)
    feeder.start()
    query = Query(folder, job(clients.broker, ("joined", "once")))
    progressed = 0
    try:
        for number in range(count):
            # Each other life gets as far as a checkpoint.
            if number % 2 == 0:
                query.until_checkpoint()
            time.sleep(random.uniform(0.8, 2.5))
            query.kill()
            progressed += '"event":"progress"' in query.said()
            query.start()
    finally:
        done.set()
        feeder.join()
    assert progressed, "no killed process had completed a checkpoint: the kills came too early to show anything"
    # The query reads what there is before times go on, which would make it late.
    wanted, ids = batch(sent[0])
    clients.read("once", lambda found: set(ids_of(found)) >= ids)
    # A time that is over for both; the second lets the batch after it go.
    for number in [-1, -2]:
        for topic in ["impressions", "clicks"]:
            send(topic, {"id": number, "ad": -1, "ts": END_MS - number}, "k")
    producer.flush()
    found = pairs_of(clients.read("joined", lambda found: set(pairs_of(found)) >= wanted))
    repeated = check(found, wanted, "the join")
    repeated_ids = check(ids_of(clients.read("once", lambda found: set(ids_of(found)) >= ids)), ids, "the ids")
    query.stop()
    alone = sum(1 for _, c in wanted if c is None)
    print(f"{count} kills: {sent[0]} records in each stream, {len(wanted) - alone} pairs and {alone} rows without a click ({repeated} repeated), {len(ids)} ids ({repeated_ids} repeated)")
    return wanted, ids


def once_more(clients, folder, wanted, ids):
    """What is there, read by a query that ends by itself, comes out exactly once."""
    clients.create("joined2", "once2")
    settings = "SET trigger = 'available now';"
    query = Query(folder, job(clients.broker, ("joined2", "once2"), settings), "again", "again")
    code, said = query.ended()
    assert code == 0, said[-2000:]
    found = pairs_of(clients.read("joined2", lambda found: set(pairs_of(found)) >= wanted))
    assert check(found, wanted, "the join") == 0, "pairs came twice"
    assert check(ids_of(clients.read("once2", lambda found: set(ids_of(found)) >= ids)), ids, "the ids") == 0, "ids came twice"
    states = [json.loads(line) for line in said.splitlines() if '"event":"progress"' in line]
    names = {state["operatorName"] for progress in states for state in progress["stateOperators"]}
    assert names == {"symmetricHashJoin", "dedupeWithinWatermark"}, names
    two = next(progress for progress in states if len(progress["sources"]) == 2)
    assert [source["description"] for source in two["sources"]] == ["kafka subscribe [impressions]", "kafka subscribe [clicks]"]
    print("a query of what is there gives each of them exactly once")


def refusals(clients, folder):
    """What cannot be is refused before anything runs."""
    text = job(clients.broker, ("joined3", "once3"))
    within = f"c.ts BETWEEN i.ts AND i.ts + INTERVAL '{RANGE_MS} ms'"
    cases = [
        (within, "c.id >= i.id", "on the nullable side"),
        ("i.ad = c.ad AND", "", "without an equality"),
        ("AS i LEFT JOIN", "AS i LEFT ANTI JOIN", "LEFT ANTI"),
        (within, within + " EMIT UPDATES", "not supported with EMIT UPDATES"),
    ]
    for number, (old, new, reason) in enumerate(cases):
        assert old in text, old
        changed = text.replace(old, new, 1)
        if "ANTI" in new:
            changed = changed.replace("i.id, c.id AS click", "i.id", 1)
        code, said = Query(folder, changed, f"wrong{number}", f"wrong{number}").ended()
        assert code == 2 and reason in said, (reason, code, said[-2000:])
    print("what has no answer is refused, with the reason")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kills", type=int, default=10)
    kill_count = parsed(arguments).kills
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        folder = pathlib.Path(place)
        with Broker(folder / "broker") as broker:
            clients = Clients(broker)
            wanted, ids = kills(clients, folder, kill_count)
            once_more(clients, folder, wanted, ids)
            refusals(clients, folder)


if __name__ == "__main__":
    run(main)
