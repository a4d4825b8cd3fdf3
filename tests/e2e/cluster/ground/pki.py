"""Certificates by openssl: one authority, leaves for servers and clients, EC keys because they are quick to make."""
import os
import pathlib
import subprocess

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*words, at=None):
    """at: an offset such as "-3d" for faketime, to make certificates of another day."""
    prefix = ["faketime", "-f", at] if at else []
    done = subprocess.run([*prefix, "openssl", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, f"openssl {' '.join(map(str, words))}: {done.stderr}"
    return done.stdout


class Authority:
    """FOLDER/NAME.crt and .key; leaf() makes FOLDER/LEAF.crt and .key signed by it, replacing older ones at once."""

    def __init__(self, folder, name="ca", subject="/CN=ground-ca"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.crt, self.key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        openssl("req", "-x509", *NEW_KEY, "-subj", subject, "-days", 30, "-keyout", self.key, "-out", self.crt,
                "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def leaf(self, name, subject, usage, names="", days=30, at=None):
        """usage: "serverAuth" or "clientAuth"; names: subjectAltName as openssl writes it; at: see openssl()."""
        crt, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        extensions = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext",
                      "keyUsage=critical,digitalSignature", "-addext", f"extendedKeyUsage={usage}"]
        if names:
            extensions += ["-addext", f"subjectAltName={names}"]
        openssl("req", "-x509", *NEW_KEY, "-subj", subject, "-days", days, "-CA", self.crt, "-CAkey", self.key,
                "-keyout", f"{key}.new", "-out", f"{crt}.new", *extensions, at=at)
        os.replace(f"{key}.new", key)
        os.replace(f"{crt}.new", crt)
        return crt, key


def signing_key(folder, name="sa"):
    """The key pair that signs service-account tokens."""
    key, public = pathlib.Path(folder, f"{name}.key"), pathlib.Path(folder, f"{name}.pub")
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    return key, public
