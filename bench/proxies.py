"""The proxies under test: how each is configured, started, stopped and counted.

A proxy is a name, a way to write its configuration into a directory and a command line. All of them listen on loopback,
run one thread for data and are pinned alone to one processor when there are two.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE / "peers"

# What nginx does with bodies: large buffers and no temporary files, or none beyond one buffer. Both run and the report
# compares with the cheaper. The sizes are the best of a sweep from 16k to 1m. A send of 65,484 bytes or more costs twice
# on loopback (its MSS is 65,483, and the rest goes as a packet of its own), so the one buffer must stay below that.
NGINX_BUFFERED = """\
            proxy_buffering on;
            proxy_buffer_size 16k;
            proxy_buffers 4 1m;
            proxy_busy_buffers_size 2m;
            proxy_max_temp_file_size 0;
            client_body_buffer_size 1m;"""
NGINX_UNBUFFERED = """\
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_buffer_size 48k;
            proxy_buffers 4 48k;
            proxy_busy_buffers_size 96k;
            client_body_buffer_size 48k;"""

TLS_NAME = "origin.bench"  # in the origin's certificate
NGINX_TLS = f"""\
            proxy_ssl_trusted_certificate @CA@;
            proxy_ssl_verify on;
            proxy_ssl_name {TLS_NAME};
            proxy_ssl_server_name on;"""

HAPROXY_LOG = (
    '    log stdout format raw local0\n    log-format "{\\"ts\\":\\"%Tl\\",\\"remote_addr\\":\\"%ci\\",'
    '\\"method\\":\\"%HM\\",\\"uri\\":\\"%HU\\",\\"status\\":%ST,\\"request_time\\":%Ta,\\"bytes_in\\":%U,'
    '\\"bytes_out\\":%B,\\"upstream_addr\\":\\"%si:%sp\\",\\"upstream_connect_time\\":%Tc,'
    '\\"upstream_header_time\\":%Tr}"'
)


@dataclass(frozen=True)
class Setting:
    """What a scenario asks of a proxy."""

    port: int
    origins: list[int]  # ports of the peers; a dead one refuses connections
    dead: int = 0  # how many of them are dead
    log: bool = False
    tls: Path | None = None  # the certificate of the origins, which then speak TLS
    clients: int = 4096  # the most client connections; what nginx reserves memory for


class MissingProxy(Exception):
    """The program is not installed or not built."""


@dataclass
class Proxy:
    name: str
    program: Path | str
    is_floor: bool = False
    options: dict = field(default_factory=dict)

    def available(self) -> bool:
        return shutil.which(str(self.program)) is not None

    def version(self) -> str:
        return ""

    def supports(self, setting: Setting) -> bool:
        return True

    def command(self, setting: Setting, directory: Path) -> list[str]:
        raise NotImplementedError


def fill(template: str, directory: Path, **values) -> Path:
    text = (PEERS / f"{template}.in").read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    left = re.search(r"@[A-Z_]+@", text)
    if left:
        raise ValueError(f"{template}.in: nothing for {left.group()}")
    path = directory / template
    path.write_text(text)
    return path


def output_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


class Relay(Proxy):
    def version(self) -> str:
        return "bare epoll relay" + (", splice" if self.options.get("splice") else "")

    def supports(self, setting: Setting) -> bool:
        return setting.dead == 0 and setting.tls is None

    def command(self, setting: Setting, directory: Path) -> list[str]:
        command = [str(self.program), "--listen", f"127.0.0.1:{setting.port}"]
        command += ["--to", f"127.0.0.1:{setting.origins[0]}"]
        return command + (["--splice", "--turn", "1"] if self.options.get("splice") else [])


class Nginx(Proxy):
    def version(self) -> str:
        return output_of(str(self.program), "-v").replace("nginx version: ", "")

    def command(self, setting: Setting, directory: Path) -> list[str]:
        config = fill(
            "nginx.conf", directory, DIR=directory, PORT=setting.port,
            USER="user root;" if os.geteuid() == 0 else "",
            ACCESS_LOG=f"{directory}/access.log json buffer=64k flush=1s" if setting.log else "off",
            SERVERS="\n".join(f"        server 127.0.0.1:{p} max_fails=1 fail_timeout=10s;" for p in setting.origins),
            BUFFERING=NGINX_BUFFERED if self.options.get("buffering") else NGINX_UNBUFFERED,
            SCHEME="https" if setting.tls else "http", CONNECTIONS=setting.clients + 4096 * (setting.clients > 4096),
            TLS=NGINX_TLS.replace("@CA@", str(setting.tls)) if setting.tls else "",
        )
        return [str(self.program), "-p", str(directory), "-c", str(config)]


class Haproxy(Proxy):
    def version(self) -> str:
        return output_of(str(self.program), "-v").splitlines()[0].split(" - ")[0]

    def command(self, setting: Setting, directory: Path) -> list[str]:
        splice = self.options.get("splice")
        config = fill(
            "haproxy.cfg", directory, PORT=setting.port,
            GLOBAL="    tune.bufsize 49152\n    tune.pipesize 1048576" if splice else "",
            DEFAULTS="    option splice-response\n    option splice-request" if splice else "",
            LOG=HAPROXY_LOG if setting.log else "    no log",
            CHECK="check inter 1s fall 1 rise 2" if setting.dead > 0 else "", CONNECTIONS=setting.clients,
            TLS=f"ssl verify required ca-file {setting.tls} sni str({TLS_NAME})" if setting.tls else "",
            SERVERS="\n".join(f"    server s{i} 127.0.0.1:{p}" for i, p in enumerate(setting.origins)),
        )
        return [str(self.program), "-q", "-db", "-f", str(config)]


class Fairlead(Proxy):
    def version(self) -> str:
        return output_of(str(self.program), "--version")

    def command(self, setting: Setting, directory: Path) -> list[str]:
        config = fill(
            "fairlead.yaml", directory, PORT=setting.port, ADMIN_PORT=setting.port + 1000,
            STATUS_PORT=setting.port + 2000, PROTOCOL=self.options.get("protocol", "http"),
            ACCESS_LOG="all" if setting.log else "off", CLIENTS=setting.clients,
            TLS=f'tls: {{ca_file: "{setting.tls}", server_name: {TLS_NAME}}}' if setting.tls else "",
            PEERS="\n".join(f'      - {{address: "127.0.0.1:{p}"}}' for p in setting.origins),
        )
        return [str(self.program), "--config", str(config)]


def all_proxies(build: Path) -> list[Proxy]:
    relay = build / "bench" / "bench-relay"
    sidecar = build / "fairlead-sidecar"
    return [
        Fairlead("fairlead", sidecar, options={"protocol": "http"}),
        Fairlead("fairlead-s3", sidecar, options={"protocol": "s3"}),
        Nginx("nginx", "nginx", options={"buffering": True}),
        Nginx("nginx-unbuffered", "nginx"),
        Haproxy("haproxy", "haproxy"),
        Haproxy("haproxy-splice", "haproxy", options={"splice": True}),
        Relay("relay", relay, is_floor=True),
        Relay("relay-splice", relay, is_floor=True, options={"splice": True}),
    ]


def pinned(command: list[str], cpu: int | None) -> list[str]:
    return command if cpu is None else ["taskset", "-c", str(cpu), *command]


def is_free(port: int) -> bool:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def first_free(start: int, step: int = 300) -> int:
    """The first of start, start + step, … whose port nobody uses: another run may be under way."""
    return next(port for port in range(start, start + 20 * step, step) if is_free(port))


class Running:
    """A started process with its children; ends with the block it is used in."""

    def __init__(self, command: list[str], directory: Path, cpu: int | None, port: int, name: str, environment=None):
        self.name = name
        self.port = port
        self.directory = directory
        self.command = command
        if not is_free(port):  # else we would measure whoever has it
            raise RuntimeError(f"{name}: port {port} is taken")
        with open(directory / "stdout", "wb") as out, open(directory / "stderr", "wb") as err:
            self.process = subprocess.Popen(
                pinned(command, cpu), stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=directory,
                env={**os.environ, **(environment or {})},
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_exc) -> None:
        self.stop()

    def wait_until_listening(self, seconds: float = 10) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} exited with {self.process.returncode}: {self.complaint()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"{self.name} does not listen on {self.port}: {self.complaint()}")

    def complaint(self) -> str:
        text = (self.directory / "stderr").read_text(errors="replace") or "(nothing on stderr)"
        return text.strip()[-600:]

    def pids(self) -> list[int]:
        """The process and its children (nginx's worker)."""
        parents: dict[int, list[int]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    stat = Path(f"/proc/{entry}/stat").read_text()
                except OSError:
                    continue
                parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
        found = [self.process.pid]
        for pid in found:
            found.extend(parents.get(pid, []))
        return found

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                for pid in self.pids():
                    os.kill(pid, signal.SIGKILL)
                self.process.wait()


def start(proxy: Proxy, setting: Setting, directory: Path, cpu: int | None, environment=None) -> Running:
    if not proxy.available():
        raise MissingProxy(f"{proxy.name}: {proxy.program} is not there")
    directory.mkdir(parents=True, exist_ok=True)
    command = proxy.command(setting, directory)
    running = Running(command, directory, cpu, setting.port, proxy.name, environment)
    try:
        running.wait_until_listening()
    except BaseException:
        running.stop()
        raise
    return running
