"""Spark's Structured Streaming as a contestant of `yeoul bench stream`: one JSON object per line, an answer to each.

    {"open": {"mode": MODE, "jars": DIR, "scratch": DIR, "partitions": N, "wait_ms": N or null}}
        -> {"opened": {"version": TEXT, "pids": [N, ...]}}
    {"start": {"pipeline": NAME, "servers": TEXT, "from": [TOPIC, ...], "to": TOPIC}}
        -> {"started": {}} once the query waits for records, or {"failed": {"message": TEXT}}
    {"check": {}} -> {"runs": {}}, or {"failed": {"message": TEXT}} if the query has ended by itself
    {"stop": {}} -> {"stopped": {}}, likewise

MODE is "micro-batch" (each batch as soon as the last is done, state in the provider that is HDFS-backed) or "real-time" (batches of
five minutes, which records do not wait for). The end of stdin ends the process.
"""

import glob
import json
import os
import subprocess
import sys
import time

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

# Real-time mode needs a thread for each partition that is read and for each that is shuffled to, all at once.
THREADS = 12
HEAP_MIB = 4096
# How long a query may take until it waits for records, and how long it is then left alone: consumers connect.
START_SECONDS_MAX = 60
SETTLE_SECONDS = 2
WATERMARK = "10 seconds"


class Spark:
    def open(self, request):
        self.is_real_time = request["mode"] == "real-time"
        self.scratch, self.queries, self.query = request["scratch"], 0, None
        jars = glob.glob(os.path.join(request["jars"], "*.jar"))
        classes, self.cannot_compile = compiled(request["scratch"])
        settings = {
            "spark.driver.memory": f"{HEAP_MIB}m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # It is stopped while others run, and must not take itself for dead after that.
            "spark.network.timeout": "100000s",
            "spark.jars": ",".join(jars),
            "spark.driver.extraClassPath": os.pathsep.join([*jars, classes]),
            "spark.local.dir": request["scratch"],
            "spark.sql.warehouse.dir": os.path.join(request["scratch"], "warehouse"),
            "spark.sql.shuffle.partitions": str(request["partitions"]),
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
        }
        if request.get("wait_ms") is not None:
            settings["spark.shuffle.streaming.networkBufferMaxWaitTimeMs"] = str(request["wait_ms"])
        builder = SparkSession.builder.master(f"local[{THREADS}]").appName("yeoul bench")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()
        self.jvm = self.session.sparkContext._gateway.jvm
        pids = [int(self.jvm.java.lang.ProcessHandle.current().pid()), os.getpid()]
        return "opened", {"version": f"Spark {self.session.version}", "pids": pids}

    def start(self, request):
        self.queries += 1
        rows = PIPELINES[request["pipeline"]](self, request)
        writer = (
            rows.select(f.to_json(f.struct("*")).alias("value"))
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", request["servers"])
            .option("topic", request["to"])
            .option("checkpointLocation", os.path.join(self.scratch, f"checkpoint-{self.queries}"))
        )
        if self.is_real_time:
            writer = writer.outputMode("update").trigger(realTime="5 minutes")
        else:
            writer = writer.outputMode("append" if request["pipeline"] == "join" else "update")
        self.query = writer.start()
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.query.isActive and time.monotonic() < deadline and not self.waits():
            time.sleep(0.1)
        time.sleep(SETTLE_SECONDS)
        if not self.query.isActive or not self.waits():
            raise RuntimeError(self.ended() or f"the query does not begin: {self.query.status}")
        return "started", {}

    def waits(self):
        """The query is past its begin: it waits for records, or its batch of five minutes runs."""
        message = self.query.status["message"]
        return "Waiting" in message or "Processing" in message or "Running" in message or self.query.recentProgress

    def check(self, _request):
        if not self.query.isActive:
            raise RuntimeError(self.ended() or "the query ended by itself")
        return "runs", {}

    def stop(self, request):
        try:
            self.check(request)
        finally:
            self.query.stop()
        return "stopped", {}

    def ended(self):
        exception = self.query.exception()
        return str(exception) if exception else None

    def read(self, request, number=0):
        """Records of a topic with their times."""
        return (
            self.session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", request["servers"])
            .option("subscribe", request["from"][number])
            .option("startingOffsets", "earliest")
            .load()
            .select(f.from_json(f.col("value").cast("string"), "id BIGINT, sent BIGINT").alias("v"), f.col("timestamp").alias("ts"))
            .select("v.id", "v.sent", "ts")
        )

    def stateless(self, request):
        return self.read(request).where("id >= 0").select("id", "sent")

    def windowed_count(self, request):
        groups = self.read(request).withWatermark("ts", WATERMARK).groupBy(f.window("ts", "1 minute"), (f.col("id") % 1000).alias("k"))
        counts = groups.agg(f.count("*").alias("n"), f.max("sent").alias("sent"))
        return counts.select(f.col("window.start").cast("string").alias("window_start"), "k", "n", "sent")

    def deduplication(self, request):
        rows = self.read(request).withWatermark("ts", WATERMARK)
        rows = rows.withColumn("id", f.expr("CASE WHEN id % 5 = 4 THEN id - 1 ELSE id END"))
        # Real-time mode has only the one that never forgets.
        rows = rows.dropDuplicates(["id"]) if self.is_real_time else rows.dropDuplicatesWithinWatermark(["id"])
        return rows.select("id", "sent")

    def join(self, request):
        a, b = (self.read(request, n).withWatermark("ts", WATERMARK).alias(name) for n, name in enumerate("ab"))
        within = "a.id = b.id AND b.ts BETWEEN a.ts - INTERVAL 5 SECONDS AND a.ts + INTERVAL 5 SECONDS"
        return a.join(b, f.expr(within)).selectExpr("a.id", "greatest(a.sent, b.sent) AS sent")

    def keyed_state(self, request):
        if self.cannot_compile:
            raise RuntimeError(self.cannot_compile)
        rows = self.read(request).withWatermark("ts", WATERMARK).selectExpr("id % 50000 AS k", "sent", "ts")
        functions = self.jvm.KeyedCount
        provider = "spark.sql.streaming.stateStore.providerClass"
        if not self.is_real_time:
            return DataFrame(functions.flatMapGroupsWithState(rows._jdf), self.session)
        self.session.conf.set(provider, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
        return DataFrame(functions.transformWithState(rows._jdf), self.session)


PIPELINES = {
    "stateless": Spark.stateless,
    "windowed-count": Spark.windowed_count,
    "deduplication": Spark.deduplication,
    "join": Spark.join,
    "keyed-state": Spark.keyed_state,
}


def compiled(scratch):
    """The folder of the state function's classes, and why there are none."""
    folder = os.path.join(scratch, "classes")
    os.makedirs(folder, exist_ok=True)
    jars = os.path.join(os.path.dirname(pyspark.__file__), "jars", "*")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "KeyedCount.java")
    home = os.environ.get("JAVA_HOME")
    javac = os.path.join(home, "bin", "javac") if home else "javac"
    try:
        said = subprocess.run([javac, "-nowarn", "-cp", jars, "-d", folder, source], capture_output=True, text=True)
    except OSError as error:
        return folder, f"the state function is in Java and there is no compiler: {error}"
    return folder, None if said.returncode == 0 else f"the state function does not compile: {said.stderr}"


def serve(spark):
    # Spark prints to stdout what it likes; the protocol keeps the real one to itself.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        ((name, request),) = json.loads(line).items()
        try:
            answer = dict([getattr(spark, name)(request)])
        except Exception as error:  # whatever Spark raises is its answer
            print(error, file=sys.stderr, flush=True)
            answer = {"failed": {"message": first_lines(str(error))}}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def first_lines(text, lines=4, characters=600):
    return "\n".join(text.strip().splitlines()[:lines])[:characters] or "no message"


serve(Spark())
