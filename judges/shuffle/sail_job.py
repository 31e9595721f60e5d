"""Runs inside Sail's own Python: SQL files against a Spark Connect server, their rows written as JSON lines.

Usage: sail_job.py OUT TABLES REMOTE QUERY.sql…
"""

import json
import pathlib
import sys
import time

from pyspark.sql import SparkSession


def main():
    out, tables, remote, *queries = sys.argv[1:]
    spark = SparkSession.builder.remote(remote).getOrCreate()
    for table in sorted(pathlib.Path(tables).glob("*.parquet")):
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)
    with open(out, "w") as results:
        for query in map(pathlib.Path, queries):
            begin = time.monotonic()
            try:
                rows = None
                for statement in query.read_text().replace("create view", "create or replace temporary view").split(";"):
                    if statement.strip():
                        frame = spark.sql(statement)
                        if frame.columns:
                            rows = sorted(str(tuple(row)) for row in frame.collect())
                result = {"rows": rows}
            except Exception as error:  # the outcome of a query that fails is its error
                result = {"error": str(error)[:4000]}
            result |= {"job": query.stem, "seconds": round(time.monotonic() - begin, 2)}
            results.write(json.dumps(result) + "\n")
            results.flush()
    spark.stop()


main()
