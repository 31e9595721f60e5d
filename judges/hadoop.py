"""Hadoop's servers and clients at a pinned version, from Maven, for the judges that need them."""

import os
import pathlib
import subprocess
import zipfile

from harness import CACHE

HADOOP = "3.4.2"


def hadoop() -> pathlib.Path:
    """The folder with Hadoop's servers, clients and their dependencies in `lib`."""
    folder = CACHE / f"hadoop-{HADOOP}"
    dependencies = [
        ("org.apache.hadoop", "hadoop-minicluster", HADOOP),
        ("junit", "junit", "4.13.2"),
        ("org.mockito", "mockito-core", "2.28.2"),
        ("org.assertj", "assertj-core", "3.12.2"),
    ]
    parts = [
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in dependencies
    ]
    pom = (
        "<project><modelVersion>4.0.0</modelVersion><groupId>judge</groupId><artifactId>judge</artifactId>"
        f"<version>1</version><dependencies>{''.join(parts)}</dependencies></project>"
    )
    stamp = folder / "complete"
    if not stamp.exists() or stamp.read_text() != pom:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(pom)
        maven = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        subprocess.run(maven, cwd=folder, check=True)
        stamp.write_text(pom)
    return folder


LOG = """log4j.rootLogger=WARN,stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%p %c{1}: %m%n
"""


def configuration() -> pathlib.Path:
    """A folder for the class path: no settings, and the log on stderr, where it does not mix with what a client prints."""
    folder = CACHE / f"hadoop-{HADOOP}" / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    empty = "<configuration></configuration>\n"
    for name, text in [("core-site.xml", empty), ("hdfs-site.xml", empty), ("log4j.properties", LOG)]:
        path = folder / name
        # A client of another judge may be reading it.
        if not path.exists() or path.read_text() != text:
            new = folder / f"{name}.{os.getpid()}"
            new.write_text(text)
            new.replace(path)
    return folder


def class_path() -> str:
    """What Java needs to run Hadoop."""
    lib = hadoop() / "lib"
    return f"{configuration()}:{lib}/*"


def test_sources() -> pathlib.Path:
    """The folder with the scenarios of Hadoop's own tests and the files that they need, from its jars of test sources."""
    folder = CACHE / f"hadoop-{HADOOP}" / "test-sources"
    stamp = folder / "complete"
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ["hadoop-hdfs", "hadoop-common"]:
            artifact = f"org.apache.hadoop:{name}:{HADOOP}:jar:test-sources"
            maven = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", "-DoutputDirectory=."]
            subprocess.run(maven, cwd=folder, check=True)
            with zipfile.ZipFile(folder / f"{name}-{HADOOP}-test-sources.jar") as jar:
                # Settings of Hadoop's own tests, and sources, are of no use here.
                wanted = [entry for entry in jar.namelist() if "/" not in entry and entry.startswith(("test", "data"))]
                jar.extractall(folder, wanted)
        stamp.touch()
    return folder


def distcp() -> pathlib.Path:
    """The jar of `hadoop distcp`, which is not among the dependencies of Hadoop's servers and clients."""
    jar = CACHE / f"hadoop-{HADOOP}" / "distcp" / f"hadoop-distcp-{HADOOP}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        artifact = f"org.apache.hadoop:hadoop-distcp:{HADOOP}"
        maven = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", "-DoutputDirectory=."]
        subprocess.run(maven, cwd=jar.parent, check=True)
    return jar
