"""Bodies of objects: files of random bytes, each different, whose SHA-256 is known."""
import hashlib
import os
import random

KIB, MIB = 1 << 10, 1 << 20
SHA_OF_NOTHING = hashlib.sha256(b"").hexdigest()


class Body:
    def __init__(self, path, data):
        self.path, self.size, self.sha256 = path, len(data), hashlib.sha256(data).hexdigest()
        with open(path, "wb") as f:
            f.write(data)

    def data(self):
        with open(self.path, "rb") as f:
            return f.read()


class Bodies:
    def __init__(self, folder, seed=1):
        self.folder, self.random, self.count = folder, random.Random(seed), 0

    def new(self, size):
        self.count += 1
        return Body(os.path.join(self.folder, f"body-{self.count}"), self.random.randbytes(size))

    def joined(self, *bodies):
        """The object that a multipart upload of these parts makes."""
        self.count += 1
        return Body(os.path.join(self.folder, f"body-{self.count}"), b"".join(b.data() for b in bodies))
