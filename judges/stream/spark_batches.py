"""Runs in PySpark's own Python: answers the cases of `spark_cases.py` batch by batch.

Usage: spark_batches.py FOLDER    reads cases.json there, writes an answer for each, <number>.json
"""

import concurrent.futures
import datetime
import json
import pathlib
import sys
import time
import traceback

import spark_cases
import spark_functions
from pyspark.sql import SparkSession

# Queries at the same time: what a batch waits for is mostly the driver and the checkpoint's files.
AT_ONCE = 2


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("yeoul-judge")
    settings = {
        "spark.driver.memory": "1g",
        # It does not live long enough for the better compiler.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Rows of a file keep their order, by which `first` and lists go.
        "spark.sql.shuffle.partitions": "1",
        # Compiling each query anew takes longer than its few rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def plain(value):
    """Times, which Python has in the zone of the process (UTC), as text with a zone; also those in lists."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.replace(tzinfo=datetime.timezone.utc).isoformat() if isinstance(value, datetime.datetime) else value


def frame_of(spark: SparkSession, steps: list):
    """The last of some steps: each is a query, a query with the name of a view for those after it, or a call of an operator that SQL does not have."""
    frame = None
    for step in steps:
        if isinstance(step, str):
            frame = spark.sql(step)
        elif isinstance(step, list):
            spark.sql(step[1]).createOrReplaceTempView(step[0])
        elif "function" in step:
            frame = spark_functions.apply(spark.table(step["of"]), step["function"], step["seconds"])
        else:
            frame = spark.table(step["of"])
            frame = frame.dropDuplicatesWithinWatermark(step["keys"]) if step["within"] else frame.dropDuplicates(step["keys"])
            if "as" in step:
                frame.createOrReplaceTempView(step["as"])
    return frame


def answer(spark: SparkSession, folder: pathlib.Path, case: dict) -> dict:
    """Rows of each batch, before and after the restart."""
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", case["policy"])
    spark.conf.set("spark.sql.session.timeZone", case["zone"])
    batches, columns = {}, []

    def record(batch, number):
        rows = [[plain(value) for value in row] for row in batch.collect()]
        assert number not in batches, f"batch {number} came twice"
        batches[number] = rows

    for phase in range(1 + case["has_restart"]):
        spark_cases.write_files(folder / "in", case, phase)
        for name, stream in case["streams"].items():
            frame = spark.readStream.schema(spark_cases.SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in" / name))
            frame = frame.withWatermark("ts", stream["delay"]) if stream["delay"] else frame
            frame.createOrReplaceTempView(name)
        frame = frame_of(spark, case["spark"])
        columns = frame.columns
        writer = frame.writeStream.foreachBatch(record).outputMode(case["mode"]).trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / "spark-checkpoint")).start().awaitTermination()
    assert sorted(batches) == list(range(len(batches))), batches.keys()
    return {"columns": columns, "batches": [batches[number] for number in range(len(batches))]}


def answer_or_refusal(spark: SparkSession, folder: pathlib.Path, number: str, case: dict):
    began = time.monotonic()
    try:
        found = answer(spark.newSession(), folder / number, case)
    except Exception as error:  # What Spark says is the answer.
        found = {"error": str(error), "kind": type(error).__name__, "trace": traceback.format_exc()[-3000:]}
    found["seconds"] = time.monotonic() - began
    (folder / f"{number}.json").write_text(json.dumps(found))


def main():
    folder = pathlib.Path(sys.argv[1])
    spark = session()
    cases = json.loads((folder / "cases.json").read_text())
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda item: answer_or_refusal(spark, folder, *item), cases.items()))
    spark.stop()


if __name__ == "__main__":
    main()
