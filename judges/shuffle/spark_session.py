"""What the scripts share that run inside Spark's own Python."""

import pathlib

from pyspark.sql import SparkSession


def session(conf: dict, tables: str) -> SparkSession:
    """A session with these settings, and a view of each table of a folder."""
    builder = SparkSession.builder.appName("yeoul-judge")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    for table in sorted(pathlib.Path(tables).glob("*.parquet")):
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)
    return spark


def statements(text: str) -> list[str]:
    """The statements of a file of queries; a view of theirs is for the session."""
    lines = [line for line in text.replace("create view", "create or replace temporary view").splitlines()]
    code = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
    return [part for part in code.split(";") if part.strip()]
