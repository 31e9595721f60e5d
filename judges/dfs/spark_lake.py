"""Runs in PySpark's own Python: a stream of files with its checkpoint and its files on `hdfs://`, or appends to a table of Delta that
many threads make at a time. It says on stdout how far it is, and what is there in the end as one line of JSON.

Usage: spark_lake.py stream BASE BATCHES    spark_lake.py delta BASE WAVES APPENDS JAR…
"""

import concurrent.futures
import json
import sys

from pyspark.sql import SparkSession

# Rows of a batch of the stream; the first of them were in the batch before.
ROWS, REPEATED = 1000, 100
# Rows of an append.
APPENDED = 500


def session(more: dict) -> SparkSession:
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        # A second attempt would hide what failed in the first one.
        "spark.task.maxFailures": "1",
        # The client tries a call again that a NameNode did not live to answer.
        "spark.hadoop.dfs.client.retry.policy.enabled": "true",
        "spark.hadoop.dfs.client.retry.policy.spec": "500,80",
    }
    builder = SparkSession.builder.master("local[4]").appName("yeoul-judge")
    for key, value in (settings | more).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def say(what: str):
    print(what, flush=True)


def stream(base: str, batches: int):
    """Each row once, though some come twice: what has come is in the state, which is in the checkpoint."""
    spark = session({})

    def begin():
        rows = spark.readStream.schema("id long, text string").json(f"{base}/in").dropDuplicates(["id"])
        return rows.writeStream.format("parquet").option("path", f"{base}/out").option("checkpointLocation", f"{base}/checkpoint").start()

    spark.sparkContext._jvm.org.apache.hadoop.fs.Path(f"{base}/in").getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).mkdirs(
        spark.sparkContext._jvm.org.apache.hadoop.fs.Path(f"{base}/in")
    )
    query = begin()
    for batch in range(batches):
        say(f"batch {batch}")
        first = max(0, batch * ROWS - REPEATED)
        rows = spark.range(first, (batch + 1) * ROWS, numPartitions=2).selectExpr("id", "concat('row ', id) AS text")
        rows.write.mode("append").json(f"{base}/in")
        query.processAllAvailable()
        if batch == batches // 2:
            # It goes on from its checkpoint.
            query.stop()
            query = begin()
    query.stop()
    out = spark.read.parquet(f"{base}/out")
    wrong = out.where("text <> concat('row ', id)").count()
    say(json.dumps({"rows": out.count(), "ids": out.select("id").distinct().count(), "wrong": wrong}))


def delta(base: str, waves: int, appends: int, jars: list[str]):
    """Each append is a version of the table."""
    extension, catalog = "io.delta.sql.DeltaSparkSessionExtension", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    more = {"spark.jars": ",".join(jars), "spark.sql.extensions": extension, "spark.sql.catalog.spark_catalog": catalog}
    spark, table = session(more), f"{base}/table"

    def append(number: int):
        rows = spark.range(number * APPENDED, (number + 1) * APPENDED, numPartitions=1).selectExpr("id", f"{number} AS append")
        rows.write.format("delta").mode("append").save(table)

    append(0)
    for wave in range(waves):
        say(f"wave {wave}")
        with concurrent.futures.ThreadPoolExecutor(appends) as threads:
            for ended in [threads.submit(append, 1 + wave * appends + number) for number in range(appends)]:
                ended.result()
    found = spark.read.format("delta").load(table)
    versions = sorted(row.version for row in spark.sql(f"DESCRIBE HISTORY delta.`{table}`").select("version").collect())
    say(json.dumps({"rows": found.count(), "ids": found.select("id").distinct().count(), "versions": versions}))


if __name__ == "__main__":
    if sys.argv[1] == "stream":
        stream(sys.argv[2], int(sys.argv[3]))
    else:
        delta(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
