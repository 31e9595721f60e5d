"""DataFusion as it comes from PyPI, with its defaults: the engine that ours is built on, without what we add."""

import os

import datafusion

import contestant_loop


class DataFusion:
    def open(self, request):
        runtime = datafusion.RuntimeEnvBuilder().with_temp_file_path(request["scratch"])
        if request["memory_bytes"]:
            runtime = runtime.with_fair_spill_pool(int(request["memory_bytes"]))
        config = datafusion.SessionConfig().with_target_partitions(int(request["threads"]))
        self.context = datafusion.SessionContext(config, runtime)
        for table in request["tables"]:
            self.context.register_parquet(table, os.path.join(request["data"], table + ".parquet"))
        return {
            "version": f"DataFusion {datafusion.__version__}",
            "pids": [os.getpid()],
            "dialect": {"nulls": "largest", "integer_division": True},
        }

    def run(self, sql, _dialect):
        frame = self.context.sql(sql)
        # The stream's batches know nullability better than the plan does; only an empty answer needs the plan's schema.
        batches = (batch.to_pyarrow() for batch in frame.execute_stream())
        first = next(batches, None)
        if first is None:
            return frame.schema(), iter(())
        return first.schema, chain(first, batches)

    def kind_of(self, error):
        text = str(error)
        if "Resources exhausted" in text or isinstance(error, MemoryError):
            return "resource_exhausted"
        if "SQL error" in text or "Schema error" in text or "Error during planning" in text:
            return "invalid"
        return "internal"


def chain(first, rest):
    yield first
    yield from rest


contestant_loop.serve(DataFusion())
