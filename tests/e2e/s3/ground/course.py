"""The list that every client passes: each operation once, every object compared by SHA-256. `fault(place)` is called
at named places, so that a test can do something to the peers in the middle."""
import hashlib
import urllib.request

from .bodies import KIB, MIB

PLACES = ("small", "large", "stream", "read", "upload", "parts", "parts-middle", "copy", "once", "list", "presign",
          "delete")
OPERATION_OF = {"small": "put", "large": "put", "read": "get", "parts": "create", "delete": "delete_many"}
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Course:
    def __init__(self, client, bodies, prefix, fault=lambda place: None):
        self.client, self.bodies, self.prefix, self.fault = client, bodies, prefix, fault
        self.objects = {}  # key: Body, of what is known to be in the store

    # -- steps ------------------------------------------------------------------------------------------------
    def run(self):
        for place in PLACES:
            if place == "parts-middle" and self.has("parts"):
                continue  # happens inside of its step
            self.fault(place)
            if self.has(place):
                getattr(self, "step_" + place)()

    def has(self, place):
        if place == "presign":
            return bool(self.client.can & {"presign", "presign_get"})
        return OPERATION_OF.get(place, place) in self.client.can

    def step_small(self):
        for name, size in (("a.bin", 1 * KIB), ("b c+d.bin", 40 * KIB), ("sub/\u00e9=1&2.bin", 100 * KIB)):
            self.put("put", name, self.bodies.new(size))

    def step_large(self):
        """Beyond what is kept for a second try; with Expect: 100-continue where the client uses it."""
        self.put("put", "large.bin", self.bodies.new(3 * MIB))

    def step_stream(self):
        self.put("stream", "stream.bin", self.bodies.new(1500 * KIB))
        self.put("stream", "stream-small.bin", self.bodies.new(30 * KIB))

    def step_read(self):
        self.compare_all()
        body = self.objects[self.key("large.bin")]
        got = self.ok("get", key=self.key("large.bin"), range="bytes=1000000-1999999")
        part = body.data()[1000000:2000000]
        self.same(got, "a range", len(part), sha(part))
        assert self.ok("head", key=self.key("large.bin"))["size"] == body.size

    def step_upload(self):
        """The client's own multipart upload: parts in any order, over several connections, so over several peers."""
        self.put("upload", "upload.bin", self.bodies.new(11 * MIB))

    def step_parts(self):
        key, parts = self.key("parts.bin"), [self.bodies.new(5 * MIB), self.bodies.new(5 * MIB), self.bodies.new(70 * KIB)]
        upload = self.ok("create", key=key)["upload"]
        etags = []
        for i, part in enumerate(parts):
            if i == 1:
                self.fault("parts-middle")
            etags.append(self.ok("part", key=key, upload=upload, part=i + 1, file=part.path)["etag"])
        self.ok("complete", key=key, upload=upload, etags=etags)
        self.objects[key] = self.bodies.joined(*parts)
        self.compare(key)

    def step_copy(self):
        source, key = self.key("b c+d.bin"), self.key("copy of b.bin")
        self.ok("copy", key=key, source=source)
        self.objects[key] = self.objects[source]
        self.compare(key)

    def step_once(self):
        """If-None-Match: * makes an object once; the second try is refused and changes nothing."""
        key = self.key("lock")
        self.put("put", "lock", self.bodies.new(900), once=True)
        again = self.client.do("put", key=key, file=self.bodies.new(900).path, once=True)
        assert not again and again.status == 412, f"the second conditional PUT: {again!r}"
        self.compare(key)

    def step_list(self):
        got = self.ok("list", prefix=self.prefix, page=3)["keys"]
        assert sorted(got) == sorted(self.objects), f"listed {got}, stored {list(self.objects)}"

    def step_presign(self):
        key = self.key("a.bin")
        with _direct.open(self.ok("presign", key=key, method="GET")["url"], timeout=30) as answer:
            assert sha(answer.read()) == self.objects[key].sha256
        if "presign" in self.client.can:
            body, key = self.bodies.new(50 * KIB), self.key("presigned.bin")
            url = self.ok("presign", key=key, method="PUT")["url"]
            with _direct.open(urllib.request.Request(url, data=body.data(), method="PUT",
                                                     headers={"Content-Type": ""}), timeout=30) as answer:
                assert answer.status == 200
            self.objects[key] = body
            self.compare(key)

    def step_delete(self):
        self.compare_all()
        gone = self.ok("delete_many", keys=list(self.objects))
        assert gone["deleted"] == len(self.objects) and not gone["errors"], repr(gone)
        assert self.ok("list", prefix=self.prefix, page=1000)["keys"] == []

    # -- pieces -----------------------------------------------------------------------------------------------
    def key(self, name):
        return self.prefix + name

    def ok(self, op, **fields):
        answer = self.client.do(op, **fields)
        assert answer, f"{self.client.name}: {op} {fields}: {answer!r}"
        return answer

    def put(self, op, name, body, **fields):
        self.ok(op, key=self.key(name), file=body.path, **fields)
        self.objects[self.key(name)] = body

    def same(self, answer, what, size, sha256):
        assert (answer["size"], answer["sha256"]) == (size, sha256), f"WRONG BYTES in {what}: {answer!r}"

    def compare(self, key):
        body = self.objects[key]
        self.same(self.ok("get", key=key), key, body.size, body.sha256)

    def compare_all(self):
        for key in self.objects:
            self.compare(key)


def sha(data):
    return hashlib.sha256(data).hexdigest()
