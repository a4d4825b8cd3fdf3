#!/usr/bin/env python3
"""Files of at most 600 lines, functions of at most 60 (the lines between a brace in column one and the next).
Usage: sizes.py [ROOT]"""
import sys

from csource import fail_empty, files, read, report, root_of

FILE_LINES = 600
FUNCTION_LINES = 60


def functions(lines):
    """(line number of the opening brace, lines between the braces); a brace that is never closed counts to the end."""
    opened = None
    for i, line in enumerate(lines, 1):
        if opened is None and line.rstrip() == "{":
            opened = i
        elif opened is not None and line.startswith("}"):
            yield opened, i - opened - 1
            opened = None
    if opened is not None:
        yield opened, len(lines) - opened


def main():
    root = root_of(sys.argv)
    paths = files(root)
    fail_empty("sizes", paths)
    findings, count = [], 0
    for path in paths:
        lines = read(root, path).splitlines()
        if len(lines) > FILE_LINES:
            findings.append(f"{path}: {len(lines)} lines, at most {FILE_LINES}")
        for line, length in functions(lines):
            count += 1
            if length > FUNCTION_LINES:
                findings.append(f"{path}:{line}: a function of {length} lines, at most {FUNCTION_LINES}")
    return report("sizes", findings, f"{len(paths)} files, {count} functions")


if __name__ == "__main__":
    sys.exit(main())
