"""Thirty and more broken configurations: each is refused with the place and a remedy, and nothing is changed."""
import json
import signal

import pytest

from bed.config import http
from bed.wire import Wire
from test_apply import YAML, put, running

# what is sent (in place of {A}: the address of a good peer); the place; words of the finding
GOOD = """\
backends:
  pool:
    protocol: http
    peers: [{{address: "{a}"}}]
    probe: {{type: none}}
routes:
  "*": {{backend: pool}}
"""


def good(**lines):
    """GOOD with lines replaced (by number, from 1) or added (`more`)."""
    text = GOOD.splitlines()
    for number, line in lines.items():
        if number == "more":
            text += [line]
        else:
            text[int(number[1:]) - 1] = line
    return "\n".join(text) + "\n"


BROKEN = {
    "no YAML": ("routes: [", None, ["not valid YAML"]),
    "tabs": ("backends:\n\tpool: 1\n", 2, ["tab"]),
    "two documents": (good(more="---\na: 1"), 8, ["second document", "only one"]),
    "an anchor": (good(l5="    probe: &p {{type: none}}"), 5, ["anchors", "write the value itself"]),
    "a list in place of a mapping": ("- a\n- b\n", 1, ["mapping"]),
    "a bare word": ("backends\n", 1, ["mapping"]),
    "an unknown key at the top": (good(more="slow_requests: 5s"), 8, ["slow_requests", 'did you mean', "slow_request"]),
    "an unknown key of a backend": (good(l5="    max_fail: 3"), 5, ['"max_fail" in backends.pool', "did you mean", "max_fails"]),
    "an unknown key of a route": (good(l7='  "*": {{backend: pool, deadlin: 3s}}'), 7, ["deadlin", "deadline"]),
    "an unknown key of a peer": (good(l4='    peers: [{{adress: "{a}"}}]'), 4, ["adress", "address"]),
    "the same key twice": (good(l5="    protocol: s3"), 5, ["protocol"]),
    "two backends of one name": (good(l6="  pool: {{}}\nroutes:"), 6, ["pool"]),
    "a word for a number": (good(l5="    max_fails: many"), 5, ["backends.pool.max_fails", "many"]),
    "a number without a unit": (good(l5="    fail_timeout: 10"), 5, ["backends.pool.fail_timeout", "10s"]),
    "too long": (good(l5="    fail_timeout: 25h"), 5, ["fail_timeout", "24h"]),
    "too short": (good(l5="    fail_timeout: 1ms"), 5, ["fail_timeout", "100ms"]),
    "negative": (good(l5="    max_fails: -1"), 5, ["max_fails"]),
    "a word that is none of the words": (good(l3="    protocol: htp"), 3, ["htp", "http"]),
    "an unknown condition": (good(l7='  "*": {{backend: pool, next_upstream: [error, http_999]}}'), 7,
                             ["http_999"]),
    "a ratio without percent": (good(l5="    retry_budget: {{ratio: 1.5}}"), 5, ["ratio", "20%"]),
    "an address without a port": (good(l4='    peers: [{{address: "10.0.0.1"}}]'), 4, ["10.0.0.1", "write 10.0.1.10:9000"]),
    "port 0": (good(l4='    peers: [{{address: "10.0.0.1:0"}}]'), 4, ["10.0.0.1:0"]),
    "one address twice": (good(l4='    peers: [{{address: "{a}"}}, {{address: "{a}"}}]'), 4, ["{a}"]),
    "ourselves": (good(l4='    peers: [{{address: "{self}"}}]'), 2, ["peers[0].address", "{self}", "own listener"]),
    "a route to nobody": (good(l7='  "*": {{backend: poll}}'), 7, ["poll", "pool"]),
    "a route without a backend": (good(l7='  "*": {{read_timeout: 3s}}'), 7, ["backend"]),
    "a bucket that cannot be one": (good(more='  "_x": {{backend: pool}}'), 8, ["_x"]),
    "hold without a queue": (good(l5="    queue: {{hold: 3s}}"), 5, ["hold", "size"]),
    "verification without a name": (good(l5="    tls: {{verify: true}}"), 5, ["server_name"]),
    "a TLS file that is not there": (good(l5="    tls: {{ca_file: /nowhere/ca.pem, server_name: a.example}}"), None,
                                     ["ca_file", "/nowhere/ca.pem", "No such file"]),
    "a key file that is not there": (good(more="push: {{public_key_file: /nowhere/key.pem}}"), None,
                                     ["push.public_key_file", "/nowhere/key.pem", "No such file"]),
    "control characters": ("backends: \"\\x07\x01\"\n", None, []),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_configurations_are_refused(sidecar, origin, name):
    text, line, words = BROKEN[name]
    o = origin("a")
    s = sidecar(http(o))
    own = f"127.0.0.1:{s.data_port}"
    fill = lambda t: t.replace("{a}", o.address).replace("{self}", own).replace("{{", "{").replace("}}", "}")
    before = running(s)
    response = put(s, fill(text))
    assert response.status == 400, repr(response)
    problem = json.loads(response.body)
    assert "nothing was changed" in problem["detail"]
    findings = problem["findings"]
    assert findings
    if line is not None:
        assert any(f.startswith(f"PUT config:{line}: error: ") for f in findings), findings
    assert all(any(fill(w) in f for f in findings) for w in words), (words, findings)
    assert running(s) == before and s.get("/x").origin == "a"
    s.write_config(fill(text))
    s.signal(signal.SIGHUP)
    logged = s.wait_event("config refused", source="file")
    assert logged["cause"] == findings[0].replace("PUT config", s.config_file, 1), "the same words by SIGHUP"
    assert running(s) == before


def test_an_empty_body_is_not_an_empty_configuration(sidecar, origin):
    s = sidecar(http(origin("a")))
    before = running(s)
    response = put(s, "")
    assert response.status == 400 and b"the body is empty" in response.body, repr(response)
    assert running(s) == before


def test_all_findings_come_at_once(sidecar, origin):
    s = sidecar(http(origin("a")))
    response = put(s, "slow_request: never\nbackends: {pool: {max_fails: x, protocl: http}}\nroutes: {a: {backend: b}}\n")
    problem = json.loads(response.body)
    assert {f.split(": ")[0] for f in problem["findings"]} == {f"PUT config:{n}" for n in (1, 2, 3)}, problem
    assert "and 4 more (nothing was changed)" in problem["detail"]


def test_an_empty_mapping_is_a_configuration_and_says_what_it_means(sidecar, origin):
    s = sidecar(http(origin("a")))
    response = put(s, "{}")
    assert response.status == 200 and s.get("/x").status == 421
    assert "routes: there are none, so every request is answered 421" in response.text


def test_a_body_over_the_limit_is_413(sidecar, origin):
    s = sidecar(http(origin("a")))
    with Wire(("127.0.0.1", s.admin_port)) as wire:
        wire.request("PUT", "/_/api/admin/config", {**YAML, "Content-Length": str((4 << 20) + 1)}, host="127.0.0.1")
        response = wire.response()
    assert response.status == 413 and json.loads(response.body)["token"] == "payload_too_large"
    big = GOOD.replace("{a}", "127.0.0.1:1").replace("{{", "{").replace("}}", "}") + "# " + "x" * (1 << 20) + "\n"
    assert put(s, big).status == 200, "a megabyte is not too long"


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "a: &a [*a]\n", "a: \"" + "\\x00" * 99 + "\"\n",
                                  "\xff\xfe\x00", "%YAML 9.9\n---\na: 1\n", "? [a, b]\n: c\n", "a: !!python/object x\n"])
def test_hostile_documents(sidecar, origin, text):
    s = sidecar(http(origin("a")))
    before = running(s)
    assert put(s, text.encode("latin-1")).status == 400
    assert running(s) == before
