"""Shared by the scripts that run inside Spark's or Sail's own Python."""

import collections.abc
import pathlib
import time

from pyspark.sql import SparkSession


def session(conf: dict, tables: str) -> SparkSession:
    """A session with these settings, and a view of each table of a folder."""
    builder = SparkSession.builder.appName("yeoul-judge")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    make_views(spark, tables)
    return spark


def make_views(spark: SparkSession, tables: str):
    for table in sorted(pathlib.Path(tables).glob("*.parquet")):
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)


def last_rows(spark: SparkSession, query: pathlib.Path) -> list:
    """The rows of a file's last statement that returns columns."""
    rows = []
    for statement in statements(query.read_text()):
        frame = spark.sql(statement)
        if frame.columns:
            rows = frame.collect()
    return rows


def statements(text: str) -> list[str]:
    """The statements of a file of queries; their views become temporary ones of the session."""
    lines = text.replace("create view", "create or replace temporary view").splitlines()
    code = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
    return [part for part in code.split(";") if part.strip()]


def outcome(work: collections.abc.Callable[[], list]) -> dict:
    """The rows of a job, or its error if it fails, and the seconds that it took."""
    begin = time.monotonic()
    try:
        result = {"rows": work()}
    except Exception as error:
        result = {"error": str(error)[:4000]}
    return result | {"seconds": round(time.monotonic() - begin, 3)}
