"""Runs in PySpark's own Python: answers the cases of spark.py batch by batch.

Usage: spark_batches.py FOLDER    reads cases.json there, writes batches.json
"""

import datetime
import json
import pathlib
import sys

from pyspark.sql import SparkSession

SCHEMA = "k STRING, v BIGINT, d DOUBLE, ts TIMESTAMP"


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("yeoul-judge")
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        # Functions that are run on each row of a batch are ours to compare with, not to measure.
        "spark.sql.streaming.metricsEnabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def plain(value):
    """Times of a session in UTC, as text with a zone."""
    return value.replace(tzinfo=datetime.timezone.utc).isoformat() if isinstance(value, datetime.datetime) else value


def answer(spark: SparkSession, folder: pathlib.Path, case: dict) -> dict:
    for name, stream in case["streams"].items():
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / name))
        frame.withWatermark("ts", f"{stream['delay']} seconds").createOrReplaceTempView(name)
    frame = spark.sql(case["spark"])
    if "keys" in case:
        frame = frame.dropDuplicatesWithinWatermark(case["keys"]) if case["within"] else frame.dropDuplicates(case["keys"])
    batches = {}

    def record(batch, number):
        batches[number] = [{name: plain(value) for name, value in row.asDict().items()} for row in batch.collect()]

    writer = frame.writeStream.foreachBatch(record).outputMode(case["mode"]).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "spark-checkpoint")).start().awaitTermination()
    assert sorted(batches) == list(range(len(batches))), batches.keys()
    return {"columns": frame.columns, "batches": [batches[number] for number in range(len(batches))]}


def main():
    folder = pathlib.Path(sys.argv[1])
    spark, answers = session(), {}
    for number, case in json.loads((folder / "cases.json").read_text()).items():
        try:
            answers[number] = answer(spark, folder / number, case)
        except Exception as error:  # What Spark says is the answer.
            answers[number] = {"error": str(error)}
    (folder / "batches.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
