"""Row N2 of the acceptance table: every row of the replay table (operation by class) in every phase, against a first peer
that breaks there and a second one that answers. How often each was asked is counted at the peers. "Partly sent" is told by
test_field_retries (BR-14, BR-15): what it takes depends on the kernel's buffers."""
from urllib.parse import quote

import pytest

from bed.config import FREE, peer, s3
from bed.sidecar import chain, next_id

XML = b"<X/>"
IF_NEW, COPY = ("If-None-Match", "*"), ("x-amz-copy-source", "/b/k")
OPERATIONS = {
    "S": [("GET", "/b/k"), ("HEAD", "/b/k"), ("GET", "/b?list-type=2"), ("GET", "/b/k", [("If-None-Match", '"e"')]),
          ("POST", "/b/k?select&select-type=2", [], XML)],
    "I": [("PUT", "/b/k", [], b"x"), ("PUT", "/b/k?partNumber=1&uploadId=u", [], b"x"), ("PUT", "/b/k", [COPY]),
          ("PUT", "/b/k?partNumber=1&uploadId=u", [COPY]), ("DELETE", "/b/k"), ("PUT", "/b?policy", [], XML)],
    "C": [("PUT", "/b/k", [IF_NEW], b"x"), ("PUT", "/b/k", [COPY, ("x-amz-copy-source-if-match", '"e"')]),
          ("DELETE", "/b/k", [("If-Match", '"e"')]), ("POST", "/b/k?uploadId=u", [], XML),
          ("DELETE", "/b/k?uploadId=u"), ("PUT", "/b"), ("DELETE", "/b"), ("POST", "/b?delete", [], XML),
          ("POST", "/b/k?restore", [], XML)],
    "N": [("POST", "/b/k?uploads"), ("PUT", "/b/k", [("x-amz-write-offset-bytes", "5")], b"x"),
          ("PUT", "/b/k?renameObject", [("x-amz-rename-source", "/b/o")]),
          ("POST", "/b", [("Content-Type", "multipart/form-data; boundary=z")], b"--z--\r\n"), ("PATCH", "/b/k", [], b"x"),
          ("POST", "/b/k?whatever", [], b"x"), ("PUT", "/b/k?whatever", [], b"x")],
}
# phase: rule of the first peer; None: its port is closed
PHASES = {"nothing sent": None, "100-continue pending": "continue=never fin_response=0 early", "fully sent": "fin_response=0"}
# which classes are tried at the second peer, by phase and replay_after_send
REPEATED = {"nothing sent": {"never": "SICN", "always": "SICN"},
            "100-continue pending": {"never": "SICN", "always": "SICN"},
            "fully sent": {"never": "S", "reset": "SI", "always": "SI"}}
CASES = [(phase, after) for phase, row in REPEATED.items() for after in row]


def send(s, method, target, headers, body, wait):
    """wait: with Expect, and the body only when it is asked for."""
    if not wait:
        return s.traced(method, target, headers, body)
    rid = next_id()
    with s.wire() as wire:
        wire.request(method, target, [*headers, ("x-request-id", rid), ("Expect", "100-continue"),
                                      ("Content-Length", str(len(body)))])
        head = wire.read_interim()
        if head.status == 100:
            wire.send(body)
            head = wire.response(method)
    return head, s.line_of(rid)


@pytest.mark.parametrize("phase, after", CASES)
def test_N2_retry_classes(sidecar, origins, dead, phase, after):
    rule = PHASES[phase]
    first, second = origins(2)
    where = first.address if rule else dead()
    if rule:
        first.rules(rule)
    s = sidecar(s3(peer(where), peer(second, backup=True), same_store=True, max_fails=0, **FREE,
                   route={"replay_after_send": after, "deadline": "5s"}))
    wrong = []
    for kind, operations in OPERATIONS.items():
        for method, target, *rest in operations:
            headers, body = (rest + [[], b""][len(rest):])[:2] if rest else ([], None)
            if phase == "100-continue pending" and not body:
                continue  # without a body the head is the whole request
            target = target.replace("/b/k", f"/b/{kind}{len(s.access())}")  # new to the store: no 412 of its own
            first.forget(), second.forget()
            response, line = send(s, method, target, headers, body or None, wait=phase == "100-continue pending")
            repeated = kind in REPEATED[phase][after]
            asked = (first.requests if rule else None, second.requests)
            shown = s.admin(f"/_/api/admin/explain?method={method}&target={quote(target)}" +
                            "".join(f"&header={n}:{quote(v)}" for n, v in headers))
            if asked != (1 if rule else None, 1 if repeated else 0) or \
                    (response.status < 300) != repeated or len(chain(line)) != 1 + repeated or \
                    shown["replay_class"] != kind:
                wrong.append(f"{kind} {method} {target} {headers}: {response.status} asked {asked} as "
                             f"{shown['operation']} {shown['replay_class']}, tries {chain(line)}")
            if not repeated:
                assert response.header("X-Fairlead-Error") == "upstream_failed"  # and never a 412 of our doing
    assert not wrong, "\n".join(wrong)
