"""A Kafka 4.3 broker (KRaft, one node) from Maven's jars, on ports of its own."""

import base64
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import harness  # noqa: E402

VERSION = "4.3.1"
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


def jars() -> pathlib.Path:
    """The broker's class path, from Maven on first use."""
    folder = harness.CACHE / f"jars-kafka-{VERSION}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(HERE / "pom.xml", folder)
        maven = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        subprocess.run(maven, cwd=folder, check=True)
        (folder / "complete").touch()
    return folder / "lib"


class Broker:
    """One broker with its topics in a folder; use it with `with`."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        folder.mkdir(parents=True)
        self.port, controller = harness.free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        log4j = f"-Dlog4j2.configurationFile=file:{HERE}/log4j2.properties"
        self.java = ["java", "-Xmx512m", "-XX:+UseG1GC", log4j, "-cp", f"{jars()}/*"]
        self.properties = folder / "server.properties"
        self.properties.write_text(PROPERTIES.format(port=self.port, controller=controller, folder=folder))
        # One that begins with a dash would be read as an option: the first bits are 0.
        cluster = base64.urlsafe_b64encode(b"\0" + os.urandom(15)).decode().rstrip("=")
        format_line = [*self.java, "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", self.properties]
        with open(folder / "format.log", "wb") as log:
            subprocess.run(format_line, check=True, stdout=log, stderr=log)
        self.process = None
        self.start()

    def start(self):
        with open(self.folder / "broker.log", "ab") as log:
            line = [*self.java, "kafka.Kafka", self.properties]
            self.process = subprocess.Popen(line, stdout=log, stderr=log, start_new_session=True)

        def answers():
            socket.create_connection(("127.0.0.1", self.port), 1).close()

        harness.wait_until(answers, "the broker", lambda: self.process.poll() is None)

    def kill(self):
        """kill -9."""
        harness.end(self.process)

    def pause(self, seconds):
        """Has it stand still, and go on."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def run(main):
    """Runs a judge with confluent-kafka: in an environment that has it, if this one does not."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        python = harness.venv("kafka", ["confluent-kafka==2.12.1"]) / "python3"
        sys.exit(subprocess.run([python, *sys.argv]).returncode)
    main()
