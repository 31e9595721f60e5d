"""Peers that mean harm, on every port of every server: an honest client beside them is served within a second, and the server keeps
to its `--memory`.

Usage: security.py [--seconds S] [--memory SIZE] [--connections N] [--only TEXT,…]
exits 1 if an honest client waited longer, a server used more memory than it was given, or ended

Each port is attacked in turn, in each of the ways below, for so many seconds. On pages the honest client has the attackers' own
address, as a probe has behind a proxy; on the other ports it has another one, as one address gets only a part of the places there.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import resource
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from harness import Process, binary, free_ports, page, wait_until

MIB = 1 << 20
# An honest client waits no longer.
SERVED_MAX = 1.0
# And asks so often.
ASK_EVERY = 0.2
ATTACKER, HONEST = "127.0.0.1", "127.0.0.2"


# How each kind of port is spoken to.


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def delimited(message: bytes) -> bytes:
    return varint(len(message)) + message


def hadoop(user: bytes = b"honest") -> bytes:
    """The beginning of a connection of Hadoop RPC, and a call of a method that there is not."""
    header = field(1, 2) + field(2, 0) + b"\x18%c" + field(4, b"0123456789abcdef")
    context = delimited(header.replace(b"%c", varint(5))) + delimited(field(2, field(1, user)) + field(3, b"judge"))
    call = field(1, b"nothing") + field(2, b"judge") + field(3, 1)
    call = delimited(header.replace(b"%c", varint(2))) + delimited(call) + delimited(b"")
    return b"hrpc\x09\x00\x00" + b"".join(struct.pack(">i", len(frame)) + frame for frame in (context, call))


def celeborn(body: bytes = b"no request") -> bytes:
    """A frame of Celeborn's with a request that is none, which is answered with a failure."""
    return struct.pack(">ibi", 12, 3, len(body)) + struct.pack(">qi", 7, len(body)) + body


def http(path: str = "/healthz", body: str | None = None) -> bytes:
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    more = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{more}\r\n{body or ''}".encode()


class Kind:
    """A kind of port: a request that is answered, one cut in its middle, and one that declares far too much."""

    def __init__(self, request: bytes, half: bytes, huge: bytes, honest: str = HONEST):
        self.request, self.half, self.huge, self.honest = request, half, huge, honest


PAGES = Kind(
    http(),
    b"POST /api/v1/workers/exit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n",
    honest=ATTACKER,
)
# A chunk of a stream that there is not: what is no request ends a connection there.
CHUNK = struct.pack(">ibi", 20, 0, 0) + struct.pack(">qiii", 7, 0, 0, 0x7FFFFFFF)
CELEBORN = Kind(celeborn(), celeborn()[:15], struct.pack(">ibi", 12, 3, 0x7FFFFFFF) + struct.pack(">qi", 7, 0x7FFFFFFF))
FETCH = Kind(CHUNK, CHUNK[:15], CELEBORN.huge)
HADOOP = Kind(hadoop(), hadoop()[:20], b"hrpc\x09\x00\x00" + struct.pack(">I", 0x7FFFFFFF))
BLOCKS = Kind(b"\x00\x1c\x63", b"\x00\x1c\x50\x7f\x01", b"\x00\x1c\x50\xff\xff\xff\xff\x07")


def connect(port: int, source: str, timeout: float = 1) -> socket.socket:
    peer = socket.socket()
    # The kernel picks a port when it connects, so that many thousands from one address fit.
    peer.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
    peer.settimeout(timeout)
    peer.bind((source, 0))
    peer.connect(("127.0.0.1", port))
    return peer


# The attacks. Each runs in a process of its own until that is killed.


def occupy(port: int, count: int, sent: bytes, drip: bool = False):
    """Keeps `count` connections that have sent so much and read nothing; those that are closed are made again."""
    held: list[socket.socket] = []
    while True:
        made = 0
        while len(held) < count and made < 500:
            made += 1
            with contextlib.suppress(OSError):
                peer = connect(port, ATTACKER)
                peer.setblocking(False)
                with contextlib.suppress(OSError):
                    peer.send(sent)
                held.append(peer)
        left = []
        for peer in held:
            try:
                if drip:
                    peer.send(b"x")
                # What was closed shows as an empty read; what was answered stays unread.
                if peer.recv(1, socket.MSG_PEEK) == b"":
                    peer.close()
                    continue
            except BlockingIOError:
                pass
            except OSError:
                peer.close()
                continue
            left.append(peer)
        held = left
        time.sleep(0.2 if drip or len(held) >= count else 0.01)


def flood(port: int, sent: bytes):
    """Connects, asks and leaves, as fast as it can."""
    while True:
        with contextlib.suppress(OSError), connect(port, ATTACKER) as peer:
            peer.send(sent)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def junk(port: int):
    """Sends bytes that are nothing."""
    rng = random.Random(7)
    while True:
        with contextlib.suppress(OSError), connect(port, ATTACKER) as peer:
            for _ in range(rng.choice([1, 1, 100])):
                peer.send(rng.randbytes(rng.choice([1, 20, 5000, 60000])))


def names(port: int, kind: Kind, role: str):
    """Asks under ever new names: users, applications, pages."""
    number = 0
    while True:
        number += 1
        name = f"name-{os.getpid()}-{number:09}" + "x" * 100
        if kind is HADOOP:
            sent = hadoop(name[:200].encode())
        elif kind is PAGES and role == "master":
            shuffles = json.dumps({"appId": name, "shuffleIds": list(range(100))})
            sent = http("/api/v1/applications/revise_lost_shuffles", shuffles)
        elif kind is PAGES:
            sent = http(f"/{name}?{name}={name}")
        elif kind is CELEBORN:
            sent = celeborn(name.encode())
        elif kind is FETCH:
            sent = struct.pack(">ibi", 20, 0, 0) + struct.pack(">qiii", number, 0, 0, 0x7FFFFFFF)
        else:
            sent = b"\x00\x1c" + bytes([number % 256])
        with contextlib.suppress(OSError), connect(port, ATTACKER) as peer:
            peer.send(sent)
            peer.recv(100)


def unread(port: int, kind: Kind, role: str, count: int):
    """Asks on each connection for all that it is answered, and reads none of it."""
    if kind is PAGES:
        path = {"master": "/api/v1/applications/info", "worker": "/api/v1/conf"}.get(role, "/metrics/prometheus")
        sent = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 20
    else:
        sent = {CELEBORN: celeborn(b"x" * 3000) * 500, FETCH: CHUNK * 20000}.get(kind, kind.request)
    occupy(port, count, sent)


def attacks(port: int, kind: Kind, role: str, count: int) -> dict:
    return {
        "silent": (occupy, (port, count, b"")),
        "half": (occupy, (port, count, kind.half)),
        "slow": (occupy, (port, min(count, 300), kind.half[:3], True)),
        "flood": (flood, (port, kind.request)),
        "junk": (junk, (port,)),
        "huge": (occupy, (port, min(count, 500), kind.huge)),
        "names": (names, (port, kind, role)),
        "unread": (unread, (port, kind, role, min(count, 300))),
    }


# The honest client.


def served(port: int, kind: Kind) -> float:
    """How long it takes until the first byte of an answer is there."""
    begin = time.monotonic()
    with connect(port, kind.honest, timeout=5) as peer:
        peer.sendall(kind.request)
        if not peer.recv(1):
            raise OSError("the connection was closed without an answer")
    return time.monotonic() - begin


class Cluster(harness.Servers):
    """One server of each kind, and the ports that it has."""

    def __init__(self, memory: str):
        super().__init__()
        ports = iter(free_ports(12))
        self.all, self.ports = [], []

        def start(role: str, verb: str, options: dict, kinds: dict, *more: str):
            taken = {option: next(ports) for option in kinds}
            flags = [text for option, value in (options | taken).items() for text in (option, str(value))]
            command = [binary(), verb, role, *flags, *more, "--memory", memory]
            server = Process(role, command, self.folder / f"{role}.log", taken["--http-port"], taken["--http-port"])
            wait_until(lambda: page(taken["--http-port"], "/"), role, server.alive)
            self.all.append(server)
            self.ports += [(server, option.strip("-"), port, kinds[option]) for option, port in taken.items()]
            return taken

        dirs = {name: self.folder / name for name in ("master", "worker", "namenode", "datanode")}
        kinds = {"--port": CELEBORN, "--http-port": PAGES}
        master = start("master", "shuffle", {"--dir": dirs["master"]}, kinds)
        kinds = {f"--{name}-port": CELEBORN for name in ("rpc", "push", "replicate")} | {"--fetch-port": FETCH, "--http-port": PAGES}
        options = {"--dir": dirs["worker"], "--master": f"127.0.0.1:{master['--port']}", "--host": "127.0.0.1"}
        start("worker", "shuffle", options, kinds)
        namenode = start("namenode", "dfs", {"--dir": dirs["namenode"]}, {"--port": HADOOP, "--http-port": PAGES})
        options = {"--dir": dirs["datanode"], "--namenode": f"127.0.0.1:{namenode['--port']}", "--host": "127.0.0.1"}
        start("datanode", "dfs", options, {"--port": BLOCKS, "--ipc-port": HADOOP, "--http-port": PAGES})

    def servers(self):
        return self.all


def bytes_of(size: str) -> int:
    return int(size.removesuffix("MiB")) * MIB


def judge(server: Process, name: str, port: int, kind: Kind, attack: str, seconds: float, count: int) -> list[str]:
    """Attacks a port for a while; what was wrong."""
    function, arguments = attacks(port, kind, server.name, count)[attack]
    attacker = multiprocessing.Process(target=function, args=arguments, daemon=True)
    attacker.start()
    waits, failed = [], []
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            try:
                waits.append(served(port, kind))
            except OSError as error:
                failed.append(f"{type(error).__name__}: {error}")
            time.sleep(ASK_EVERY)
    finally:
        is_there = attacker.is_alive()
        attacker.kill()
        attacker.join()
    wrong = []
    what = f"{server.name} {name}, {attack}"
    slow = [wait for wait in waits if wait > SERVED_MAX]
    if slow or failed or not waits:
        wrong.append(f"{what}: {len(slow)} of {len(waits)} waited up to {max(waits, default=0):.1f} s, {len(failed)} failed: {failed[:1]}")
    if not is_there:
        wrong.append(f"{what}: the attacker ended by itself")
    if not server.alive():
        wrong.append(f"{what}: the server ended")
    peak = f", {server.rss_max() / MIB:.0f} MiB at most until now" if server.alive() else ""
    print(f"{what}: {len(waits)} served within {max(waits, default=0) * 1000:.0f} ms{peak}", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="for each attack on each port")
    parser.add_argument("--memory", default="128MiB", help="of each server")
    parser.add_argument("--connections", type=int, default=10000, help="that an attacker keeps")
    parser.add_argument("--only", default="", help="attacks and ports whose names have one of these texts")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    count = min(options.connections, most - 200)
    wanted = [text for text in options.only.split(",") if text]
    wrong, tried = [], 0
    with Cluster(options.memory) as cluster:
        for server, name, port, kind in cluster.ports:
            for attack in attacks(port, kind, server.name, count):
                if wanted and not any(text in f"{server.name} {name} {attack}" for text in wanted):
                    continue
                tried += 1
                wrong += judge(server, name, port, kind, attack, options.seconds, count)
        for server in cluster.servers():
            peak = server.rss_max() if server.alive() else 0
            print(f"{server.name}: {peak / MIB:.0f} MiB at most, of {options.memory}")
            if peak > bytes_of(options.memory):
                wrong.append(f"{server.name} used {peak / MIB:.0f} MiB of {options.memory}")
        if wrong:
            print("\n".join(wrong))
            raise SystemExit(f"{len(wrong)} of {tried} attacks or servers were not as promised")
    print(f"{tried} attacks")
    return 0 if tried else 1


if __name__ == "__main__":
    sys.exit(main())
