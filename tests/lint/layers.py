#!/usr/bin/env python3
"""Include lines against the layer table of docs/ARCHITECTURE.md section 3. Usage: layers.py [ROOT]"""
import os
import re
import sys

from csource import bare, fail_empty, files, read, report, root_of

BASE = {"common/base"}
PURE_COMMON = BASE | {"common/model", "common/http1", "common/verdict"}
CODECS = {"common/codec", "common/sign"}
IO = {"common/io"}
BRIDGE = {"common/io/bridge"}
TLS = {"common/tls"}

# room: (layer, rooms that it may include besides itself)
ROOMS = {
    "common/base": ("0", set()),
    "common/model": ("1", BASE),
    "common/http1": ("1", BASE),
    "common/verdict": ("1", BASE | {"common/model", "common/http1"}),
    "sidecar/policy": ("1", PURE_COMMON),
    "controller/decide": ("1", PURE_COMMON),
    "common/codec": ("1b", BASE | {"common/model"}),
    "common/sign": ("1b", BASE),
    "controller/codec": ("1b", BASE | {"common/model", "common/codec", "controller/decide"}),
    "common/io": ("2", BASE),
    "common/io/bridge": ("2", BASE | IO),
    "common/tls": ("2", BASE | IO | {"common/model"}),  # of the model: the words of its faults, the keys of tls
    "common/probe": ("3", PURE_COMMON | CODECS | IO | TLS),
    "sidecar/proxy": ("3", PURE_COMMON | IO | TLS | {"sidecar/policy"}),  # no JSON or YAML on data threads
    "controller/kube": ("3", PURE_COMMON | CODECS | IO | BRIDGE | {"controller/decide", "controller/codec"}),
}
BELOW_4 = PURE_COMMON | CODECS | IO | BRIDGE | TLS | {"common/probe"}
SIDECAR_BELOW_4 = BELOW_4 | {"sidecar/policy", "sidecar/proxy"}
CONTROLLER_BELOW_4 = BELOW_4 | {"controller/decide", "controller/codec", "controller/kube"}
CONTROLLER_4 = {"controller/push", "controller/delivery", "controller/hook", "controller/probe", "controller/admin"}
ROOMS["sidecar/admin"] = ("4", SIDECAR_BELOW_4)
for room in CONTROLLER_4:
    ROOMS[room] = ("4", CONTROLLER_BELOW_4 | CONTROLLER_4)  # no cycles among them: see cycles() below
ROOMS["sidecar"] = ("5", SIDECAR_BELOW_4 | {"sidecar/admin"})
ROOMS["controller"] = ("5", CONTROLLER_BELOW_4 | CONTROLLER_4)
ROOMS["cli"] = ("5", set(ROOMS))

PURE = PURE_COMMON | {"sidecar/policy", "controller/decide"}

DESCRIPTORS = (r"sys/socket\.h|sys/un\.h|sys/uio\.h|sys/epoll\.h|sys/eventfd\.h|sys/timerfd\.h|netinet/.*|netdb\.h|"
               r"poll\.h|fcntl\.h|dirent\.h")
CLOCKS = r"time\.h|sys/time\.h"
DOCUMENTS = r"yaml\.h|json-c/.*|json\.h"

# Headers that a room must not include: (pattern, does the rule bind this room?)
HEADERS = [
    (DESCRIPTORS + "|" + CLOCKS + "|" + DOCUMENTS + r"|microhttpd\.h|curl/.*|openssl/.*|gnutls/.*|sys/random\.h|"
     r"pthread\.h|threads\.h|semaphore\.h|syslog\.h|signal\.h", lambda room, layer: room in PURE),
    # Text <-> address is pure, and one room does it.
    (r"arpa/inet\.h", lambda room, layer: room in PURE - BASE),
    (DESCRIPTORS + "|" + CLOCKS, lambda room, layer: layer == "1b"),
    (DOCUMENTS, lambda room, layer: layer == "2" or room == "sidecar/proxy"),
    (r"microhttpd\.h", lambda room, layer: layer in "123" and room not in BRIDGE),
    # The sidecar does not link libcurl.
    (r"curl/.*", lambda room, layer: room not in BRIDGE and not room.startswith("controller")),
    (r"sys/epoll\.h", lambda room, layer: room not in IO | BRIDGE),
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)


def room_of(path):
    return os.path.dirname(path)


def check_own(root, path, room, included, findings, line):
    """A "..." include: written from the root, allowed by the table."""
    target = room_of(included)
    if not os.path.isfile(os.path.join(root, included)):
        findings.append(f'{path}:{line}: "{included}" is no file below the root (includes are written from there)')
    elif target not in ROOMS:
        findings.append(f'{path}:{line}: "{included}" is in no room of the layer table')
    elif target != room and target not in ROOMS[room][1]:
        findings.append(f"{path}:{line}: {room} (layer {ROOMS[room][0]}) must not include {target} "
                        f"(layer {ROOMS[target][0]})")


def check_system(path, room, included, findings, line):
    for pattern, binds in HEADERS:
        if re.fullmatch(pattern, included) and binds(room, ROOMS[room][0]):
            findings.append(f"{path}:{line}: {room} (layer {ROOMS[room][0]}) must not include <{included}>")
            return


def check_file(root, path, edges, findings):
    room = room_of(path)
    if room not in ROOMS:
        findings.append(f"{path}: its folder is in no row of the layer table")
        return
    text = read(root, path)
    code = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    own_header = path[:-2] + ".h"
    first = True
    for m in INCLUDE.finditer(code):
        line = code.count("\n", 0, m.start()) + 1
        own, system = m.group(1), m.group(2)
        if first and path.endswith(".c") and os.path.isfile(os.path.join(root, own_header)) and own != own_header:
            findings.append(f'{path}:{line}: the first include must be its own header "{own_header}"')
        first = False
        if own:
            check_own(root, path, room, own, findings, line)
            edges.setdefault(room, set()).add(room_of(own))
        else:
            check_system(path, room, system, findings, line)
    if path.endswith(".h") and not re.search(r"^#ifndef FL_\w+_H\n#define FL_\w+_H$", bare(text), re.M):
        findings.append(f"{path}: no include guard of the form FL_..._H")


def cycles(edges):
    """Rooms that reach themselves over others."""
    found = []
    for start in sorted(edges):
        seen, todo = set(), [r for r in edges[start] if r != start]
        while todo:
            room = todo.pop()
            if room not in seen:
                seen.add(room)
                todo += edges.get(room, ())
        if start in seen:
            found.append(f"{start}: includes itself over other rooms")
    return found


def main():
    root = root_of(sys.argv)
    paths = files(root)
    fail_empty("layers", paths)
    edges, findings = {}, []
    for path in paths:
        check_file(root, path, edges, findings)
    findings += cycles(edges)
    return report("layers", findings, f"{len(paths)} files, {len(edges)} rooms")


if __name__ == "__main__":
    sys.exit(main())
