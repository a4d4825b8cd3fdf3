"""A second, strict reader of HTTP/1.1, written from RFC 9112 and independent of the product and of bed.wire: it says
what a stream of bytes means, and refuses everything that two readers could take differently."""
import re

TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/1\.([01])")
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9]) ([\t -~\x80-\xff]*)")
VALUE = re.compile(rb"[\t -~\x80-\xff]*")
CHUNK_LINE = re.compile(rb'([0-9A-Fa-f]+)((?:[ \t]*;[ \t]*[!#$%&\'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*=[ \t]*'
                        rb'(?:[!#$%&\'*+.^_`|~0-9A-Za-z-]+|"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[\t -~\x80-\xff])*"))?)*)')
HOP = {"connection", "keep-alive", "proxy-connection", "te", "upgrade", "transfer-encoding"}


class Bad(Exception):
    """These bytes are not the canonical form of a message."""


class Message:
    def __init__(self, line, fields):
        self.line, self.fields = line, fields  # fields: (name, value) as sent, without the blanks around the value
        self.body, self.trailers, self.framing, self.length = b"", [], "none", 0
        self.method = self.target = self.status = self.reason = None
        self.minor = 1
        self.end = 0       # where the next message starts
        self.whole = False  # the body has arrived in full

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def get(self, name, default=None):
        return (self.all(name) or [default])[0]

    @property
    def options(self):
        return [o.strip(" \t").lower() for v in self.all("connection") for o in v.split(",")]

    @property
    def end_to_end(self):
        """The fields that an intermediary must not touch, framing left out."""
        drop = HOP | set(self.options) | {"content-length", "trailer"}
        return [(n, v) for n, v in self.fields if n.lower() not in drop]

    def __repr__(self):
        return f"<{self.line} {self.fields} {self.framing} {self.body[:200]!r}{'' if self.whole else ' (cut)'}>"


def parse_field(line):
    match = TOKEN.match(line)
    if not match or line[match.end():match.end() + 1] != b":":
        raise Bad(f"field line {line!r}")
    value = line[match.end() + 1:].strip(b" \t")
    if not VALUE.fullmatch(value):
        raise Bad(f"field value {line!r}")
    return match.group().decode(), value.decode("latin-1")


def parse_head(data, start, pattern):
    """(Message, offset behind the head), or None while the head is not complete."""
    end = data.find(b"\r\n\r\n", start)
    part = data[start:end if end >= 0 else len(data)]
    bare = part.replace(b"\r\n", b"").rstrip(b"\r") if end < 0 else part.replace(b"\r\n", b"")
    if re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", bare):
        raise Bad(f"control byte in a head: {part[:300]!r}")
    if end < 0:
        return None
    first, *lines = part.split(b"\r\n")
    match = pattern.fullmatch(first)
    if not match:
        raise Bad(f"start line {first!r}")
    message = Message(first.decode("latin-1"), [parse_field(line) for line in lines])
    return message, match, end + 4


def framing_of(message):
    lengths, codings = message.all("content-length"), message.all("transfer-encoding")
    if len(lengths) + len(codings) > 1:
        raise Bad(f"framed twice: {lengths} {codings}")
    if codings:
        if codings[0].lower() != "chunked" or message.minor == 0:
            raise Bad(f"transfer coding {codings}")
        message.framing = "chunked"
    elif lengths:
        if not re.fullmatch(r"[0-9]+", lengths[0]) or int(lengths[0]) >= 1 << 63:
            raise Bad(f"length {lengths[0]!r}")
        message.framing, message.length = "length", int(lengths[0])


def take_line(data, at):
    end = data.find(b"\r\n", at)
    if end < 0:
        if b"\n" in data[at:] or b"\r" in data[at:-1]:
            raise Bad(f"line end {data[at:at + 100]!r}")
        return None
    if b"\n" in data[at:end] or b"\r" in data[at:end]:
        raise Bad(f"line end {data[at:end]!r}")
    return data[at:end], end + 2


def read_chunks(message, data, at, allow_extensions):
    body = bytearray()
    while True:
        line = take_line(data, at)
        if line is None:
            break
        match = CHUNK_LINE.fullmatch(line[0])
        if not match or (match.group(2) and not allow_extensions):
            raise Bad(f"chunk line {line[0]!r}")
        at, size = line[1], int(match.group(1), 16)
        if size == 0:
            while (line := take_line(data, at)) is not None:
                at = line[1]
                if not line[0]:
                    message.whole = True
                    break
                message.trailers.append(parse_field(line[0]))
            break
        if len(data) - at < size + 2:
            body += data[at:at + size]
            if data[at + size:at + size + 2] not in (b"", b"\r"):
                raise Bad("chunk data not followed by CRLF")
            break
        if data[at + size:at + size + 2] != b"\r\n":
            raise Bad("chunk data not followed by CRLF")
        body += data[at:at + size]
        at += size + 2
    message.body, message.end = bytes(body), at


def read_body(message, data, at, allow_extensions):
    if message.framing == "chunked":
        read_chunks(message, data, at, allow_extensions)
    else:
        message.body = data[at:at + message.length]
        message.end, message.whole = at + message.length, len(message.body) == message.length


def request(data, start=0, allow_extensions=False):
    """The request at data[start]; None while its head is not complete."""
    got = parse_head(data, start, REQUEST_LINE)
    if got is None:
        return None
    message, match, at = got
    message.method, message.target, message.minor = match.group(1).decode(), match.group(2).decode(), int(match.group(3))
    framing_of(message)
    if len(message.all("host")) != 1 and not (message.minor == 0 and not message.all("host")):
        raise Bad(f"hosts {message.all('host')}")
    read_body(message, data, at, allow_extensions)
    return message


def requests(data, allow_extensions=False):
    """All whole requests, and the offset behind the last one."""
    found, at = [], 0
    while at < len(data):
        message = request(data, at, allow_extensions)
        if message is None or not message.whole:
            break
        found.append(message)
        at = message.end
    return found, at


def response(data, start, method, ended=None, allow_extensions=False):
    """The response at data[start], interim ones too; None while its head is not complete. `ended`: how the stream
    ended ('fin', 'rst' or None), which completes a body without framing."""
    got = parse_head(data, start, STATUS_LINE)
    if got is None:
        return None
    message, match, at = got
    message.minor, message.status = int(match.group(1)), int(match.group(2))
    message.reason = match.group(3).decode("latin-1")
    if message.status < 200 or message.status == 204:
        if message.all("content-length") or message.all("transfer-encoding"):
            raise Bad(f"framing in a {message.status}")
    framing_of(message)
    if message.status < 200 or message.status in (204, 304) or method == "HEAD":
        message.framing, message.end, message.whole = "none", at, True
    elif message.framing == "none":
        message.framing, message.body, message.end = "close", data[at:], len(data)
        message.whole = ended == "fin"
    else:
        read_body(message, data, at, allow_extensions)
    return message
