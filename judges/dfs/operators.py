"""What operators ask of a cluster, with Hadoop's own tools: `hdfs fsck` of whole, open, coded and lost files; the beans of `/jmx`;
`hdfs dfsadmin`; DataNodes that leave, are away for a while or are not let in, by files of hosts; the trash of users, which the NameNode empties.

Usage: operators.py [--short]    exits 1 if an answer is not what it must be
"""

import argparse
import contextlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from cluster import HERE, Findings, Servers, Shell
from hadoop import class_path
from harness import free_ports, page, wait_until
from writers import NO_CACHE

MIB = 1 << 20
DATANODES = 5
# Seconds within which the NameNode knows that a DataNode is gone for good, or back.
KNOWN_WITHIN = 60


class Cluster:
    """Servers, the shell of the user who may do everything, and where the NameNode's pages are."""

    def __init__(self, findings: Findings, servers: Servers, shell: Shell, http_port: int):
        self.findings, self.servers, self.shell, self.http_port = findings, servers, shell, http_port

    def says(self, what: str, arguments: list, code: int, *texts: str) -> str:
        """A command ends with this code, and prints these texts."""
        found, printed = self.shell(*arguments)
        text = printed.decode(errors="replace")
        self.findings.right(what, found == code and all(part in text for part in texts), f"{found} {text[-3000:]}")
        return text

    def until(self, what: str, arguments: list, code: int, *texts: str) -> str:
        """A command comes to end with this code, and to print these texts."""
        last = ""

        def is_so():
            nonlocal last
            found, printed = self.shell(*arguments)
            last = f"{found} {printed.decode(errors='replace')[-3000:]}"
            if found != code or any(part not in last for part in texts):
                raise OSError(last)
            return last

        try:
            wait_until(is_so, what, seconds=KNOWN_WITHIN)
            self.findings.right(what, True)
        except SystemExit:
            self.findings.right(what, False, last)
        return last

    def put(self, path: str, length: int, *settings: str) -> bytes:
        content = random.Random(path).randbytes(length)
        local = self.servers.folder / "content"
        local.write_bytes(content)
        code, printed = self.shell(*settings, "-put", "-f", local, path)
        self.findings.right(f"-put {path}", code == 0, printed)
        return content


def checks(cluster: Cluster, stranger: Shell):
    """`hdfs fsck` of what is whole, and what it refuses."""
    says, findings = cluster.says, cluster.findings
    says("fsck of nothing", ["fsck", "/"], 0, "Status: HEALTHY", " Total files:\t0\n", "The filesystem under path '/' is HEALTHY")
    says("-mkdir", ["-mkdir", "-p", "/whole/deep", "/coded", "/private"], 0)
    says("-setPolicy", ["ec", "-setPolicy", "-path", "/coded", "-policy", "RS-3-2-1024k"], 0)
    cluster.put("/whole/deep/file", 3 * MIB + 5, f"-Ddfs.blocksize={MIB}")
    cluster.put("/coded/file", 5 * MIB)
    report = says(
        "fsck -files -blocks -locations",
        ["fsck", "/", "-files", "-blocks", "-locations"],
        0,
        "/whole/deep <dir>\n",
        f"/whole/deep/file {3 * MIB + 5} bytes, replicated: replication=3, 4 block(s):  OK\n0. BP-",
        f"/coded/file {5 * MIB} bytes, erasure-coded: policy=RS-3-2-1024k, 1 block(s):  OK\n0. BP-",
        " Total blocks (validated):\t4 (avg. block size ",
        " Total block groups (validated):\t1 (avg. block group size 5242880 B)",
        f" Number of data-nodes:\t{DATANODES}\n Number of racks:\t\t2\n",
        "The filesystem under path '/' is HEALTHY",
    )
    places = report.count("DatanodeInfoWithStorage[127.0.0.1:")
    findings.right("each copy and each unit has its place", places == 4 * 3 + 5, report)
    says("fsck -racks", ["fsck", "/whole", "-files", "-blocks", "-racks"], 0, "[/rack", "/127.0.0.1:")
    says("fsck -replicaDetails", ["fsck", "/whole", "-files", "-blocks", "-replicaDetails"], 0, "DISK](LIVE)")
    says("fsck -storagepolicies", ["fsck", "/", "-storagepolicies"], 0, f" DISK:\t{4 * 3 + 5}\n")
    says("fsck -includeSnapshots", ["fsck", "/", "-includeSnapshots"], 0, "is HEALTHY")
    says("fsck -list-corruptfileblocks", ["fsck", "/", "-list-corruptfileblocks"], 0, "has 0 CORRUPT blocks")
    block = report.split("len=")[0].rsplit("blk_", 1)[1].split("_")[0]
    says("fsck -blockId", ["fsck", "-blockId", f"blk_{block}"], 0, f"Block Id: blk_{block}\nBlock belongs to: /", "is HEALTHY")
    says("fsck -blockId of nothing", ["fsck", "-blockId", "blk_5"], 0, "Block blk_5 does not exist")
    says("fsck of no path", ["fsck", "/none"], 0, "does not exist")
    says("fsck -replicate is refused", ["fsck", "/", "-replicate"], 255, "fsck -replicate is not supported by yeoul dfs", "FAILED")
    says("-chmod", ["-chmod", "700", "/private"], 0)
    code, printed = stranger("fsck", "/")
    findings.right("fsck of what somebody may not see", code == 255 and b"Permission denied: user=stranger" in printed, printed)
    code, printed = stranger("fsck", "/whole")
    findings.right("fsck of what somebody may see", code == 0 and b"is HEALTHY" in printed, printed)


def beans(cluster: Cluster):
    """Numbers as dashboards read them, and the same of each DataNode."""
    right = cluster.findings.right

    def bean(port: int, service: str, name: str) -> dict:
        [found] = json.loads(page(port, f"/jmx?qry=Hadoop:service={service},name={name}"))["beans"]
        return found

    state = bean(cluster.http_port, "NameNode", "FSNamesystemState")
    expected = {"NumLiveDataNodes": DATANODES, "NumDeadDataNodes": 0, "FSState": "Operational", "BlocksTotal": 5}
    right("FSNamesystemState", {key: state.get(key) for key in expected} == expected, state)
    system = bean(cluster.http_port, "NameNode", "FSNamesystem")
    right("FSNamesystem", system["CapacityTotal"] > 0 and system["MissingBlocks"] == 0 and system["tag.HAState"] == "active", system)
    right("NameNodeStatus", bean(cluster.http_port, "NameNode", "NameNodeStatus")["State"] == "active")
    live = json.loads(bean(cluster.http_port, "NameNode", "NameNodeInfo")["LiveNodes"])
    right("LiveNodes", len(live) == DATANODES and sum(node["numBlocks"] for node in live.values()) == 4 * 3 + 5, live)
    for name, node in live.items():
        port = int(node["infoAddr"].rsplit(":", 1)[1])
        dataset, info = (bean(port, "DataNode", one) for one in ["FSDatasetState", "DataNodeInfo"])
        is_it = info["DataPort"] == name.rsplit(":", 1)[1] and dataset["NumFailedVolumes"] == 0 and dataset["Capacity"] > 0
        right(f"beans of the DataNode {name}", is_it, (dataset, info))
    one = json.loads(page(cluster.http_port, "/jmx?get=Hadoop:service=NameNode,name=FSNamesystemState::FSState"))
    right("one attribute", one["beans"][0]["FSState"] == "Operational" and "BlocksTotal" not in one["beans"][0], one)


def administers(cluster: Cluster, stranger: Shell):
    """`hdfs dfsadmin`, but for what brings DataNodes in and out."""
    says, findings, folder = cluster.says, cluster.findings, cluster.servers.folder
    admin = ["dfsadmin"]
    ipc = {name: f"127.0.0.1:{words[words.index('--ipc-port') + 1]}" for name, words in cluster.servers.arguments.items() if name != "namenode"}
    says("-report", [*admin, "-report"], 0, f"Live datanodes ({DATANODES}):", "Decommission Status : Normal")
    says("-report -dead", [*admin, "-report", "-dead"], 0, "Configured Capacity:")
    says("-printTopology", [*admin, "-printTopology"], 0, "Rack: /rack0\n", "Rack: /rack1\n", "In Service")
    says("-saveNamespace without safe mode", [*admin, "-saveNamespace"], 255, "Safe mode should be turned ON in order to create namespace image.")
    says("-safemode enter", [*admin, "-safemode", "enter"], 0, "Safe mode is ON")
    before = {path.name for path in (folder / "namenode").glob("*")}
    says("-saveNamespace", [*admin, "-saveNamespace"], 0, "Save namespace successful")
    after = {path.name for path in (folder / "namenode").glob("*")}
    findings.right("a new image is there", bool(after - before), (before, after))
    says("-safemode forceExit", [*admin, "-safemode", "forceExit"], 0, "Safe mode is OFF")
    says("-metasave", [*admin, "-metasave", "mended"], 0, "Created metasave file mended")
    written = folder / "namenode" / "reports" / "mended"
    text = written.read_text() if written.exists() else ""
    findings.right("what -metasave wrote", f"Live Datanodes: {DATANODES}\n" in text and "Metasave: Blocks being reconstructed: 0\n" in text, text)
    says("-metasave elsewhere", [*admin, "-metasave", "../mended"], 255, "is no name of a file")
    says("-fetchImage", [*admin, "-fetchImage", folder], 255, "failed with status code 501")
    says("-setBalancerBandwidth", [*admin, "-setBalancerBandwidth", 7654321], 0, "Balancer bandwidth is set to 7654321")
    for name, address in ipc.items():
        cluster.until(f"-getBalancerBandwidth of {name}", [*admin, "-getBalancerBandwidth", address], 0, "Balancer bandwidth is 7654321 bytes per second.")
    one = ipc["datanode0"]
    says("-getDatanodeInfo", [*admin, "-getDatanodeInfo", one], 0, "Uptime: ", "Software version: yeoul")
    says("-getVolumeReport", [*admin, "-getVolumeReport", one], 0, "Active Volumes : 1")
    says("-triggerBlockReport", [*admin, "-triggerBlockReport", one], 0, "Triggering a full block report on")
    says("-triggerBlockReport -incremental", [*admin, "-triggerBlockReport", "-incremental", one], 0, "Triggering an incremental block report on")
    says("-evictWriters", [*admin, "-evictWriters", one], 0, "Requested writer eviction to datanode")
    for words in [["-metasave", "x"], ["-saveNamespace"], ["-setBalancerBandwidth", 1], ["-refreshNodes"], ["-evictWriters", one], ["-shutdownDatanode", one], ["-rollEdits"]]:
        code, printed = stranger(*admin, *words)
        is_refused = code == 255 and b"uperuser privilege is required" in printed
        findings.right(f"{words[0]} of a stranger", is_refused, (code, printed))
    process = cluster.servers.running.pop("datanode0")
    says("-shutdownDatanode", [*admin, "-shutdownDatanode", one], 0, "Submitted a shutdown request to datanode")
    findings.right("the DataNode ends", process.wait(timeout=30) == 0)
    cluster.servers.start("datanode0")
    cluster.until("the DataNode is back", [*admin, "-report", "-live"], 0, f"Live datanodes ({DATANODES}):")


def rolls(cluster: Cluster):
    """The journal goes on in a new file, and those before it stay as they are."""
    journal = cluster.servers.folder / "namenode"

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in journal.glob("journal*")}

    def roll() -> int:
        text = cluster.says("-rollEdits", ["dfsadmin", "-rollEdits"], 0, "Successfully rolled edit logs.\nNew segment starts at txid ")
        return int(text.split("starts at txid ")[1].split()[0])

    first = roll()
    closed = files()
    begun = [name for name in closed if int("".join(filter(str.isdigit, name)), 10) == first]
    cluster.findings.right("the new file is called after its first record", len(begun) == 1, (first, list(closed)))
    cluster.says("a change behind it", ["-mkdir", "/rolled"], 0)
    second = roll()
    now = files()
    is_kept = all(now.get(name) == content for name, content in closed.items() if name not in begun)
    cluster.findings.right("files before it do not change", is_kept and second > first and len(now) == len(closed) + 1, list(now))
    cluster.says("-safemode enter", ["dfsadmin", "-safemode", "enter"], 0, "Safe mode is ON")
    cluster.says("-rollEdits in safe mode", ["dfsadmin", "-rollEdits"], 255, "Log not rolled. Name node is in safe mode.")
    cluster.says("-safemode leave", ["dfsadmin", "-safemode", "leave"], 0, "Safe mode is OFF")
    cluster.servers.kill("namenode")
    cluster.servers.start("namenode")
    cluster.until("the NameNode reads all of them", ["-test", "-d", "/rolled"], 0)
    cluster.until("it knows all DataNodes again", ["dfsadmin", "-report", "-live"], 0, f"Live datanodes ({DATANODES}):")
    cluster.until("it is out of safe mode", ["dfsadmin", "-safemode", "get"], 0, "Safe mode is OFF")


def listings(cluster: Cluster, *paths: str) -> list[str]:
    """What `Listings.java` prints of these paths, and of files that cannot be read."""
    command = ["java", "-cp", class_path(), HERE / "Listings.java", cluster.servers.address, *paths]
    done = subprocess.run(command, capture_output=True, text=True)
    cluster.findings.right("directories are listed in batches", done.returncode == 0, done.stderr[-2000:])
    return sorted(done.stdout.splitlines())


def losses(cluster: Cluster, stranger: Shell):
    """`hdfs fsck` while the only DataNode of a file is gone."""
    cluster.put("/whole/single", MIB, "-Ddfs.replication=1")
    report = cluster.says("fsck of one copy", ["fsck", "/whole/single", "-files", "-blocks", "-locations"], 0, "Live_repl=1 ")
    port = report.split("DatanodeInfoWithStorage[127.0.0.1:")[1].split(",")[0]
    [name] = [name for name, arguments in cluster.servers.arguments.items() if name != "namenode" and port in arguments]
    cluster.servers.kill(name)
    lost = "/whole/single: MISSING 1 blocks of total size 1048576 B."
    cluster.until("fsck of what is lost", ["fsck", "/"], 1, lost, "Status: CORRUPT", "  MISSING BLOCKS:\t1\n", "is CORRUPT")
    cluster.says("fsck -list-corruptfileblocks", ["fsck", "/", "-list-corruptfileblocks"], 255, "\t/whole/single\n", "has 1 CORRUPT blocks")
    cluster.says("fsck of what is not lost", ["fsck", "/coded"], 0, "is HEALTHY")
    found = listings(cluster, "/whole", "/coded", "/none", "/coded/file")
    expected = {"corrupt /whole/single", "entry /coded/file", "entry /whole/deep", "entry /whole/single", "failed /none FileNotFoundException"}
    cluster.findings.right("what they have, and what is lost", set(found) == expected and found.count("entry /coded/file") == 2, found)
    internal = ["fsck encountered internal errors!", "FAILED"]
    code, printed = stranger("fsck", "/whole", "-delete")
    cluster.findings.right("fsck -delete of a stranger", code == 255 and all(text.encode() in printed for text in internal), (code, printed))
    cluster.says("the file is there still", ["-test", "-e", "/whole/single"], 0)
    cluster.says("fsck -delete", ["fsck", "/", "-delete"], 1, lost, "is CORRUPT")
    cluster.says("the file is gone", ["-test", "-e", "/whole/single"], 1)
    cluster.says("nothing else is lost", ["fsck", "/"], 0, "is HEALTHY")
    cluster.servers.start(name)
    cluster.until("fsck when it is back", ["fsck", "/"], 0, "Status: HEALTHY", "is HEALTHY")


def remains(cluster: Cluster, stranger: Shell):
    """`hdfs fsck -move` of a file whose third block is lost: what is left of it is in two files of /lost+found."""
    says, right, path = cluster.says, cluster.findings.right, "/whole/deep/remains"
    content = cluster.put(path, 4 * MIB + 5, f"-Ddfs.blocksize={MIB}", "-Ddfs.replication=1")
    says("-chmod", ["-chmod", "640", path], 0)
    coded = cluster.put("/coded/remains", 7 * MIB, f"-Ddfs.blocksize={MIB}")
    # A DataNode that has come back takes blocks before the NameNode has looked at it again, and counts what is there.
    cluster.until("fsck finds all of them", ["fsck", "/"], 0, "is HEALTHY")
    report = says("fsck of its blocks", ["fsck", "/", "-files", "-blocks"], 0)

    def block_of(path: str, number: int) -> str:
        return report.split(f"\n{path} ")[1].split(f"\n{number}. ")[1].split(":")[1].split()[0].rsplit("_", 1)[0]

    third, group = block_of(path, 2), int(block_of("/coded/remains", 0).removeprefix("blk_"))
    for name in [third, *[f"blk_{group + unit}" for unit in range(3)]]:
        [found] = [file for file in cluster.servers.block_files() if file.name == name]
        found.write_bytes(random.Random(name).randbytes(found.stat().st_size))
        found.write_bytes(found.read_bytes()[:-1])
    for lost in [path, "/coded/remains"]:
        code, _ = cluster.shell("-cat", lost)
        right(f"{lost} cannot be read", code != 0, code)
    cluster.until("fsck knows both", ["fsck", "/"], 1, "CORRUPT FILES:\t1", "is CORRUPT")
    code, printed = stranger("fsck", "/whole", "-move")
    right("fsck -move of a stranger", code == 255 and b"Superuser privilege is required" in printed, (code, printed))
    says("fsck -move", ["fsck", "/", "-move"], 1, f"{path}: ", "is CORRUPT")
    says("the file is there still", ["-test", "-e", path], 0)
    for piece, expected in [("0", content[: 2 * MIB]), ("1", content[3 * MIB :])]:
        code, got = cluster.shell.got(f"/lost+found{path}/{piece}", cluster.servers.folder / "got")
        right(f"piece {piece} has what is left", code == 0 and got == expected, (code, len(got)))
    code, got = cluster.shell.got("/lost+found/coded/remains/0", cluster.servers.folder / "got")
    right("what is left of a coded file", code == 0 and got == coded[3 * MIB :], (code, len(got)))
    listed = says("-ls of them", ["-ls", f"/lost+found{path}"], 0, "Found 2 items")
    right("they have the mode of the file", listed.count("-rw-r-----") == 2, listed)
    says("nothing else is there", ["-ls", "/lost+found"], 0, "Found 2 items")
    code, printed = stranger("-ls", f"/lost+found{path}")
    right("who may not read the file may not read them", code == 1 and b"Permission denied" in printed, printed)
    says("fsck -move again", ["fsck", "/whole", "-move", "-delete"], 255, f"'/lost+found{path}' is there already", "FAILED")
    says("the file is there still", ["-test", "-e", path], 0)
    says("the remains are moved away", ["-mv", "/lost+found/whole", "/lost+found/taken"], 0)
    says("fsck -move -delete", ["fsck", "/whole", "-move", "-delete"], 1, "is CORRUPT")
    says("the file is gone", ["-test", "-e", path], 1)
    says("fsck -delete", ["fsck", "/coded", "-delete"], 1, "is CORRUPT")
    says("all is well", ["fsck", "/"], 0, "is HEALTHY")


def transfer_address(servers: Servers, name: str) -> str:
    """Where a DataNode takes blocks, as a file of hosts names it."""
    words = servers.arguments[name]
    return f"127.0.0.1:{words[words.index('--port') + 1]}"


def hosts(cluster: Cluster, included: pathlib.Path, excluded: pathlib.Path):
    """A DataNode is decommissioned and taken away; another time it is not let in."""
    says, until, servers, admin = cluster.says, cluster.until, cluster.servers, ["dfsadmin"]
    content = {path: cluster.put(path, 3 * MIB, f"-Ddfs.blocksize={MIB}") for path in ["/whole/a", "/whole/b", "/coded/a"]}
    name = "datanode4"
    excluded.write_text(f"# it is old\n{transfer_address(servers, name)}\n")
    says("-refreshNodes", [*admin, "-refreshNodes"], 0, "Refresh nodes successful")
    until("it is decommissioned", [*admin, "-report"], 0, "Decommission Status : Decommissioned")
    says("fsck knows it", ["fsck", "/", "-files", "-blocks", "-replicaDetails"], 0, "(DECOMMISSIONED)", "is HEALTHY")
    says("-report -decommissioning", [*admin, "-report", "-decommissioning"], 0, "Decommissioning datanodes (0):")
    servers.kill(name)
    under = " Under-replicated blocks:\t0 (0.0 %)\n"
    until("nothing lacks a copy when it is gone", ["fsck", "/"], 0, under, " Under-erasure-coded block groups:\t0 (0.0 %)\n", "is HEALTHY")
    for path, sent in content.items():
        code, got = cluster.shell.got(path, servers.folder / "got")
        cluster.findings.right(f"{path} is read without it", code == 0 and got == sent, code)
    excluded.write_text("")
    says("-refreshNodes again", [*admin, "-refreshNodes"], 0, "Refresh nodes successful")
    servers.start(name)
    until("it is back", [*admin, "-report", "-live"], 0, f"Live datanodes ({DATANODES}):")
    others = [transfer_address(servers, other) for other in servers.arguments if other not in (name, "namenode")]
    included.write_text("\n".join(others))
    says("-refreshNodes with a list", [*admin, "-refreshNodes"], 0, "Refresh nodes successful")
    until("it is not let in", [*admin, "-report"], 0, f"Live datanodes ({DATANODES - 1}):")

    def is_told():
        if "is not in the file of dfs.hosts" not in (servers.folder / f"{name}.log").read_text():
            raise OSError("its log does not say so")

    wait_until(is_told, "the DataNode's word of its refusal")
    included.unlink()
    says("-refreshNodes without the file", [*admin, "-refreshNodes"], 255, "cannot read the file of hosts")
    says("nothing has changed", [*admin, "-report", "-live"], 0, f"Live datanodes ({DATANODES - 1}):")
    included.write_text("")
    says("-refreshNodes of an empty file", [*admin, "-refreshNodes"], 0, "Refresh nodes successful")
    until("all are let in", [*admin, "-report", "-live"], 0, f"Live datanodes ({DATANODES}):")


def maintenance(findings: Findings):
    """A DataNode is away for longer than others would wait, and nothing is made anew meanwhile."""
    with tempfile.TemporaryDirectory(prefix="operators-") as place:
        folder = pathlib.Path(place)
        listed, admin = folder / "hosts.json", ["dfsadmin"]
        listed.write_text("")
        [http_port] = free_ports(1)
        provider = "org.apache.hadoop.hdfs.server.blockmanagement.CombinedHostFileManager"
        more = ("--http-port", str(http_port), "-D", f"dfs.hosts={listed}", "-D", f"dfs.namenode.hosts.provider.classname={provider}")
        settings = {"dfs.namenode.http-address": f"127.0.0.1:{http_port}"}
        with Servers(folder, 4, namenode=more) as servers, Shell(servers.address, settings=settings) as shell:
            cluster = Cluster(findings, servers, shell, http_port)
            cluster.put("/file", 8 * MIB, f"-Ddfs.blocksize={MIB}")
            host, port = transfer_address(servers, "datanode0").split(":")
            listed.write_text(json.dumps([{"hostName": host, "port": int(port), "adminState": "IN_MAINTENANCE"}]))
            cluster.says("-refreshNodes", [*admin, "-refreshNodes"], 0, "Refresh nodes successful")
            cluster.until("it is in maintenance", [*admin, "-report", "-inmaintenance"], 0, "In maintenance datanodes (1):")
            servers.kill("datanode0")
            before = len(servers.block_files())
            cluster.until("it is away", [*admin, "-report", "-dead"], 0, "Dead datanodes (1):")
            time.sleep(15)
            findings.right("nothing is made anew", len(servers.block_files()) == before, (before, len(servers.block_files())))
            listed.write_text("[{\"hostName\": \"cut")
            cluster.says("-refreshNodes of a cut file", [*admin, "-refreshNodes"], 255, "the file of hosts is no JSON of hosts")
            listed.write_text("")
            cluster.says("-refreshNodes at its end", [*admin, "-refreshNodes"], 0, "Refresh nodes successful")
            cluster.until("now it is missed, and all is there again", ["fsck", "/"], 0, " Under-replicated blocks:\t0 (0.0 %)\n", " Average block replication:\t3.0\n")


def racks(findings: Findings):
    """DataNodes stand where a script or a table says, and one that hangs keeps none of them away."""
    mapping = "org.apache.hadoop.net.TableMapping"
    with tempfile.TemporaryDirectory(prefix="operators-") as place:
        folder = pathlib.Path(place)
        script, table = folder / "script", folder / "table"
        by_table = ("-D", f"net.topology.table.file.name={table}", "-D", f"net.topology.node.switch.mapping.impl={mapping}")
        for name, more, rack in [("script", ("-D", f"net.topology.script.file.name={script}"), "/by-script/of-127.0.0.1"), ("table", by_table, "/by-table")]:
            script.write_text("#!/bin/sh\n[ $# = 1 ] && echo /by-script/of-$1\n")
            script.chmod(0o755)
            table.write_text("# racks\n127.0.0.1 /by-table\n")
            home = folder / f"of-{name}"
            home.mkdir()
            with Servers(home, 2, namenode=more, racks=False) as servers, Shell(servers.address) as shell:
                cluster = Cluster(findings, servers, shell, 0)
                servers.kill("datanode1")
                servers.arguments["datanode1"] += ["--rack", "/its-own"]
                servers.start("datanode1")
                cluster.until(f"the {name} and a DataNode itself say where they stand", ["dfsadmin", "-printTopology"], 0, f"Rack: {rack}\n", "Rack: /its-own\n")
                script.write_text("#!/bin/sh\nexec sleep 600\n")
                table.write_text("")
                cluster.says("-refreshNodes", ["dfsadmin", "-refreshNodes"], 0)
                servers.kill("datanode0")
                servers.start("datanode0")
                cluster.until(f"a {name} without an answer holds nobody up", ["dfsadmin", "-printTopology"], 0, "Rack: /default-rack\n", "Rack: /its-own\n")


class Trash:
    """What a user throws away, and what the NameNode makes of it while other things are judged."""

    # As it is called in the home of the user who runs the judge.
    PLACE = ".Trash"

    def __init__(self, findings: Findings, servers: Servers, shell: Shell):
        """A file is thrown away. Beside it are checkpoints from before, and the NameNode is killed."""
        self.cluster = Cluster(findings, servers, shell, 0)
        says = self.cluster.says
        self.content = self.cluster.put("/thrown", MIB)
        says("-rm", ["-rm", "/thrown"], 0)
        says("it is in the trash", ["-test", "-e", f"{self.PLACE}/Current/thrown"], 0)
        self.old, self.young = self.checkpoint(minutes=10), self.checkpoint(minutes=0.5)
        for name in [self.old, self.young, "notes"]:
            says(f"there is {name}", ["-mkdir", "-p", f"{self.PLACE}/{name}/d"], 0)
        servers.kill("namenode")
        servers.start("namenode")

    @staticmethod
    def checkpoint(minutes: float) -> str:
        """What a checkpoint is called that was made some minutes ago."""
        return time.strftime("%y%m%d%H%M%S", time.gmtime(time.time() - 60 * minutes))

    def listed(self) -> set[str]:
        code, printed = self.cluster.shell("-ls", "-C", self.PLACE)
        return {line.rsplit("/", 1)[1] for line in printed.decode().splitlines() if "/" in line} if code == 0 else set()

    def is_emptied(self, short: bool):
        """The trash has become a checkpoint, an old one is gone, and younger ones are there; later the first goes before the second."""
        cluster, right = self.cluster, self.cluster.findings.right
        made = self.made({self.young, "notes"})
        code, got = cluster.shell.got(f"{self.PLACE}/{made}/thrown", cluster.servers.folder / "got")
        right("the checkpoint has what was thrown away", code == 0 and got == self.content, code)
        right("the old one is gone, the others are not", self.listed() == {made, self.young, "notes"}, self.listed())
        if short:
            return
        cluster.put("/later", MIB)
        cluster.says("-rm of another one", ["-rm", "/later"], 0)
        second = self.made({self.young, "notes", made})
        kept = {made, second, "notes"}
        right("the next checkpoint takes its place beside the first", made in kept and self.listed() >= {made, second}, self.listed())

        def is_gone():
            if made in self.listed():
                raise OSError(self.listed())

        wait_until(is_gone, "the end of the first checkpoint", seconds=200)
        right("the first goes, the second is kept", self.listed() == {second, "notes"}, self.listed())

    def made(self, known: set[str]) -> str:
        """The checkpoint that has come, with nothing left in the current one."""

        def comes():
            new = self.listed() - known - {self.old}
            if len(new) != 1 or "Current" in new:
                raise OSError(new)
            return new.pop()

        return wait_until(comes, "a checkpoint", seconds=90)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a minute or less")
    arguments = parser.parse_args()
    findings = Findings()
    [http_port] = free_ports(1)
    pages = NO_CACHE | {"dfs.namenode.http-address": f"127.0.0.1:{http_port}"}
    with tempfile.TemporaryDirectory(prefix="operators-") as place, contextlib.ExitStack() as stack:
        folder = pathlib.Path(place)
        (folder / "trash").mkdir()
        minutes = ("-D", "fs.trash.interval=2", "-D", "fs.trash.checkpoint.interval=1")
        thrown = stack.enter_context(Servers(folder / "trash", 1, namenode=minutes))
        trash = Trash(findings, thrown, stack.enter_context(Shell(thrown.address, settings={"dfs.replication": "1"})))
        included, excluded = folder / "included", folder / "excluded"
        included.write_text("")
        excluded.write_text("")
        more = ("--http-port", str(http_port), "-D", f"dfs.hosts={included}", "-D", f"dfs.hosts.exclude={excluded}")
        with Servers(folder, DATANODES, namenode=more) as servers:
            with Shell(servers.address, settings=pages) as shell, Shell(servers.address, settings=pages, user="stranger") as stranger:
                cluster = Cluster(findings, servers, shell, http_port)
                for command in [["ec", "-enablePolicy", "-policy", "RS-3-2-1024k"]]:
                    cluster.says(" ".join(command), command, 0)
                checks(cluster, stranger)
                beans(cluster)
                administers(cluster, stranger)
                losses(cluster, stranger)
                remains(cluster, stranger)
                hosts(cluster, included, excluded)
                rolls(cluster)
        racks(findings)
        trash.is_emptied(arguments.short)
    if not arguments.short:
        maintenance(findings)
    return findings.wrong


if __name__ == "__main__":
    sys.exit(min(main(), 1))
