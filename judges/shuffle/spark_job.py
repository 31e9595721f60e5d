"""Runs inside Spark's own Python: named jobs, each answered by rows or by a digest, written as JSON lines.

Usage: spark_job.py OUT TABLES CONF.json JOB…
"""

import json
import pathlib
import sys
import time

from pyspark.sql import functions as F

from spark_session import last_rows, outcome, session


def digest(frame, plan_has: str = ""):
    """The number of rows and a sum of their hashes, whatever their order; the plan that ran must contain `plan_has`."""
    # A decimal sum does not overflow where a bigint one would.
    hashed = frame.select(F.xxhash64(*frame.columns).cast("decimal(38,0)").alias("h"))
    summed = hashed.agg(F.count("*"), F.sum("h"))
    row = summed.collect()[0]
    plan = summed._jdf.queryExecution().executedPlan().toString()
    assert plan_has in plan, f"the plan has no '{plan_has}':\n{plan}"
    return [str(value) for value in row]


def tpch(spark, query: str):
    return sorted(str(tuple(row)) for row in last_rows(spark, pathlib.Path(query)))


def numbers(spark, count, parts=8):
    return spark.range(0, count, 1, parts)


def thousand_partitions(spark):
    return digest(numbers(spark, 400_000).selectExpr("id", "id % 977 as k", "cast(id as string) as s").repartition(1000, "k"))


def group_by(spark):
    return digest(numbers(spark, 5_000_000).groupBy((F.col("id") * 7919 % 1_000_003).alias("k")).agg(F.sum("id"), F.count("*")))


def skew_join(spark):
    """One key has most rows; thresholds are lowered so that adaptive execution splits its partition by map range."""
    for key, value in {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1m",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1m",
    }.items():
        spark.conf.set(key, value)
    left = numbers(spark, 2_000_000).selectExpr("if(id % 10 < 8, 7, id % 1000) as k", "id as a", "sha2(cast(id as string), 256) as s")
    right = numbers(spark, 1_000).selectExpr("id as k", "id * 3 as b")
    result = digest(left.join(right, "k"), plan_has="skewed")
    for key in ["spark.sql.autoBroadcastJoinThreshold", "spark.sql.adaptive.advisoryPartitionSizeInBytes"]:
        spark.conf.unset(key)
    return result


def local_reader(spark):
    """A sort merge join that adaptive execution turns into a broadcast, so that the shuffle is read by map range."""
    # Statistics must not make it a broadcast before it runs.
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    spark.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "10m")
    left = numbers(spark, 1_000_000).selectExpr("id % 5000 as k", "id as a", "md5(cast(id as string)) as s")
    right = numbers(spark, 200_000).selectExpr("id % 5000 as k", "id as b").where("b < 300").repartition(20, "k")
    result = digest(left.join(right, "k"), plan_has="AQEShuffleRead local")
    for key in ["spark.sql.autoBroadcastJoinThreshold", "spark.sql.adaptive.autoBroadcastJoinThreshold"]:
        spark.conf.unset(key)
    return result


def large_rows(spark):
    rows = numbers(spark, 3_000).selectExpr("id", "id % 50 as k", "repeat(sha2(cast(id as string), 512), 800) as s")
    return digest(rows.repartition(20, "k"))


def hot_partition(spark):
    """Everything in one partition, a kilobyte a row, which no codec makes much smaller."""
    size = int(spark.conf.get("spark.judge.hotRows", "400000"))
    hashes = ", ".join(f"sha2(concat(id, '-{part}'), 512)" for part in range(8))
    rows = numbers(spark, size, 16).selectExpr("id", "1 as k", f"concat({hashes}) as s")
    return digest(rows.repartition(8, "k"))


def sort_by_key(spark):
    pairs = spark.sparkContext.parallelize(range(300_000), 8).map(lambda i: ((i * 7919) % 300_007, str(i)))
    keys = pairs.sortByKey(numPartitions=20).keys().collect()
    assert keys == sorted(keys), "sortByKey is not sorted"
    return [str(len(keys)), str(hash(tuple(keys)))]


def cached_and_read_again(spark):
    """One shuffle, read by three jobs; the second caches what it reads, and the cache is dropped before the third."""
    rdd = spark.sparkContext.parallelize(range(200_000), 8).map(lambda i: (i % 1000, i)).reduceByKey(lambda a, b: a + b, 16)
    first = sorted(rdd.collect())
    cached = rdd.map(lambda pair: pair).cache()
    second = sorted(cached.collect())
    cached.unpersist(blocking=True)
    third = sorted(rdd.filter(lambda pair: pair[0] % 2 == 0).collect())
    assert first == second and third == [pair for pair in first if pair[0] % 2 == 0]
    return [str(len(first)), str(sum(value for _, value in first))]


def executors_leave(spark):
    """With dynamic allocation, a shuffle is read again by executors that came after all that wrote it had left."""
    written = spark.sparkContext.accumulator(0)

    def write(i):
        written.add(1)
        return i % 1000, i

    rdd = spark.sparkContext.parallelize(range(200_000), 8).map(write).reduceByKey(lambda a, b: a + b, 16)
    first = sorted(rdd.collect())
    if spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        deadline = time.monotonic() + 60
        # The driver counts as one.
        while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() > 1:
            assert time.monotonic() < deadline, "the executors stay"
            time.sleep(0.1)
        assert sorted(rdd.collect()) == first
        assert written.value == 200_000, f"{written.value} records were written: the shuffle left with its executors"
    return [str(len(first)), str(sum(value for _, value in first))]


def speculation(spark):
    """Two map tasks stand still on their first attempt, when they have pushed most of their rows. With `spark.speculation` second
    attempts win, and what the first ones pushed counts for nothing."""
    winners = spark.sparkContext.accumulator(0)

    def slow(index, rows):
        from pyspark import TaskContext

        attempt = TaskContext.get().attemptNumber()
        if index < 2:
            winners.add(attempt)
        for at, row in enumerate(rows):
            if index < 2 and attempt == 0 and at == 20_000:
                time.sleep(20)
            yield row % 5000, str(row) * 30

    pairs = spark.sparkContext.parallelize(range(400_000), 16).mapPartitionsWithIndex(slow)
    lengths = pairs.partitionBy(16).map(lambda pair: len(pair[1])).collect()
    if spark.conf.get("spark.speculation", "false") == "true":
        assert winners.value == 2, f"{winners.value} second attempts won, not 2"
    return [str(len(lengths)), str(sum(lengths))]


def long_shuffle(spark):
    """A job for faults to happen in: shuffles that are written and read for about a minute, with pauses in between, so that
    several such jobs fit on a machine."""
    results = []
    count = int(spark.conf.get("spark.judge.rows", "480000"))
    for turn in range(int(spark.conf.get("spark.judge.turns", "2"))):
        pause = f"if({{}} % {count // 480} = 0, reflect('java.lang.Thread', 'sleep', 60L), '')"
        rows = numbers(spark, count, 12).selectExpr(
            f"id * {turn + 1} as id",
            "id * 7919 % 100003 as k",
            "concat(sha2(cast(id as string), 512), sha2(cast(-id as string), 512)) as s",
            f"{pause.format('id')} as w",
        )
        # Half of the pauses come while map tasks push, half while reduce tasks read.
        read = rows.repartition(12, "k").selectExpr("*", f"{pause.format('id')} as x")
        grouped = read.repartition(12, "s").groupBy("k").agg(F.sum("id"), F.max("s"), F.max("w"), F.max("x"), F.count("*"))
        results += digest(grouped)
    return results


JOBS = [thousand_partitions, group_by, skew_join, local_reader, large_rows, hot_partition, sort_by_key]
JOBS += [cached_and_read_again, executors_leave, speculation, long_shuffle]


def main():
    out, tables, conf, *wanted = sys.argv[1:]
    spark = session(json.loads(conf), tables)
    jobs = {job.__name__: job for job in JOBS}
    with open(out, "w") as results:
        for name in wanted:
            result = outcome(lambda: tpch(spark, name) if name.endswith(".sql") else jobs[name](spark))
            result["job"] = pathlib.Path(name).stem
            results.write(json.dumps(result) + "\n")
            results.flush()
    spark.stop()


main()
