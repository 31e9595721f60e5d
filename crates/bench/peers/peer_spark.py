"""Spark in local mode: driver and executor in one JVM, with its defaults but for threads, heap and the web page.

The heap is the memory limit, if there is one; what the JVM needs beyond its heap is on top, as for any user of Spark.
"""

import os
import sys

from pyspark.sql import SparkSession

import contestant_loop

# Without a limit: Spark's own default of 1 GiB makes it spill where the others do not.
HEAP_BYTES_DEFAULT = 8 << 30


class Spark:
    def open(self, request):
        heap = int(request["memory_bytes"] or min(HEAP_BYTES_DEFAULT, physical_memory() // 2))
        self.session = (
            SparkSession.builder.master(f"local[{int(request['threads'])}]")
            .appName("yeoul bench")
            .config("spark.driver.memory", f"{heap >> 20}m")
            .config("spark.driver.bindAddress", "127.0.0.1")
            # It is stopped while others run, and must not take itself for dead after that.
            .config("spark.network.timeout", "100000s")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.local.dir", request["scratch"])
            .config("spark.sql.warehouse.dir", os.path.join(request["scratch"], "warehouse"))
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            # The query texts quote identifiers as the standard does.
            .config("spark.sql.ansi.enabled", "true")
            .config("spark.sql.ansi.doubleQuotedIdentifiers", "true")
            .config("spark.sql.execution.arrow.pyspark.enabled", "true")
            .getOrCreate()
        )
        for table in request["tables"]:
            path = os.path.join(request["data"], table + ".parquet")
            self.session.read.parquet(path).createOrReplaceTempView(table)
        jvm = self.session.sparkContext._gateway.jvm
        return {
            "version": f"Spark {self.session.version}",
            "pids": [int(jvm.java.lang.ProcessHandle.current().pid()), os.getpid()],
            "dialect": {"nulls": "smallest", "integer_division": False},
        }

    def run(self, sql, _dialect):
        frame = self.session.sql(sql.strip().rstrip(";"))
        table = frame.toDF(*(f"c{index}" for index in range(len(frame.columns)))).toArrow()
        return table.schema, table.to_batches()

    def jvm_lives(self):
        try:
            self.session.sparkContext._gateway.jvm.java.lang.System.nanoTime()
            return True
        except Exception:  # whatever the bridge says when its other end is gone
            return False

    def kind_of(self, error):
        if hasattr(self, "session") and not self.jvm_lives():
            # This process can do nothing more; a new one can.
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        text = str(error)
        if "OutOfMemoryError" in text or "UNABLE_TO_ACQUIRE_MEMORY" in text:
            return "resource_exhausted"
        if type(error).__name__ in ("ParseException", "AnalysisException"):
            return "invalid"
        return "internal"


def physical_memory():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


contestant_loop.serve(Spark())
