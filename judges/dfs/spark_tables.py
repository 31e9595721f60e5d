"""Runs in PySpark's own Python: writes the tables of TPC-H to a directory of `hdfs://`, some of them partitioned, or answers
queries over tables that are there.

Usage: spark_tables.py write LOCAL TARGET PARTITIONS    spark_tables.py read FOLDER OUT QUERY…
"""

import json
import pathlib
import sys

from pyspark.sql import SparkSession


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("yeoul-judge")
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        # A second attempt would hide what failed in the first one.
        "spark.task.maxFailures": "1",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def write(local: str, target: str, partitions: dict):
    spark = session()
    for path in sorted(pathlib.Path(local).glob("*.parquet")):
        writer = spark.read.parquet(str(path)).write.mode("overwrite")
        if path.stem in partitions:
            writer = writer.partitionBy(partitions[path.stem])
        writer.parquet(f"{target}/{path.stem}")


def read(tables: dict, out: str, queries: list[str]):
    spark = session()
    for name, place in tables.items():
        spark.read.parquet(place).createOrReplaceTempView(name)
    answers = {}
    for query in map(pathlib.Path, queries):
        rows = []
        text = query.read_text().replace("create view", "create or replace temporary view")
        lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        for statement in filter(str.strip, lines.split(";")):
            frame = spark.sql(statement)
            if frame.columns:
                rows = [list(map(str, row)) for row in frame.collect()]
        answers[query.stem] = rows
    pathlib.Path(out).write_text(json.dumps(answers))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
    else:
        read(json.loads(sys.argv[2]), sys.argv[3], sys.argv[4:])
