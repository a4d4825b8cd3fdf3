"""The HTTP/1.1 conformance vectors of data/http_corpus.jsonl against the real process, each in several forms: in one
write, byte by byte, split at every line end, and (requests) behind another request on the same connection. The runner
is corpus_run.py; the upstream is scripted by stage.py and looked at byte by byte."""
import pytest

import corpus_run
from bed.config import http, s3
from stage import staged

REQUESTS, RESPONSES = corpus_run.load("request"), corpus_run.load("response")

# Where the design of Fairlead decides otherwise than the vector.
NO_BODY_LIMIT = "request bodies on data listeners have no limit (413 is for admin and push bodies)"
DESIGN = {
    "bl-cl-over": (["forward_once"], {":body": "hello"}, NO_BODY_LIMIT),
    "bl-chunked-many": (["forward_once"], {":body": "aaaaaaaa"}, NO_BODY_LIMIT),
    "bl-expect-over": (["forward_once"], {":body": "hello", "expect": "100-continue"}, NO_BODY_LIMIT),
    "bl-over-then-get": (["forward_once"], {":requests": 2}, NO_BODY_LIMIT),
}

# Vectors of which only a later choice is met: id -> (token, why the first is not possible).
STREAMED = "the head of the answer has gone on to the client when its body turns out to be broken"
LATER = {
    "rf-ch-neg": ("close_after", STREAMED),
    "rf-ch-spill": ("close_after", STREAMED),
    "rl-bad-pct": ("reject400", "http routes read the path as nginx does, which refuses what it cannot decode; s3 routes "
                   "forward it (test_s3_route)"),
}


shared = staged(http, {})
impatient = staged(http, {"client": {"head_timeout": "1s"}})
store = staged(s3, {})
_numbers = iter(range(1, 1 << 30))


def check(stage, vector, form, play, judge, later=True):
    assert stage.sidecar.running, stage.sidecar.report()
    if vector.id in DESIGN:
        vector.expect, vector.must = DESIGN[vector.id][:2]
    run = play(stage, vector, form)
    complaints = {}
    for token in vector.expect:
        found = judge(vector, run, token)
        if not found:
            break
        complaints[token] = found
    try:
        assert len(complaints) < len(vector.expect), f"{vector.id}: {vector.note}\n{vector.raw[:600]!r}\n" + \
            "\n".join(f"{t}: {'; '.join(c)}" for t, c in complaints.items())
        if complaints:
            assert later and LATER.get(vector.id, ("",))[0] == token, f"only {token} is met: {complaints}"
        corpus_run.aftermath(stage, run, next(_numbers))
    finally:
        stage.curtain()


@pytest.mark.parametrize("form", ["whole", "bytes", "lines", "pipelined", "kept"])
@pytest.mark.parametrize("vector", REQUESTS, ids=lambda v: v.id)
def test_request(request, vector, form):
    name = "impatient" if vector.context.get("client_idle") else "store" if vector.group == "s3" else "shared"
    stage = request.getfixturevalue(name)
    check(stage, vector, form, corpus_run.play_request, corpus_run.judge_request)


@pytest.mark.parametrize("vector", [v for v in REQUESTS if v.group != "s3" and "client_idle" not in v.context],
                         ids=lambda v: v.id)
def test_s3_route(store, vector):
    """The same on s3 routes, and %zz is forwarded there: nothing of a key is decoded."""
    check(store, vector, "whole", corpus_run.play_request, corpus_run.judge_request, later=False)


@pytest.mark.parametrize("form", ["whole", "bytes", "lines"])
@pytest.mark.parametrize("vector", RESPONSES, ids=lambda v: v.id)
def test_response(shared, vector, form):
    check(shared, vector, form, corpus_run.play_response, corpus_run.judge_response)


def wanted(vector):
    """(statuses, request lines upstream) of a vector, from its first choice or what replaces it."""
    token = LATER.get(vector.id, vector.expect)[0]
    expected = corpus_run.reference(vector.raw)
    if token.startswith("reject"):
        return [int(token[6:])], []
    if token == "answer_local":
        return [200], []
    lines = [f"{m.method} {vector.must.get(':target', m.target) if len(expected) == 1 else m.target} HTTP/1.1"
             for m in expected]
    return [200] * len(lines) + ([400] if vector.id == "ch-trailing-byte" else []), lines


@pytest.mark.parametrize("turn", [0, 1])
def test_all_at_once(shared, turn):
    """Every vector on a connection of its own at the same time, half of them byte by byte in turns: each client gets its
    own answers, and the upstream exactly the requests of all, however they share its connections."""
    left_out = {*DESIGN, "s3-pct-nul"}  # the latter is for s3 routes
    vectors = [v for v in REQUESTS if v.id == "hh-close" or not v.context and v.id not in left_out
               and v.expect[0] != "close_after"]
    stage, players, slow = shared, [], []
    for i, v in enumerate(vectors):
        client = stage.client(unix=i % 2 == turn)
        players.append((v, corpus_run.Run(stage, client, 0)))
        players[-1][1].methods = [m.method for m in corpus_run.reference(v.raw)]
        if i % 2 == turn and len(v.raw) < 600:
            slow.append((client, v.raw))
        else:
            client.push(v.raw)
    for at in range(max(len(raw) for _, raw in slow)):
        for client, raw in slow:
            if client.ended is None and not client.refused:
                client.push(raw[at:at + 1])
        stage.pump(0)
    stage.until(lambda: all(r.client.ended or len(r.finals) >= len(wanted(v)[0]) for v, r in players), 15)
    stage.settle()
    for v, run in players:
        finals, _, rest = run.look()
        assert [f.status for f in finals] == wanted(v)[0] and rest is None, (v.id, finals, rest)
    lines = sorted(line for v, _ in players for line in wanted(v)[1])
    assert sorted(m.line for m in stage.seen) == lines
    corpus_run.aftermath(stage, corpus_run.Run(stage, stage.client(), 0), next(_numbers))
    stage.curtain()


def test_the_corpus_is_whole():
    ids = [v.id for v in REQUESTS + RESPONSES]
    assert len(ids) == len(set(ids)) == 331
    assert set(DESIGN) | set(LATER) <= set(ids)
