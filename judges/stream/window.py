"""Windowed counts over Kafka, judged from outside: a broker, a producer and a consumer that are not ours.

- `yeoul stream run` is killed with kill -9 again and again while records come, out of order and over several partitions; two
  queries count them by window and user. With EMIT UPDATES the last count of each group has to be that of a batch computation, and
  no count may be greater; with EMIT ON WINDOW CLOSE each window has to come out, and each time with that count.
- What was read is read once more by a query of what is there (`available now`), which has to give the same.
- A file of state is damaged: the checkpoint before is used, and nothing is lost.
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

EPOCH = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
SIZE_MS = 2000
USERS = 13
# A record's time is that of its number, and up to this much earlier; the watermark waits twice as long.
DISORDER_MS = 2000
STEP_MS = 2
# Until then some windows have closed.
CLOSING_MS = 14_000


def iso(ms):
    return (EPOCH + datetime.timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")


def record(number):
    """The same for the same number."""
    chance = random.Random(number)
    ms = max(0, number * STEP_MS - chance.randrange(DISORDER_MS))
    return {"id": number, "userName": f"user {chance.randrange(USERS)}", "ts": iso(ms)}, ms


def job(broker, source, sinks, settings="SET 'execution.checkpointing.interval' = '200 ms';"):
    text = f"""
CREATE STREAM visits (id BIGINT NOT NULL, `userName` STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{2 * DISORDER_MS} ms')
WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', 'subscribe' = '{source}',
      'startingOffsets' = 'earliest', 'format' = 'json');
{settings}
"""
    for name, emit in sinks.items():
        text += f"""
CREATE SINK {name} WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = '{broker.address}', 'topic' = '{name}',
      'format' = 'json', 'key.fields' = 'user');
INSERT INTO {name} SELECT window_start, `userName` AS `user`, count(*) AS n, sum(id) AS total, min(id) AS first_id
FROM TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '{SIZE_MS} ms') GROUP BY window_start, `userName` EMIT {emit};
"""
    return text


def batch(numbers):
    """The groups of a batch computation: count, sum and least number by window and user."""
    groups = collections.defaultdict(list)
    for number in numbers:
        value, ms = record(number)
        groups[ms // SIZE_MS * SIZE_MS, value["userName"]].append(number)
    return {group: (len(ids), sum(ids), min(ids)) for group, ids in groups.items()}


def group_of(message):
    value = json.loads(message.value())
    assert message.key().decode() == value["user"], value
    start = datetime.datetime.fromisoformat(value["window_start"])
    ms = round((start - EPOCH).total_seconds() * 1000)
    return (ms, value["user"]), (value["n"], value["total"], value["first_id"])


def last_values(found):
    """The last of each group; records of a user lie in one partition, in their order."""
    last = {}
    for message in found:
        group, value = group_of(message)
        last[group] = value
    return last


def differences(found, wanted):
    wrong = [(group, found.get(group), value) for group, value in wanted.items() if found.get(group) != value]
    more = [(group, value) for group, value in found.items() if group not in wanted]
    return f"{len(wrong)} groups differ: {wrong[:5]}; {len(more)} are more: {more[:5]}"


def kills(clients, folder, count):
    """kill -9 while records come."""
    clients.create("visits", "changed", "closed")
    producer, numbers, done = clients.producer(), [], threading.Event()

    def produce():
        while not done.is_set():
            for _ in range(40):
                number = len(numbers)
                value, _ = record(number)
                producer.produce("visits", json.dumps(value), f"k{number % 31}")
                numbers.append(number)
            producer.flush()
            time.sleep(0.02)

    feeder = threading.Thread(target=produce)
    feeder.start()
    text = job(clients.broker, "visits", {"changed": "UPDATES", "closed": "ON WINDOW CLOSE"})
    query = Query(folder, text)
    progressed, late = 0, 0

    def look():
        nonlocal progressed, late
        for line in query.said().splitlines():
            if '"event":"progress"' in line:
                progressed += 1
                late += sum(s["numRowsDroppedByWatermark"] for s in json.loads(line)["stateOperators"])

    try:
        for _ in range(count):
            time.sleep(random.uniform(0.3, 2.5))
            query.kill()
            look()
            query.start()
        while len(numbers) * STEP_MS < CLOSING_MS:
            time.sleep(0.1)
    finally:
        done.set()
        feeder.join()
    wanted = batch(numbers)
    greatest = max(record(number)[1] for number in numbers)
    # Windows that end at the watermark or before have closed.
    closed = {group: value for group, value in wanted.items() if group[0] + SIZE_MS <= greatest - 2 * DISORDER_MS}
    assert closed, "no window closed: nothing would be shown"
    found = clients.read("changed", lambda found: len(found) >= len(wanted) and last_values(found) == wanted)
    look()
    assert last_values(found) == wanted, f"{differences(last_values(found), wanted)}; {late} groups were late"
    for message in found:
        group, value = group_of(message)
        assert value[0] <= wanted[group][0], f"{group} came out with {value}, of {wanted[group]}"
    at_close = clients.read("closed", lambda found: len(found) >= len(closed) and len(last_values(found)) >= len(closed))
    for message in at_close:
        group, value = group_of(message)
        assert closed.get(group) == value, f"window {group} closed with {value}, expected {closed.get(group)}"
    assert last_values(at_close) == closed, differences(last_values(at_close), closed)
    query.stop()
    assert late == 0, f"{late} groups were late"
    assert progressed > count / 2, f"{progressed} checkpoints in {count} lives: the kills came too early to show anything"
    repeats = len(at_close) - len(closed)
    print(
        f"{count} kills: {len(numbers)} records, the last counts of {len(wanted)} groups are those of a batch computation, "
        f"{len(closed)} closed groups came out, {repeats} of them again"
    )
    return numbers, closed


def once_more(clients, folder, numbers, closed):
    """What is there, in planned epochs."""
    clients.create("all_changed", "all_closed")
    settings = "SET trigger = 'available now';"
    query = Query(folder, job(clients.broker, "visits", {"all_changed": "UPDATES", "all_closed": "ON WINDOW CLOSE"}, settings), "once", "once")
    code, said = query.ended()
    assert code == 0, said[-2000:]
    wanted = batch(numbers)
    found = clients.read("all_changed", lambda found: len(found) >= len(wanted))
    assert last_values(found) == wanted, differences(last_values(found), wanted)
    assert len(found) == len(wanted), "a group came out twice in one epoch"
    found = clients.read("all_closed", lambda found: len(found) >= len(closed))
    assert last_values(found) == closed and len(found) == len(closed), differences(last_values(found), closed)
    print("a query of what is there gives each group once, and the same")


def damaged(clients, folder):
    """A file of state is not what was written."""
    clients.create("visits2", "changed2")
    producer = clients.producer()

    def send(numbers):
        for number in numbers:
            producer.produce("visits2", json.dumps(record(number)[0]), f"k{number % 31}")
        assert producer.flush(WITHIN) == 0

    text = job(clients.broker, "visits2", {"changed2": "UPDATES"})
    query = Query(folder, text)
    for begin in range(0, 3000, 500):
        send(range(begin, begin + 500))
        wanted = batch(range(begin + 500))
        found = clients.read("changed2", lambda found: len(found) >= len(wanted) and last_values(found) == wanted)
        assert last_values(found) == wanted, differences(last_values(found), wanted)
        time.sleep(0.5)
    query.kill()
    # The last that a checkpoint names: a process that is killed may leave one more.
    manifests = (folder / "checkpoint/changed2/yeoul/manifests").iterdir()
    manifest = max(path for path in manifests if not path.name.endswith(".new")).read_text()
    names = [file["name"] for file in json.loads(manifest.split("\n", 1)[1])["stateFiles"]]
    assert len(names) > 2, names
    file = folder / "checkpoint/changed2/yeoul/state" / names[-1]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    query.start()
    send(range(3000, 3500))
    wanted = batch(range(3500))
    found = clients.read("changed2", lambda found: last_values(found) == wanted)
    assert last_values(found) == wanted, differences(last_values(found), wanted)
    assert file.name in query.said() and "not what was written" in query.said(), query.said()[:2000]
    query.stop()
    print("a damaged file of state is named, and the checkpoint before it is used")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kills", type=int, default=10)
    kill_count = parsed(arguments).kills
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        folder = pathlib.Path(place)
        with Broker(folder / "broker") as broker:
            clients = Clients(broker)
            for name in ["kills", "damaged"]:
                (folder / name).mkdir()
            numbers, closed = kills(clients, folder / "kills", kill_count)
            once_more(clients, folder / "kills", numbers, closed)
            damaged(clients, folder / "damaged")


if __name__ == "__main__":
    run(main)
