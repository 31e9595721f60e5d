"""The outside clients, at pinned versions, fetched by name through Maven and pip into a cache."""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import CACHE, venv  # `venv` is for those who import this

CELEBORN_CLIENT = "org.apache.celeborn:celeborn-client-spark-3-shaded_2.12:0.5.4"
JARS = [
    CELEBORN_CLIENT,
    "org.scala-lang:scala-library:2.12.18",
    "org.slf4j:slf4j-api:1.7.36",
    "org.lz4:lz4-java:1.8.0",
    "com.github.luben:zstd-jni:1.5.5-4",
]
# Folders with what is made of these jars have it in their names: with other versions, no jar or class of the old ones is used.
VERSIONS = hashlib.sha256("\n".join(JARS).encode()).hexdigest()[:12]
SPARK = ["pyspark==3.5.9", "tpchgen-cli==4.0.0"]
SAIL = ["pysail==0.7.2", "pyspark-client==4.2.0", "tpchgen-cli==4.0.0"]


# How many queries there are of each suite.
QUERIES = {"tpch": 22, "tpcds": 99}


def queries(suite: str = "tpch") -> list[str]:
    """The queries of TPC-H or TPC-DS that come with Sail's package."""
    site = venv("sail", SAIL).parent / "lib"
    found = list(site.glob(f"*/site-packages/pysail/data/{suite}/queries/q*.sql"))
    if len(found) != QUERIES[suite]:
        raise SystemExit(f"{len(found)} of {QUERIES[suite]} queries of {suite} are in {site}")
    return [str(path) for path in sorted(found, key=lambda path: int(re.sub(r"\D", "", path.stem)))]


def jars() -> pathlib.Path:
    """The folder with the jars of the stock client and of its dependencies."""
    folder = CACHE / f"jars-celeborn-{VERSIONS}"
    for jar in JARS:
        _, artifact, version = jar.split(":")
        if not (folder / f"{artifact}-{version}.jar").exists():
            maven = ["mvn", "-q", "-B"]
            subprocess.run([*maven, "dependency:get", f"-Dartifact={jar}", "-Dtransitive=false"], check=True)
            subprocess.run([*maven, "dependency:copy", f"-Dartifact={jar}", f"-DoutputDirectory={folder}"], check=True)
    return folder


def client_jar() -> pathlib.Path:
    _, artifact, version = CELEBORN_CLIENT.split(":")
    return jars() / f"{artifact}-{version}.jar"


def compiled(source: pathlib.Path) -> pathlib.Path:
    """The folder with the classes of a Java judge, compiled against the client."""
    folder = CACHE / f"classes-celeborn-{VERSIONS}"
    target = folder / f"{source.stem}.class"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["javac", "-cp", f"{jars()}/*", "-d", folder, source], check=True)
    return folder


def agent(source: pathlib.Path) -> pathlib.Path:
    """The jar with a Java agent, a class without a package."""
    folder, name = compiled(source), source.stem
    manifest, jar = folder / f"{name}.mf", folder / f"{name}.jar"
    manifest.write_text(f"Premain-Class: {name}\n")
    classes = [found.name for found in sorted(folder.glob(f"{name}*.class"))]
    subprocess.run(["jar", "cfm", jar, manifest, *classes], cwd=folder, check=True)
    return jar


def tpch(scale: float) -> pathlib.Path:
    """TPC-H tables as Parquet, one file a table."""
    folder = CACHE / f"tpch-{scale:g}"
    if not (folder / "lineitem.parquet").exists():
        tool = venv("spark", SPARK) / "tpchgen-cli"
        # Several judges may begin at once: the first to finish wins.
        making = pathlib.Path(tempfile.mkdtemp(prefix="tpch-", dir=CACHE))
        subprocess.run([tool, "parquet", "-s", f"{scale:g}", f"--output-dir={making}"], check=True)
        try:
            making.rename(folder)
        except OSError:
            shutil.rmtree(making)
    return folder
