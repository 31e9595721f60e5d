"""State functions over Kafka, judged from outside: a broker, a producer and a consumer that are not ours.

- Visits are counted by user (`running_count`, with a timeout by event time that never comes) and gathered to sessions (`sessions`), while
  `yeoul stream run` is killed with kill -9 again and again. The greatest count of each user has to be that of a batch computation, and
  no count may be greater; each session of a batch computation has to come out, and nothing else may.
- What was read is read once more by a query of what is there (`available now`): it gives each user and each session exactly once.
- Counts with a timeout by the machine's clock are forgotten once it has passed, also while no record comes.
- What cannot be is refused, with the reason.
"""

import argparse
import collections
import datetime
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from broker import Broker, run
from thread import WITHIN, Clients, Query, parsed
from window import EPOCH, iso

STEP_MS = 5
# A record's time is that of its number, and up to this much earlier; the watermark waits longer.
DISORDER_MS = 400
DELAY_MS = 2000
GAP_MS = 150
USERS = 60
# A time that ends everything.
END_MS = 10_000_000


def visit(number):
    """The same for the same number."""
    chance = random.Random(number)
    return {"id": number, "user": f"user {chance.randrange(USERS)}", "ts": max(0, number * STEP_MS - chance.randrange(DISORDER_MS))}


def job(broker, names, settings="SET 'execution.checkpointing.interval' = '200 ms';"):
    at = f"'connector' = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', 'format' = 'json'"
    counted, gathered = names
    return f"""CREATE STREAM visits (id BIGINT NOT NULL, `user` STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{DELAY_MS} ms')
WITH ({at}, 'subscribe' = 'visits', 'startingOffsets' = 'earliest');
CREATE SINK {counted} WITH ({at}, 'topic' = '{counted}', 'key.fields' = 'user');
CREATE SINK {gathered} WITH ({at}, 'topic' = '{gathered}', 'key.fields' = 'user');
{settings}
INSERT INTO {counted} SELECT `user`, count AS n, last_time
FROM running_count(TABLE visits PARTITION BY `user`, time => DESCRIPTOR(ts), timeout => INTERVAL '10' DAY) EMIT UPDATES;
INSERT INTO {gathered} SELECT `user`, session_start, session_end, count AS n
FROM sessions(TABLE visits PARTITION BY `user`, time => DESCRIPTOR(ts), gap => INTERVAL '{GAP_MS} ms');
"""


def batch(count):
    """Counts and sessions of a batch computation."""
    times = collections.defaultdict(list)
    for number in range(count):
        value = visit(number)
        times[value["user"]].append(value["ts"])
    sessions = set()
    for user, all_times in times.items():
        all_times.sort()
        part = [all_times[0]]
        for at in all_times[1:] + [None]:
            if at is None or at - part[-1] > GAP_MS:
                sessions.add((user, part[0], part[-1] + GAP_MS, len(part)))
                part = []
            part.append(at)
    return {user: len(all_times) for user, all_times in times.items()}, sessions


def ms(text):
    return round((datetime.datetime.fromisoformat(text) - EPOCH).total_seconds() * 1000)


def counts_of(found):
    values = [json.loads(message.value()) for message in found]
    return collections.Counter((v["user"], v["n"]) for v in values if v["user"] != "end")


def greatest(found):
    counts = {}
    for user, n in counts_of(found):
        counts[user] = max(n, counts.get(user, 0))
    return counts


def sessions_of(found):
    values = [json.loads(message.value()) for message in found]
    return collections.Counter((v["user"], ms(v["session_start"]), ms(v["session_end"]), v["n"]) for v in values if v["user"] != "end")


def check(found, wanted):
    missing, more = wanted - set(found), set(found) - wanted
    assert not missing and not more, f"{len(missing)} sessions are missing: {sorted(missing)[:5]}; {len(more)} are more: {sorted(more)[:5]}"
    return sum(found.values()) - len(found)


def kills(clients, folder, count):
    """kill -9 while records come."""
    clients.create("visits", "counted", "gathered")
    producer, sent, done = clients.producer(), [0], threading.Event()

    def send(value):
        producer.produce("visits", json.dumps({**value, "ts": iso(value["ts"])}), f"k{value['id'] % 31}")

    def produce():
        while not done.is_set():
            for _ in range(20):
                send(visit(sent[0]))
                sent[0] += 1
            producer.flush()
            time.sleep(0.02)

    feeder = threading.Thread(target=produce)
    feeder.start()
    query = Query(folder, job(clients.broker, ("counted", "gathered")))
    progressed = 0
    try:
        for number in range(count):
            # Each other life gets as far as a checkpoint.
            if number % 2 == 0:
                query.until_checkpoint()
            time.sleep(random.uniform(0.1, 1.2))
            query.kill()
            progressed += '"event":"progress"' in query.said()
            query.start()
    finally:
        done.set()
        feeder.join()
    assert progressed, "no killed process had completed a checkpoint: the kills came too early to show anything"
    # The query reads what there is before times go on, which would make it late.
    counts, sessions = batch(sent[0])
    found = clients.read("counted", lambda found: greatest(found) == counts)
    assert greatest(found) == counts, [(u, n, greatest(found).get(u)) for u, n in counts.items() if greatest(found).get(u) != n][:5]
    # A time that is over for all; the second lets the batch after it go.
    for number in [0, 1]:
        send({"id": number, "user": "end", "ts": END_MS + number})
        producer.flush()
        time.sleep(0.3)
    found = sessions_of(clients.read("gathered", lambda found: set(sessions_of(found)) >= sessions))
    repeated = check(found, sessions)
    found = clients.read("counted", lambda found: greatest(found) == counts)
    repeated_counts = sum(counts_of(found).values()) - len(counts_of(found))
    query.stop()
    print(f"{count} kills: {sent[0]} visits, {len(counts)} users ({repeated_counts} counts repeated), {len(sessions)} sessions ({repeated} repeated)")
    return counts, sessions


def once_more(clients, folder, counts, sessions):
    """What is there, read by a query that ends by itself, comes out exactly once."""
    clients.create("counted2", "gathered2")
    query = Query(folder, job(clients.broker, ("counted2", "gathered2"), "SET trigger = 'available now';"), "again", "again")
    code, said = query.ended()
    assert code == 0, said[-2000:]
    found = counts_of(clients.read("counted2", lambda found: greatest(found) == counts))
    assert found == collections.Counter(counts.items()), "a function was called twice for a user in one batch"
    found = sessions_of(clients.read("gathered2", lambda found: set(sessions_of(found)) >= sessions))
    assert check(found, sessions) == 0, "sessions came twice"
    states = [json.loads(line) for line in said.splitlines() if '"event":"progress"' in line]
    names = {state["operatorName"] for progress in states for state in progress["stateOperators"]}
    assert names == {"flatMapGroupsWithState"}, names
    print("a query of what is there calls the functions once for each key")


def forgotten(clients, folder):
    """The machine's clock goes on without records."""
    clients.create("visits2", "counted3")
    text = f"""CREATE STREAM visits (id BIGINT NOT NULL, `user` STRING) WITH ('connector' = 'kafka',
'kafka.bootstrap.servers' = '{clients.broker.address}', 'format' = 'json', 'subscribe' = 'visits2', 'startingOffsets' = 'earliest');
CREATE SINK counted3 WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{clients.broker.address}', 'topic' = 'counted3', 'format' = 'json');
SET 'execution.checkpointing.interval' = '100 ms';
INSERT INTO counted3 SELECT `user`, count AS n FROM running_count(TABLE visits PARTITION BY `user`, timeout => INTERVAL '3' SECOND) EMIT UPDATES;
"""
    producer = clients.producer()

    def send(count):
        for number in range(count):
            producer.produce("visits2", json.dumps({"id": number, "user": "one"}))
            producer.flush()

    query = Query(folder, text, "clock", "clock")
    send(3)
    found = clients.read("counted3", lambda found: greatest(found) == {"one": 3})
    assert greatest(found) == {"one": 3}, counts_of(found)
    # Records that are read together are one call.
    ones = counts_of(found)["one", 1]

    def keys_left():
        lines = [json.loads(line) for line in query.said().splitlines() if '"event":"progress"' in line]
        return lines[-1]["stateOperators"][0]["numRowsTotal"] if lines else None

    def wait_for(count):
        deadline = time.monotonic() + WITHIN
        while keys_left() != count:
            assert time.monotonic() < deadline, f"{keys_left()} keys, not {count}: {query.said()[-2000:]}"
            time.sleep(0.05)

    # The timer is in the checkpoint.
    wait_for(1)
    query.kill()
    query.start()
    wait_for(0)
    send(1)
    found = clients.read("counted3", lambda found: counts_of(found)["one", 1] > ones)
    assert counts_of(found)["one", 1] == ones + 1 and ("one", 4) not in counts_of(found), counts_of(found)
    query.stop()
    print("a key without records is forgotten once its time has passed, after a kill, too")


def refusals(clients, folder):
    """What cannot be is refused before anything runs."""
    text = job(clients.broker, ("counted4", "gathered4"))
    watermark = f", WATERMARK FOR ts AS ts - INTERVAL '{DELAY_MS} ms'"
    cases = [
        ("running_count(", "running_sum(", "there is no state function 'running_sum'"),
        ("PARTITION BY `user`, time", "time", "does not name the columns of its keys"),
        ("EMIT UPDATES", "", "only supported with EMIT UPDATES"),
        (watermark, "", "without a watermark"),
        ("gap =>", "hole =>", "the argument 'gap' is missing"),
    ]
    for number, (old, new, reason) in enumerate(cases):
        assert old in text, old
        code, said = Query(folder, text.replace(old, new, 1), f"wrong{number}", f"wrong{number}").ended()
        assert code == 2 and reason in said, (reason, code, said[-2000:])
    print("what cannot be is refused, with the reason")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kills", type=int, default=10)
    kill_count = parsed(arguments).kills
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        folder = pathlib.Path(place)
        with Broker(folder / "broker") as broker:
            clients = Clients(broker)
            counts, sessions = kills(clients, folder, kill_count)
            once_more(clients, folder, counts, sessions)
            forgotten(clients, folder)
            refusals(clients, folder)


if __name__ == "__main__":
    run(main)
