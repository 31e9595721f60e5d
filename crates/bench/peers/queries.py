"""Prints the query texts of a suite as JSON, out of the extension packages for DuckDB that carry them."""

import glob
import importlib
import json
import os
import sys

import duckdb

suite = sys.argv[1]
package = importlib.import_module(f"duckdb_extension_{suite}")
pattern = os.path.join(os.path.dirname(package.__file__), "extensions", "*", f"{suite}.duckdb_extension")
found = glob.glob(pattern)
if len(found) != 1:
    sys.exit(f"expected one file {pattern}, found {len(found)}")
connection = duckdb.connect(":memory:", config={"allow_unsigned_extensions": "true"})
connection.execute("LOAD '" + found[0].replace("'", "''") + "'")
rows = connection.execute(f"SELECT query_nr, query FROM {suite}_queries() ORDER BY query_nr").fetchall()
json.dump([{"number": number, "sql": sql} for number, sql in rows], sys.stdout)
