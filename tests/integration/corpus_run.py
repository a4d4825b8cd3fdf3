"""Plays one vector of data/http_corpus.jsonl on a Stage and says which of its `expect` tokens the sidecar met.

expect: accepted outcomes, the preferred one first.
  reject400 …     that status, then the connection ends; no complete request reaches the upstream
  answer_local    the sidecar answers itself
  forward_once    `:requests` complete requests upstream, target and end-to-end fields byte for byte
  forward_normalized  the same with the changes that must_forward_as names
  close_after     handled as far as it is valid, then the connection (requests: the client's; responses: the
                  upstream's, the client's too when the answer is cut) is closed, and nothing after it is interpreted
  relay_ok        one final response with correct framing
  bad_gateway_502 the response is discarded, the upstream connection closed, a 502 names the backend
must_forward_as: lower-case field = value, list of alternatives, null = absent, "*" = present; names that begin with a
colon: request-line target version status body requests interim attempts complete conn upstream.
"""
import json
import pathlib

import strict_http
from stage import Script, echo

DATA = pathlib.Path(__file__).parent / "data" / "http_corpus.jsonl"
FIRST = b"GET /b/first HTTP/1.1\r\nHost: s3.local\r\n\r\n"
FOLLOW = b"GET /b/follow HTTP/1.1\r\nHost: s3.local\r\n\r\n"


class Vector:
    def __init__(self, entry):
        self.id, self.group, self.side, self.note = entry["id"], entry["group"], entry["side"], entry["note"]
        self.raw = entry["raw"].encode("latin-1")
        self.expect = entry["expect"] if isinstance(entry["expect"], list) else [entry["expect"]]
        self.must = entry.get("must_forward_as", {})
        self.context = entry.get("context", {})

    @property
    def forwards(self):
        return self.expect[0].startswith("forward")


def load(side):
    with open(DATA, encoding="utf-8") as f:
        vectors = [Vector(json.loads(line)) for line in f]
    return [v for v in vectors if v.side == side]


class Run:
    """What was seen: final and interim responses, the rest of the client's stream, requests and heads upstream."""

    def __init__(self, stage, client, before):
        self.stage, self.client, self.before = stage, client, before  # before: requests that came first
        self.methods, self.heads, self.played = [], 0, []
        self.frozen = None

    def look(self):
        try:
            return self.stage.responses(self.client, self.methods)
        except strict_http.Bad as e:
            return [], [], f"not canonical HTTP to the client: {e}: {self.client.data[:400]!r}"

    @property
    def finals(self):
        return self.look()[0]

    def freeze(self):
        """The state that is judged, before follow-up requests."""
        finals, interim, rest = self.look()
        self.frozen = (finals[self.before:], interim, rest, list(self.stage.seen[self.before:]), self.client.ended)


def pieces_of(raw, form):
    if form == "lines":
        parts = raw.split(b"\r\n")
        return [p + b"\r\n" for p in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    size = 1 if len(raw) < 4000 else 7 if len(raw) < 20000 else 997
    return [raw[i:i + size] for i in range(0, len(raw), size)]


# -- requests ---------------------------------------------------------------------------------------------------------
def reference(raw):
    """The requests in these bytes, read by the strict reader; the empty lines before each are no part of it."""
    found, at = [], 0
    while at < len(raw):
        while raw[at:at + 2] == b"\r\n":
            at += 2
        try:
            message = strict_http.request(raw, at, allow_extensions=True)
        except strict_http.Bad:
            break
        if message is None or not message.whole:
            break
        found.append(message)
        at = message.end
    return found


def asks_to_close(messages):
    last = messages[-1] if messages else None
    return last is not None and ("close" in last.options or (last.minor == 0 and "keep-alive" not in last.options))


def send(stage, client, vector, form):
    """forms: whole, bytes, lines, pipelined (behind a request in the same write), kept (behind one that is done)."""
    if form == "kept":
        client.push(FIRST)
        stage.until(lambda: client.data.endswith(b"/b/first"))
    if form in ("bytes", "lines"):
        stage.send_pieces(client, pieces_of(vector.raw, form))
    else:
        client.push((FIRST if form == "pipelined" else b"") + vector.raw)


def play_request(stage, vector, form):
    client = stage.client(unix=form in ("bytes", "lines"))
    before = 1 if form in ("pipelined", "kept") else 0
    run = Run(stage, client, before)
    expected = reference(vector.raw)
    count = vector.must.get(":requests", 1) if vector.forwards else 0
    run.methods = ["GET"] * before + [m.method for m in expected]
    send(stage, client, vector, form)
    if vector.context.get("client_eof"):
        client.fin()
    if vector.context.get("client_waits_100"):
        stage.until(lambda: client.ended or client.data.endswith(b"\r\n\r\n"))
        body = vector.context["then_send"].encode("latin-1")
        client.push(body)
        expected = reference(vector.raw + body)
        run.methods = ["GET"] * before + [m.method for m in expected]
    run.closes = vector.must.get(":conn") == "close" or not vector.forwards or asks_to_close(expected)
    if vector.id == "cl-int64max":  # a body that cannot end: the client gives up
        stage.settle(0.05)
        client.close()
        stage.until(lambda: not any(u.partial for u in stage.open_upstreams()))
    elif vector.expect[0] == "answer_local":
        stage.until(lambda: len(run.finals) > before or client.ended)
    elif run.closes:
        stage.until(lambda: client.ended)
    else:
        stage.until(lambda: len(run.finals) >= before + count or client.ended)
    stage.settle()
    run.freeze()
    run.expected = expected
    return run


def field_complaints(got, want, vector):
    """End-to-end fields in order; only what the rules of HTTP or the vector name may differ."""
    have = got.end_to_end
    asked = {n.lower() for n, _ in want.fields}
    if "x-request-id" not in asked:
        have = [(n, v) for n, v in have if n.lower() != "x-request-id"]
    absolute = not want.target.startswith(("/", "*"))
    drop = {"content_length", "transfer_encoding"} | ({"expect"} if want.minor == 0 else set())
    if absolute or "host" not in asked:
        drop.add("host")
    need = [(n, v) for n, v in want.end_to_end if n.lower() not in drop]
    have = [(n, v) for n, v in have if n.lower() not in drop]
    complaints = [] if need == have else [f"fields {have} instead of {need}"]
    for name in ("connection", "keep-alive", "proxy-connection", "te", "upgrade"):
        if got.all(name):
            complaints.append(f"hop-by-hop field forwarded: {name}")
    return complaints


DENIED_TRAILERS = {"host", "authorization", "x-forwarded-for"}


def request_complaints(got, want, vector):
    complaints = field_complaints(got, want, vector)
    target = vector.must.get(":target", want.target) if vector.must.get(":requests", 1) == 1 else want.target
    line = f"{want.method} {target} HTTP/1.1"
    if got.line != line:
        complaints.append(f"request line {got.line!r} instead of {line!r}")
    if (got.framing, got.length, got.body) != (want.framing, want.length, want.body):
        complaints.append(f"body {got.framing} {got.length} {got.body!r}, sent {want.framing} {want.length} {want.body!r}")
    trailers = [t for t in want.trailers if t[0].lower() not in DENIED_TRAILERS]
    if got.trailers != trailers:
        complaints.append(f"trailers {got.trailers} instead of {trailers}")
    return complaints


def value_complaint(name, values, want):
    accepted = want if isinstance(want, list) else [want]
    for w in accepted:
        if (w is None and not values) or (w == "*" and values) or (w is not None and values == [w]):
            return []
    return [f"{name}: {values}, accepted {accepted}"]


def must_complaints(vector, message):
    """The keys that name fields of the one request or response."""
    complaints = []
    for name, want in vector.must.items():
        if name == "set-cookie":
            complaints += [] if message.all(name) == want else [f"{name}: {message.all(name)}"]
        elif not name.startswith(":"):
            complaints += value_complaint(name, message.all(name), want)
    body = vector.must.get(":body")
    if body is not None and message.body != body.encode("latin-1"):
        complaints.append(f"body {message.body!r} instead of {body!r}")
    return complaints


def judge_forward(vector, run):
    finals, _, rest, seen, ended = run.frozen
    count = vector.must.get(":requests", 1)
    complaints = []
    if len(seen) != count or len(run.expected) != count:
        return [f"{len(seen)} requests upstream, {len(run.expected)} in the vector, {count} wanted: {seen}"]
    for got, want in zip(seen, run.expected):
        complaints += request_complaints(got, want, vector)
        complaints += must_complaints(vector, got) if count == 1 else []
    own = [f for f in finals if f.get("x-fairlead-error")]
    if vector.id == "ch-trailing-byte":
        finals = [f for f in finals if not f.get("x-fairlead-error")]
        own = [f for f in own if f.status != 400]
    if len(finals) != count or own or any(f.status != 200 for f in finals):
        complaints.append(f"responses {finals}")
    for i, f in enumerate(finals):
        if f.get("x-number") != str(run.before + i + 1):
            complaints.append(f"response {i} is number {f.get('x-number')}")
    if rest is not None:
        complaints.append(f"then {rest}")
    if run.closes != (ended == "fin"):
        complaints.append(f"the client's connection: {ended}")
    return complaints


def judge_reject(vector, run, token):
    finals, _, rest, seen, ended = run.frozen
    status = int(token[len("reject"):])
    complaints = [f"complete request upstream: {m}" for m in seen]
    if [f.status for f in finals] != [status] or rest is not None:
        return complaints + [f"responses {finals}, then {rest}"]
    if not finals[0].get("x-fairlead-error") or "close" not in finals[0].options:
        complaints.append(f"a refusal without its marks: {finals[0].fields}")
    return complaints + ([] if ended == "fin" else [f"the client's connection: {ended}"])


def judge_close_after(vector, run):
    finals, _, rest, seen, ended = run.frozen
    if vector.forwards or ":requests" in vector.must:
        return judge_forward(vector, run) if vector.must.get(":conn") == "close" else ["not judged"]
    complaints = [f"complete request upstream: {m}" for m in seen]
    if finals or rest:
        complaints.append(f"responses {finals} {rest}")
    if ended is None and not run.client.closed:
        complaints.append("the client's connection is open")
    return complaints


def judge_local(vector, run):
    finals, _, rest, seen, _ = run.frozen
    ok = len(finals) == 1 and finals[0].status == 200 and not seen and rest is None
    return [] if ok else [f"responses {finals} {rest}, upstream {seen}"]


def judge_request(vector, run, token):
    if token.startswith("reject"):
        return judge_reject(vector, run, token)
    if token.startswith("forward"):
        return judge_forward(vector, run)
    return judge_local(vector, run) if token == "answer_local" else judge_close_after(vector, run)


# -- responses --------------------------------------------------------------------------------------------------------
class Player(Script):
    """Answers the first head (or whole request) with the vector's bytes, the next one with next_raw."""

    def __init__(self, vector, form, run):
        self.vector, self.form, self.run = vector, form, run
        self.early = bool(vector.context.get("expect") or "request_sent_bytes" in vector.context
                          or vector.context.get("body_buffered") is False)
        self.turn = 1 if vector.context.get("sent_before_request") else 0

    def on_head(self, conn, message):
        self.run.heads += 1
        if self.early:
            self.play(conn)

    def on_request(self, conn, message):
        if message.target == "/b/follow" or message.target.startswith("/b/canary"):
            self.run.heads -= 1
            conn.push(echo(message, len(conn.stage.seen)))
        elif not self.early:
            self.play(conn)

    def play(self, conn):
        self.turn += 1
        if self.turn > 1:
            conn.push(self.vector.context["next_raw"].encode("latin-1"))
            return
        self.run.played.append(conn)
        raw, eof = self.vector.raw, self.vector.context.get("upstream_eof", False)
        if self.form == "whole":
            conn.answer(raw, eof)
        else:
            for piece in pieces_of(raw, self.form):
                conn.push(piece)
                conn.stage.pump(0.0003)
            conn.answer(b"", eof)


def request_for(vector):
    """(head, body that is sent at once) of the request that the vector's context names."""
    c = vector.context
    method, version = c.get("request", "GET"), c.get("client_version", "HTTP/1.1")
    fields, body = ["Host: s3.local"], b""
    if method in ("PUT", "POST"):
        length = c.get("request_content_length", 70000 if c.get("body_buffered") is False else 5)
        fields.append(f"Content-Length: {length}")
        body = (b"hello" * (length // 5 + 1))[:length][:c.get("request_sent_bytes", length)]
    if c.get("expect"):
        fields.append("Expect: 100-continue")
        body = b""
    return f"{method} /b/k {version}\r\n".encode() + "".join(f + "\r\n" for f in fields).encode() + b"\r\n", body


def warm(stage, vector, run):
    """A kept upstream connection that has served a request."""
    client = stage.client()
    client.push(b"GET /b/warm HTTP/1.1\r\nHost: s3.local\r\n\r\n")
    stage.until(lambda: client.data.endswith(b"/b/warm"))
    client.close()
    stage.settle()
    if vector.context.get("sent_before_request"):
        kept = stage.open_upstreams()[0]
        run.played.append(kept)
        kept.answer(vector.raw)
        stage.until(lambda: kept.ended)
    stage.seen.clear()


def play_response(stage, vector, form):
    run = Run(stage, None, 0)
    if vector.context.get("reused_conn"):
        warm(stage, vector, run)
    client = run.client = stage.client()
    run.methods = [vector.context.get("request", "GET")]
    stage.script = Player(vector, form, run)
    head, body = request_for(vector)
    client.push(head + body)
    stage.until(lambda: client.ended or run.finals)
    stage.settle()
    if run.finals and "close" in run.finals[-1].options:
        stage.until(lambda: client.ended)
    run.freeze()
    return run


def reference_response(vector):
    """The final response of the vector as the strict reader sees it, or None."""
    raw = vector.context.get("next_raw", "").encode("latin-1") if vector.context.get("reused_conn") else vector.raw
    at, method = 0, vector.context.get("request", "GET")
    eof = "fin" if vector.context.get("upstream_eof") else None
    try:
        while (message := strict_http.response(raw, at, method, eof, allow_extensions=True)) is not None:
            if message.status >= 200:
                return message
            at = message.end
    except strict_http.Bad:
        pass
    return None


def pseudo_complaints(vector, run):
    finals, interim, _, _, ended = run.frozen
    complaints = []
    attempts = vector.must.get(":attempts")
    if attempts and run.heads not in (attempts if isinstance(attempts, list) else [attempts]):
        complaints.append(f"{run.heads} attempts")
    if vector.must.get(":interim", len(interim)) != len(interim):
        complaints.append(f"interim responses {interim}")
    if vector.must.get(":conn") == "close" and ended is None:
        complaints.append("the client's connection is open")
    if vector.must.get(":upstream") == "close" and not all(c.ended or c.closed for c in run.played):
        complaints.append("the upstream connection is open")
    return complaints


def judge_relay(vector, run):
    finals, interim, rest, _, ended = run.frozen
    complaints = pseudo_complaints(vector, run)
    if len(finals) != 1 or rest is not None:
        return complaints + [f"responses {finals}, then {rest}"]
    got, want = finals[0], reference_response(vector)
    if got.get("x-fairlead-error") or got.minor != 1:
        complaints.append(f"not relayed: {got} {got.fields}")
    if got.status != vector.must.get(":status", want.status if want else got.status):
        complaints.append(f"status {got.status}")
    if want is not None:
        if (got.reason, got.end_to_end, got.body) != (want.reason, want.end_to_end, want.body):
            complaints.append(f"{got.reason!r} {got.end_to_end} {got.body!r} instead of {want.reason!r} "
                              f"{want.end_to_end} {want.body!r}")
        if got.all("content-length") != want.all("content-length") and want.status != 204:
            complaints.append(f"length {got.all('content-length')}")
    for f in interim:
        if vector.raw.find(f.line.encode("latin-1")) < 0:
            complaints.append(f"an interim response from nowhere: {f.line}")
    return complaints + must_complaints(vector, got)


def judge_bad_gateway(vector, run):
    finals, _, rest, _, ended = run.frozen
    complaints = pseudo_complaints(vector, run)
    if [f.status for f in finals] != [502] or rest is not None:
        return complaints + [f"responses {finals}, then {rest}"]
    for name in ("x-fairlead-error", "x-fairlead-backend", "x-fairlead-cause"):
        if not finals[0].get(name):
            complaints.append(f"a 502 without {name}: {finals[0].fields}")
    if not all(c.ended or c.closed for c in run.played):
        complaints.append("the upstream connection is open")
    return complaints


def judge_cut(vector, run):
    finals, _, rest, _, ended = run.frozen
    complaints = pseudo_complaints(vector, run)
    if not all(c.ended or c.closed for c in run.played):
        complaints.append("the upstream connection is open")
    if vector.must.get(":complete") is False or not finals:
        if finals or ended is None or rest is None:
            complaints.append(f"a clean end: {finals}, rest {rest}, {ended}")
        elif hasattr(rest, "framing") and rest.framing == "close" and ended == "fin":
            complaints.append("the cut is not visible")
        return complaints
    if len(finals) != 1 or rest is not None or finals[0].get("x-fairlead-error"):
        return complaints + [f"responses {finals}, then {rest}"]
    if finals[0].status != vector.must.get(":status", finals[0].status):
        complaints.append(f"status {finals[0].status}")
    return complaints + must_complaints(vector, finals[0])


def judge_response(vector, run, token):
    return {"relay_ok": judge_relay, "bad_gateway_502": judge_bad_gateway, "close_after": judge_cut}[token](vector, run)


# -- what must hold after every run -----------------------------------------------------------------------------------
def aftermath(stage, run, number):
    """A connection that may be used on works; a new one gets its own answer from a clean upstream; nothing half sent
    stays on an open upstream connection."""
    client = run.client
    stage.script = Script()
    announced_close = bool(run.finals) and "close" in run.finals[-1].options
    if client.ended is None and not client.closed and not announced_close and run.finals:
        have = len(run.finals)
        run.methods = run.methods[:have] + ["GET"]
        client.push(FOLLOW)
        stage.until(lambda: len(run.finals) > have or client.ended)
        assert len(run.finals) == have + 1 and run.finals[-1].body.endswith(b"GET /b/follow"), \
            f"the next request on the same connection: {client.data[-400:]!r} {client.ended}"
        assert stage.seen[-1].line == "GET /b/follow HTTP/1.1"
    stage.seen.clear()
    canary = stage.client()
    canary.push(f"GET /b/canary-{number} HTTP/1.1\r\nHost: s3.local\r\n\r\n".encode())
    stage.until(lambda: canary.data.endswith(f"/b/canary-{number}".encode()) or canary.ended)
    stage.settle()
    finals, _, rest = stage.responses(canary, ["GET"])
    assert [f.body for f in finals] == [f"1 GET /b/canary-{number}".encode()] and rest is None, canary.data
    assert [m.line for m in stage.seen] == [f"GET /b/canary-{number} HTTP/1.1"], stage.seen
    for u in stage.upstreams:
        assert u.bad is None, f"the upstream got bytes that are not canonical: {u.bad}"
        assert not u.partial or u.ended or u.closed, f"half a request on an open connection: {u.partial[:300]!r}"
