"""A process of `yeoul stream run` that runs: what it said, and ways to end it."""

import json
import pathlib
import signal
import subprocess
import time

# Seconds in which it ends.
WITHIN = 60


class StreamProcess:
    """Its `process` and the `log` of its life are set by who starts it."""

    def said(self):
        return self.log.read_text(errors="replace")

    def events(self, kind):
        """Events of a kind, in their order. A process that was killed may have left a line without its end."""
        lines = [line for line in self.said().splitlines() if line.startswith(f'{{"event":"{kind}"') and line.endswith("}")]
        return [json.loads(line) for line in lines]

    def until_checkpoint(self):
        """Waits until this life has completed a checkpoint."""
        deadline = time.monotonic() + WITHIN
        while not self.events("progress"):
            assert time.monotonic() < deadline, f"no checkpoint: {self.said()[-2000:]}"
            time.sleep(0.02)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL, f"it had ended before it was killed: {self.said()[-2000:]}"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code, said = self.ended()
        assert code == 0, said[-2000:]

    def ended(self):
        """Its exit code and what it said."""
        try:
            return self.process.wait(WITHIN), self.said()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it goes on after {WITHIN} s: {self.threads()}\n{self.happened()}") from None

    def happened(self):
        """What it said, with progress only where it is the last of a query."""
        lines = self.said().splitlines()
        last = {line.split('"name":', 1)[-1].split(",", 1)[0]: at for at, line in enumerate(lines) if '"event":"progress"' in line}
        return "\n".join(line for at, line in enumerate(lines) if '"event":"progress"' not in line or at in last.values())

    def threads(self):
        """What its threads wait for, for one that does not end."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return [f"{(task / 'comm').read_text().strip()}: {(task / 'wchan').read_text()}" for task in tasks]
