"""Container images from files, without any other tool: one tar in OCI layout that `ctr images import` reads."""
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

SHORT = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PEOPLE = {"/etc/passwd": b"root:x:0:0::/:/bin/sh\nnonroot:x:65532:65532::/:/bin/false\n",
          "/etc/group": b"root:x:0:\nnonroot:x:65532:\n", "/etc/nsswitch.conf": b"hosts: files dns\n"}


class Layer:
    """Files of an image: add(), link() and folder(), then bytes(); the same content gives the same bytes."""

    def __init__(self):
        self._entries = {}

    def add(self, path, source, mode=0o644):
        """source: a file's path, or bytes."""
        data = source if isinstance(source, bytes) else pathlib.Path(source).read_bytes()
        self._put(path, tarfile.REGTYPE, mode, data)

    def link(self, path, target):
        self._put(path, tarfile.SYMTYPE, 0o777, b"", target)

    def folder(self, path, mode=0o755):
        self._put(path, tarfile.DIRTYPE, mode)

    def program(self, path, source):
        """A program with the shared libraries that it loads, at the paths where it looks for them."""
        self.add(path, source, 0o755)
        told = subprocess.run(["ldd", source], capture_output=True, text=True).stdout
        assert "not found" not in told, told
        for library in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", told, re.M):
            self.add(library, os.path.realpath(library), 0o755)

    def _put(self, path, kind, mode, data=b"", target=""):
        for parent in pathlib.PurePosixPath(path).parents:
            if str(parent) != "/" and str(parent) not in self._entries:
                self.folder(str(parent))
        self._entries[path] = (kind, mode, data, target)

    def bytes(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for path in sorted(self._entries):
                _member(tar, path.lstrip("/"), *self._entries[path])
        return out.getvalue()


def _member(tar, name, kind, mode, data, target=""):
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size, member.linkname = kind, mode, len(data), target
    tar.addfile(member, io.BytesIO(data))


class Archive:
    """Several images in one file; images of the same layer share it."""

    def __init__(self):
        self._blobs, self._manifests = {}, []

    def image(self, name, layer, **config):
        """config: Entrypoint=[…], Cmd=[…], User="65532:65532", as in an image's configuration."""
        described = self._blob(layer if isinstance(layer, bytes) else layer.bytes(),
                               "application/vnd.oci.image.layer.v1.tar")
        machine = {"architecture": SHORT[os.uname().machine], "os": "linux", "config": {"Env": [PATH], **config},
                   "rootfs": {"type": "layers", "diff_ids": [described["digest"]]}}
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "layers": [described], "config": self._blob(machine, "application/vnd.oci.image.config.v1+json")}
        self._manifests.append({**self._blob(manifest, "application/vnd.oci.image.manifest.v1+json"),
                                "annotations": {"io.containerd.image.name": name}})

    def _blob(self, content, kind):
        if not isinstance(content, bytes):
            content = json.dumps(content, sort_keys=True).encode()
        digest = hashlib.sha256(content).hexdigest()
        self._blobs[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    def write(self, path):
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                 "manifests": self._manifests}
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            _member(tar, "oci-layout", tarfile.REGTYPE, 0o644, b'{"imageLayoutVersion":"1.0.0"}')
            _member(tar, "index.json", tarfile.REGTYPE, 0o644, json.dumps(index).encode())
            for digest in sorted(self._blobs):
                _member(tar, f"blobs/sha256/{digest}", tarfile.REGTYPE, 0o644, self._blobs[digest])


PAUSE, TOOLS = "localhost/pause:1", "localhost/tools:1"
OURS = {name: f"localhost/{name}:1" for name in ("fairlead-sidecar", "fairlead-controller", "fairlead-origin")}


def standard(path, binaries):
    """The images that every node has: what holds a pod's namespaces, busybox with its applets, and our programs, each
    as an image of its own that starts it as uid 65532. All three are in each of them, in /usr/local/bin."""
    archive, tools, ours = Archive(), Layer(), Layer()
    busybox = shutil.which("busybox")
    assert busybox and not subprocess.run(["ldd", busybox], capture_output=True).returncode == 0, \
        "a static busybox is needed: Debian's package busybox-static"
    tools.add("/bin/busybox", busybox, 0o755)
    for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if applet != "busybox":
            tools.link(f"/bin/{applet}", "busybox")
    tools.folder("/tmp", 0o1777)
    for file, text in PEOPLE.items():
        tools.add(file, text)
        ours.add(file, text)
    for name in OURS:
        source = pathlib.Path(binaries, name)
        assert os.access(source, os.X_OK), f"{source} is missing: ./dev build, or set FAIRLEAD_BUILD"
        ours.program(f"/usr/local/bin/{name}", str(source))
    archive.image(PAUSE, tools, Entrypoint=["/bin/busybox", "sleep", "2147483647"])
    archive.image(TOOLS, tools, Cmd=["/bin/sh"])
    packed = ours.bytes()
    for name, image in OURS.items():
        archive.image(image, packed, Entrypoint=[f"/usr/local/bin/{name}"], User="65532:65532")
    archive.write(path)
