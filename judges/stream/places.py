"""Checkpoints at addresses of object stores, judged from outside: an S3 server that is not ours (moto, from PyPI), behind a proxy
that loses requests and answers, and HDFS as `yeoul dfs` serves it.

- A windowed count over files is killed with kill -9 again and again while files come; the rows that come out have to be those of a
  batch computation, each once.
- `yeoul stream state ADDRESS` shows the checkpoint while the query runs.
- A second process on the checkpoint: the first stops with an error.
- A damaged manifest is named, and the checkpoint before it is used.
- With `--exactly` the five queries of `exactly.py` have their checkpoint in S3, behind the proxy.
- An S3 server that does not honour `If-None-Match` is refused, and so are HTTP and a bucket that is not there.
"""

import argparse
import collections
import contextlib
import datetime
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from harness import binary, ending, free_ports, venv, wait_until
from process import WITHIN, StreamProcess

MOTO = ["moto[server]==5.1.0"]
STEP_MS = 5
# Files that wait for the query at most, beside some that killed processes read.
AHEAD_MAX = 60
FILES_PER_EPOCH = 3
# A record's time is that of its number, and up to this much earlier; the watermark waits longer.
DISORDER_MS = 400
DELAY_MS = 1000
SIZE_MS = 500
USERS = 20
FILE_ROWS = 40
EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def job(folder, name="counts"):
    return f"""
CREATE STREAM visits (id BIGINT, `user` STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{DELAY_MS} ms')
WITH ('connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'json', 'maxFilesPerTrigger' = '{FILES_PER_EPOCH}');
CREATE SINK {name} WITH ('connector' = 'filesystem', 'path' = '{folder}/out-{name}', 'format' = 'json');
SET 'execution.checkpointing.interval' = '100 ms';
SET 'spark.sql.streaming.minBatchesToRetain' = '10';
INSERT INTO {name} SELECT window_start, `user`, count(*) AS n, sum(id) AS total
FROM TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '{SIZE_MS} ms') GROUP BY window_start, `user` EMIT ON WINDOW CLOSE;
"""


def visit(number):
    """The same for the same number."""
    chance = random.Random(number)
    ms = max(0, number * STEP_MS - chance.randrange(DISORDER_MS))
    return {"id": number, "user": f"user {chance.randrange(USERS)}", "ts": ms}


def iso(ms):
    return (EPOCH + datetime.timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def batch(count):
    """The groups of a batch computation."""
    groups = collections.defaultdict(list)
    for number in range(count):
        value = visit(number)
        groups[value["ts"] // SIZE_MS * SIZE_MS, value["user"]].append(number)
    return {(*group, len(ids), sum(ids)): 1 for group, ids in groups.items()}


class Files:
    """Files that come, with their rows in order."""

    def __init__(self, folder):
        self.folder, self.count, self.files = folder / "in", 0, 0
        self.folder.mkdir()

    def put(self, rows):
        text = "".join(json.dumps({**row, "ts": iso(row["ts"])}) + "\n" for row in rows)
        unfinished = self.folder / ".unfinished"
        unfinished.write_text(text)
        unfinished.rename(self.folder / f"{self.files:06}")
        self.files += 1
        # Files are read in the order of their times.
        time.sleep(0.002)

    def more(self):
        self.put(visit(self.count + at) for at in range(FILE_ROWS))
        self.count += FILE_ROWS

    def end(self):
        """A time at which all windows are over; the second lets the epoch after it go."""
        for number in range(2):
            self.put([{"id": -1, "user": "end", "ts": 10_000_000 + number}])


def rows_out(folder, name="counts"):
    """Rows that came out, and how often each; unfinished files begin with a dot or an underscore."""
    found = collections.Counter()
    for path in (folder / f"out-{name}").glob("batch-*.json"):
        with contextlib.suppress(FileNotFoundError):
            for line in path.read_text().splitlines():
                value = json.loads(line)
                ms = round((datetime.datetime.fromisoformat(value["window_start"]) - EPOCH).total_seconds() * 1000)
                found[ms, value["user"], value["n"], value["total"]] += 1
    return found


class Query(StreamProcess):
    """A process of `yeoul stream run`."""

    def __init__(self, folder, address, environment, name="counts"):
        self.folder, self.address, self.environment, self.name = folder, address, {**os.environ, **environment}, name
        (folder / f"{name}.sql").write_text(job(folder, name))
        self.lives = 0

    def start(self):
        self.lives += 1
        path = self.folder / f"{self.name}-{self.lives}.log"
        line = [binary(), "stream", "run", self.folder / f"{self.name}.sql", "--checkpoint", self.address]
        with open(path, "wb") as log:
            # The thread that feeds the query reads it from here on.
            self.log = path
            # A folder named `s3:` would come to be there.
            self.process = subprocess.Popen(line, stdout=log, stderr=log, env=self.environment, cwd=self.folder, start_new_session=True)
        return self

    def shown(self):
        line = [binary(), "stream", "state", self.address, "--format", "json"]
        shown = subprocess.run(line, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=WITHIN)
        assert shown.returncode == 0 and not shown.stderr, shown
        return json.loads(shown.stdout)


def progress_of(query):
    return query.said().count('"event":"progress"')


def wait_for(is_there, query, what, progress=lambda: None):
    """Waits for something, until nothing has gone on for so long."""
    gone, deadline = None, time.monotonic() + WITHIN
    while not is_there():
        if (now := progress()) != gone:
            gone, deadline = now, time.monotonic() + WITHIN
        assert query.process.poll() is None, f"{what}: the query ended: {query.said()[-3000:]}"
        assert time.monotonic() < deadline, f"{what}: {query.said()[-3000:]}"
        time.sleep(0.02)


def kills(what, query, count):
    """kill -9 while files come; rows are those of a batch computation in the end, each once."""
    files, done, progressed = Files(query.folder), threading.Event(), 0

    def produce():
        while not done.is_set():
            # Through the proxy an epoch takes longer than its files come. What killed processes did not say is not counted.
            taken = FILES_PER_EPOCH * (progressed + progress_of(query))
            if files.files < taken + AHEAD_MAX + FILES_PER_EPOCH * count:
                files.more()
            time.sleep(0.03)

    feeder = threading.Thread(target=produce)
    try:
        query.start()
        feeder.start()
        for number in range(count):
            # Each other life gets as far as a few checkpoints; the others die while they start or claim.
            if number % 2 == 0:
                wait_for(lambda: progress_of(query) >= 2, query, "no checkpoint")
            time.sleep(random.uniform(0.02, 0.5))
            query.kill()
            progressed += progress_of(query)
            query.start()
        wait_for(lambda: progress_of(query) >= 2, query, "no checkpoint")
        shown = query.shown()
        assert (shown["query"], shown["generation"] > count / 2) == ("counts", True), shown
        assert shown["manifest"].startswith(query.address + "/counts/yeoul/manifests/"), shown
    finally:
        done.set()
        if feeder.is_alive():
            feeder.join()
    files.end()
    wanted = collections.Counter(batch(files.count))
    # Through the proxy it is slower than the files come.
    wait_for(lambda: len(rows_out(query.folder)) >= len(wanted), query, "rows are missing", lambda: progress_of(query))
    query.stop()
    found = rows_out(query.folder)
    assert found == wanted, f"missing {list((wanted - found).items())[:5]}, more {list((found - wanted).items())[:5]}"
    assert not (query.folder / query.address.split("/")[0]).exists(), "a folder was made of the address"
    print(f"{what}: {count} kills, {progressed} checkpoints before them, {files.count} rows in {files.files} files: {len(wanted)} windows, each once")
    return files


def second_process(what, query, files):
    """The first of two processes stops."""
    query.start()
    wait_for(lambda: '"event":"started"' in query.said(), query, "it did not start")
    other = Query(query.folder, query.address, query.environment)
    other.lives = query.lives
    other.start()
    wait_for(lambda: '"event":"started"' in other.said(), other, "it did not start")
    for _ in range(3):
        files.more()
        time.sleep(0.2)
    code, said = query.ended()
    assert code == 1 and "has taken the query 'counts' over" in said, (code, said[-2000:])
    other.stop()
    print(f"{what}: the first of two processes stops")


def refused(what, query, reason):
    code, said = query.start().ended()
    assert code in (1, 2) and reason in said, f"{what}: {code}, {said[-2000:]}"
    print(f"refused: {what}")


class Proxy(http.server.ThreadingHTTPServer):
    """Stands before an S3 server: fails one of so many requests, loses one of so many answers, and may take conditions out."""

    daemon_threads = True

    def __init__(self, port, one_of=0, honours_conditions=True):
        self.own_port, self.to = free_ports(1)[0], port
        self.one_of, self.honours_conditions = one_of, honours_conditions
        self.failed = self.lost = 0
        super().__init__(("127.0.0.1", self.own_port), Forward)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """A client that was killed is no error."""


class Forward(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        proxy = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if proxy.one_of and random.randrange(proxy.one_of) == 0:
            proxy.failed += 1
            return self.hang_up()
        headers = {k: v for k, v in self.headers.items() if proxy.honours_conditions or k.lower() != "if-none-match"}
        upstream = http.client.HTTPConnection("127.0.0.1", proxy.to, timeout=WITHIN)
        upstream.request(self.command, self.path, body, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if proxy.one_of and random.randrange(proxy.one_of) == 0:
            proxy.lost += 1
            return self.hang_up()
        self.send_response_only(answer.status)
        for key, value in answer.getheaders():
            if key.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(key, value)
        length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)

    def hang_up(self):
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

    def log_message(self, *_):
        pass


def asked(url, method="GET", content=None):
    """The answer of moto, which wants somebody to have signed, and does not look how."""
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=judge/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"}
    with urllib.request.urlopen(urllib.request.Request(url, content, signed, method=method), timeout=5) as answer:
        return answer.read()


def s3(folder, count, exactly=False):
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    line = [venv("moto", MOTO) / "moto_server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    with ending(server):
        wait_until(lambda: urllib.request.urlopen(url, timeout=1), "moto", lambda: server.poll() is None)
        asked(f"{url}/checkpoints", "PUT")

        def settings(proxy):
            return {
                "AWS_ACCESS_KEY_ID": "judge",
                "AWS_SECRET_ACCESS_KEY": "judge",
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT": f"http://127.0.0.1:{proxy.own_port}",
                "AWS_ALLOW_HTTP": "true",
            }

        faulty = Proxy(port, one_of=15)
        (folder / "s3").mkdir()
        query = Query(folder / "s3", "s3://checkpoints/jobs/visits", settings(faulty))
        files = kills("S3", query, count)
        assert faulty.failed > 5 and faulty.lost > 5, "the proxy did too little"
        print(f"S3: {faulty.failed} requests and {faulty.lost} answers were lost meanwhile")
        query.environment.update(settings(Proxy(port)))
        second_process("S3", query, files)
        listed = asked(f"{url}/checkpoints?list-type=2&prefix=jobs/visits/counts/").decode()
        keys = re.findall("<Key>(.*?)</Key>", listed)
        manifests = sorted(key for key in keys if "/yeoul/manifests/" in key)
        assert 10 <= len(manifests) <= 30 and len(keys) < 300, f"{len(manifests)} manifests, {len(keys)} objects"
        assert any("/commits/" in key for key in keys) and any("/sources/0/" in key for key in keys), keys[:20]
        # The last one is cut short.
        last = f"{url}/checkpoints/{manifests[-1]}"
        asked(last, "PUT", asked(last)[:-9])
        query.start()
        wait_for(lambda: '"event":"started"' in query.said(), query, "it did not start")
        assert manifests[-1] in query.said() and "not written to its end" in query.said(), query.said()[-2000:]
        query.stop()
        print("S3: a damaged manifest is named, and the checkpoint before it is used")
        (folder / "refused").mkdir()
        (folder / "refused/in").mkdir()
        without = Query(folder / "refused", "s3://checkpoints/refused", settings(Proxy(port, honours_conditions=False)))
        refused("S3 without If-None-Match", without, "cannot hold checkpoints: it creates an object that is there already once more")
        there = settings(Proxy(port))
        refused("a bucket that is not there", Query(folder / "refused", "s3://nobucket/refused", there), "NoSuchBucket")
        refused("HTTP", Query(folder / "refused", f"{url}/checkpoints/refused", there), "HTTP does not create a file only if it is absent")
        elsewhere = {**there, "AWS_ENDPOINT": f"http://127.0.0.1:{free_ports(1)[0]}"}
        refused_at = time.monotonic()
        refused("a server that is not there", Query(folder / "refused", "s3://checkpoints/refused", elsewhere), "Connection refused")
        assert time.monotonic() - refused_at < WITHIN
        if exactly:
            line = [sys.executable, pathlib.Path(__file__).parent / "exactly.py", "--kills", str(count), "--checkpoint", "s3://checkpoints/jobs/exactly"]
            faulty = Proxy(port, one_of=100)
            subprocess.run(line, env={**os.environ, **settings(faulty)}, check=True)
            print(f"S3: exactly once, while {faulty.failed} requests and {faulty.lost} answers were lost")


def hdfs(folder, count, _=False):
    (folder / "hdfs").mkdir()
    line = [binary(), "dfs", "local", "--datanodes", "3", "--dir", folder / "cluster", "--port", "0", "--http-port", "0"]
    with open(folder / "dfs.log", "ab") as log:
        server = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True)
    with ending(server):
        address = server.stdout.readline().strip()
        assert address, (folder / "dfs.log").read_text()[-2000:]
        query = Query(folder / "hdfs", f"hdfs://{address}/jobs/visits", {})
        files = kills("HDFS", query, count)
        second_process("HDFS", query, files)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--kills", type=int, default=10)
    arguments.add_argument("--store", choices=["s3", "hdfs"], action="append", help="both by default")
    arguments.add_argument("--exactly", action="store_true", help="run exactly.py with its checkpoint in S3, too; it needs a broker")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place:
        for store in given.store or ["s3", "hdfs"]:
            {"s3": s3, "hdfs": hdfs}[store](pathlib.Path(place), given.kills, given.exactly)


if __name__ == "__main__":
    main()
