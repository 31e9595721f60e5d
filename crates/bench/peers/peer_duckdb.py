"""DuckDB as a contestant, and as the oracle whose answers the others are compared with."""

import os

import duckdb

import contestant_loop

# How a dialect's null order is called here.
NULL_ORDERS = {
    "last": "nulls_last",
    "largest": "nulls_last_on_asc_first_on_desc",
    "smallest": "nulls_first_on_asc_last_on_desc",
}


class DuckDb:
    def open(self, request):
        self.connection = duckdb.connect(":memory:")
        self.execute(f"SET threads = {int(request['threads'])}")
        self.execute(f"SET temp_directory = {quoted(request['scratch'])}")
        if request["memory_bytes"]:
            self.execute(f"SET memory_limit = '{int(request['memory_bytes'])}B'")
        for table in request["tables"]:
            path = os.path.join(request["data"], table + ".parquet")
            self.execute(f'CREATE VIEW "{table}" AS SELECT * FROM read_parquet({quoted(path)})')
        return {
            "version": f"DuckDB {duckdb.__version__}",
            "pids": [os.getpid()],
            "dialect": {"nulls": "last", "integer_division": False},
        }

    def run(self, sql, dialect):
        if dialect:
            self.execute(f"SET default_null_order = '{NULL_ORDERS[dialect['nulls']]}'")
            self.execute(f"SET integer_division = {str(bool(dialect['integer_division'])).lower()}")
        reader = self.connection.sql(sql).to_arrow_reader()
        return reader.schema, reader

    def kind_of(self, error):
        if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)):
            return "resource_exhausted"
        if isinstance(error, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)):
            return "invalid"
        return "internal"

    def execute(self, sql):
        self.connection.execute(sql)


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


contestant_loop.serve(DuckDb())
