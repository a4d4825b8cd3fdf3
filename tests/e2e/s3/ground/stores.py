"""Stores as three peers (gateways) over one store, each peer a process that can be killed, hung and started again."""
import json
import os
import shutil
import socket
import subprocess
import tempfile

from bed.process import wait_until

from . import keys, sigv4
from .child import Child


class Store:
    kind = ""

    def __init__(self, ports, peers=3):
        self.ports = ports
        self.folder = tempfile.mkdtemp(prefix=f"fl-{self.kind}-")
        self.peer_ports = [ports.take() for _ in range(peers)]
        self.peers = [None] * peers

    # -- life -------------------------------------------------------------------------------------------------
    def up(self):
        for n in range(len(self.peers)):
            self.start(n, wait=False)
        for n in range(len(self.peers)):
            self.wait_open(n)
        return self

    def start(self, n, wait=True):
        self.peers[n] = Child(f"{self.kind} {n}", self.argv(n), env=self.env(), cwd=self.folder)
        if wait:
            self.wait_open(n)

    def wait_open(self, n):
        """A peer is up when it answers a signed request: its port may be open before that."""

        def answers():
            assert self.peers[n].running, f"{self.kind} {n} ended while starting:\n{self.peers[n].report()}"
            try:
                return sigv4.call(self.address(n), "GET", "/").status == 200
            except OSError:
                return False

        wait_until(lambda: self.peers[n].report(), answers, 30, 0.03)

    def down(self):
        for process in self.processes():
            if process:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self):
        return list(self.peers)

    # -- faults -----------------------------------------------------------------------------------------------
    def kill(self, n):
        self.peers[n].kill()

    def hang(self, n):
        self.peers[n].freeze()

    def cont(self, n):
        self.peers[n].thaw()

    def heal(self):
        """All peers run again, whatever a test left."""
        for n, process in enumerate(self.peers):
            if process.running:
                process.thaw()
            else:
                self.start(n)

    # -- facts ------------------------------------------------------------------------------------------------
    broken = {}  # client's name: operations that this store gets wrong by itself, with no proxy between

    def without_broken(self, client):
        """The client, less what it cannot do with this store; so what remains fails through no fault of the store."""
        client.can = client.can - self.broken.get(client.name, set())
        return client

    def address(self, n):
        return ("127.0.0.1", self.peer_ports[n])

    def addresses(self):
        return [f"127.0.0.1:{port}" for port in self.peer_ports]

    def make_bucket(self, bucket):
        response = sigv4.call(self.address(0), "PUT", "/" + bucket)
        assert response.status in (200, 409), repr(response)


class Versitygw(Store):
    """versitygw with its posix backend: strict, close to AWS. Three processes over one directory."""

    kind = "versitygw"
    # It may answer such a body before it has read HTTP's last chunk, and then takes "0\r\n\r\n" for the head of the next
    # request on that connection: 400, or a reset, for some 6 of 1000 streams sent to it directly.
    broken = {"js-v3": {"stream"}}

    def __init__(self, ports, peers=3):
        super().__init__(ports, peers)
        self.binary = os.path.join(keys.installed("FAIRLEAD_S3_VERSITYGW"), "versitygw")
        for name in ("root", "iam"):
            os.mkdir(os.path.join(self.folder, name))

    def env(self):
        return {"ROOT_ACCESS_KEY": keys.ACCESS, "ROOT_SECRET_KEY": keys.SECRET}

    def argv(self, n, *options):
        # keep-alive is off by default; it changes its directory, so every path is absolute
        return [self.binary, "--port", f"127.0.0.1:{self.peer_ports[n]}", "--keep-alive", "--quiet", "--iam-dir",
                os.path.join(self.folder, "iam"), *options, "posix", os.path.join(self.folder, "root")]

    def add_throttled(self):
        """One more peer over the same directory, with room for one request: beyond that it answers SlowDown."""
        self.peer_ports.append(self.ports.take())
        n = len(self.peers)
        self.peers.append(Child(f"{self.kind} {n}", self.argv(n, "--mc", "64", "--mr", "1"), env=self.env(),
                                cwd=self.folder))
        self.wait_open(n)
        return n

    def add_user(self, access, secret):
        """A key that may do nothing until a bucket policy says so."""
        done = subprocess.run([self.binary, "admin", "--access", keys.ACCESS, "--secret", keys.SECRET, "--endpoint-url",
                               f"http://{self.addresses()[0]}", "create-user", "--access", access, "--secret", secret,
                               "--role", "user"], env=keys.client_env(), capture_output=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr


class Seaweed(Store):
    """SeaweedFS: one server (master, volumes, filer) and three S3 gateways in front of it."""

    kind = "seaweedfs"

    def __init__(self, ports, peers=3):
        super().__init__(ports, peers)
        self.binary = os.path.join(keys.installed("FAIRLEAD_S3_PY"), "bin", "weed")
        self.master, self.volume, self.filer = ([ports.take(), ports.take()] for _ in range(3))
        self.grpc = [ports.take() for _ in range(peers)]
        self.server = None
        self.config = os.path.join(self.folder, "s3.json")
        self._write_keys()

    def _write_keys(self):
        def identity(name, access, secret, *actions):
            return {"name": name, "credentials": [{"accessKey": access, "secretKey": secret}], "actions": actions}

        with open(self.config, "w", encoding="utf-8") as f:
            json.dump({"identities": [
                identity("all", keys.ACCESS, keys.SECRET, "Admin", "Read", "Write", "List", "Tagging"),
                identity("scoped", keys.SCOPED_ACCESS, keys.SCOPED_SECRET, f"Read:{keys.BUCKET}",
                         f"List:{keys.BUCKET}")]}, f)

    def env(self):
        return {"HOME": self.folder}

    def _start_server(self):
        data = os.path.join(self.folder, "data")
        shutil.rmtree(data, ignore_errors=True)
        os.mkdir(data)
        self.server = Child("weed server", [
            self.binary, f"-logdir={self.folder}", "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            "-filer", "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=20",
            "-volume.preStopSeconds=0", f"-master.port={self.master[0]}", f"-master.port.grpc={self.master[1]}",
            f"-volume.port={self.volume[0]}", f"-volume.port.grpc={self.volume[1]}", f"-filer.port={self.filer[0]}",
            f"-filer.port.grpc={self.filer[1]}"], env=self.env(), cwd=self.folder)

        def open_():
            assert self.server.running, f"weed server ended while starting:\n{self.server.report()}"
            try:
                socket.create_connection(("127.0.0.1", self.filer[0]), 1).close()
                return True
            except OSError:
                return False

        wait_until(lambda: self.server.report(), open_, 60, 0.05)

    def up(self):
        self._start_server()
        return super().up()

    def argv(self, n):
        # the ports of iceberg and lance would collide between the gateways
        return [self.binary, f"-logdir={self.folder}", "s3", f"-filer=127.0.0.1:{self.filer[0]}.{self.filer[1]}",
                "-ip.bind=127.0.0.1", f"-port={self.peer_ports[n]}", f"-port.grpc={self.grpc[n]}", "-port.iceberg=0",
                "-port.lance=0", f"-config={self.config}"]

    def processes(self):
        return [*self.peers, self.server]

    def heal(self):
        if not self.server.running:  # its data are lost with it
            self._start_server()
            for peer in self.peers:
                peer.kill()
        self.server.thaw()
        super().heal()


KINDS = {"seaweedfs": Seaweed, "versitygw": Versitygw}
