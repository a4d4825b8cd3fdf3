#!/usr/bin/env python3
"""Calls and habits that docs/STYLE.md bans. A line with a comment `lint-ok: WHY` is let through; WHY is not optional.
Usage: banned.py [ROOT]"""
import os
import re
import sys

from csource import bare, fail_empty, files, read, report, root_of

CALLS = ("strcpy", "stpcpy", "strcat", "sprintf", "vsprintf", "strtok", "atoi", "atol", "atoll", "atof", "gets",
         "system", "popen", "strncpy", "strncat", "alloca", "localtime", "gmtime", "ctime", "asctime", "rand",
         "srand", "tmpnam", "mktemp")
RULES = [
    (re.compile(r"(?<![\w.>])(" + "|".join(CALLS) + r")\s*\("), "banned call {0}()"),
    (re.compile(r"\bgoto\s+(?!out\s*;)(\w+)"), "goto {0} (only `goto out`)"),
    (re.compile(r"\btypedef\s+(struct|enum|union)\b"), "typedef of a {0} (only function types)"),
    (re.compile(r"#\s*pragma\s+(once)\b"), "#pragma {0}"),
    (re.compile(r"^\s*#\s*include\s*<(assert\.h)>", re.M), "<{0}> (FL_MUST stays on in production)"),
]
GETENV = (re.compile(r"\b((?:secure_)?getenv)\s*\("), "{0}() outside main.c")
EXCUSE = re.compile(r"lint-ok:\s*[A-Za-z]")


def main():
    root = root_of(sys.argv)
    paths = files(root)
    fail_empty("banned", paths)
    findings, excused = [], 0
    for path in paths:
        text = read(root, path)
        rules = RULES if os.path.basename(path) == "main.c" else RULES + [GETENV]
        for n, (line, original) in enumerate(zip(bare(text).split("\n"), text.split("\n")), 1):
            for pattern, words in rules:
                m = pattern.search(line)
                if m and EXCUSE.search(original):
                    excused += 1
                elif m:
                    findings.append(f"{path}:{n}: {words.format(m.group(1))}")
    return report("banned", findings, f"{len(paths)} files, {excused} excused")


if __name__ == "__main__":
    sys.exit(main())
