"""Runs inside Sail's own Python: SQL files against a Spark Connect server, their rows written as JSON lines. A session whose id
REMOTE names goes on.

Usage: sail_job.py OUT TABLES REMOTE QUERY.sql…
"""

import json
import pathlib
import sys

from pyspark.sql import SparkSession

from spark_session import last_rows, make_views, outcome


def main():
    out, tables, remote, *queries = sys.argv[1:]
    spark = SparkSession.builder.remote(remote).getOrCreate()
    make_views(spark, tables)
    with open(out, "w") as results:
        for query in map(pathlib.Path, queries):
            result = outcome(lambda: sorted(str(tuple(row)) for row in last_rows(spark, query)))
            result["job"] = query.stem
            results.write(json.dumps(result) + "\n")
            results.flush()
    if "session_id=" not in remote:
        spark.stop()


main()
