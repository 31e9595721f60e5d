"""A process of `yeoul stream run` that runs: what it said, and ways to end it."""

import signal

# Seconds in which it ends.
WITHIN = 60


class StreamProcess:
    """Its `process` and the `log` of its life are set by who starts it."""

    def said(self):
        return self.log.read_text(errors="replace")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL, f"it had ended before it was killed: {self.said()[-2000:]}"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WITHIN) == 0, self.said()[-2000:]

    def ended(self):
        return self.process.wait(WITHIN), self.said()
