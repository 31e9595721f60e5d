"""Latency, CPU time and memory of `yeoul stream` beside a bare loop and Spark: `yeoul bench stream` with a broker of its own.

    python3 latency.py --against spark --quick    # ten minutes
    python3 latency.py --against spark            # an hour: 1,000 and 10,000 records a second, a minute each

Every argument goes to `yeoul bench stream`. Where it is allowed to, the broker runs at a higher priority than what is measured: all
share the machine, and a busy party is not to slow down the broker that it is measured with.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import harness
from broker import Broker

PRIORITY = -10


def prefer(broker):
    """Raises the broker's priority; each thread has its own, which threads that it starts inherit."""
    with contextlib.suppress(PermissionError):
        for thread in os.listdir(f"/proc/{broker.process.pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread), PRIORITY)
        return
    print("the broker has no priority over what is measured: that takes root", file=sys.stderr)


def main():
    with tempfile.TemporaryDirectory(prefix="yeoul-judge-") as place, Broker(pathlib.Path(place) / "broker") as broker:
        prefer(broker)
        line = [harness.binary(), "bench", "stream", "--kafka", broker.address, *sys.argv[1:]]
        bench = subprocess.Popen(line)
        try:
            code = bench.wait()
        finally:
            # It ends what it has started when it is told to stop.
            if bench.poll() is None:
                bench.send_signal(signal.SIGTERM)
                bench.wait()
        sys.exit(code)


if __name__ == "__main__":
    main()
