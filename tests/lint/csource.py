"""What the lint scripts share: our C files, and their text without comments and string contents."""
import os
import re
import sys

FOLDERS = ("common", "sidecar", "controller", "cli")  # what ships; tests and bench are free


def root_of(argv):
    """The tree to look at: the first argument, else the repository of this script."""
    if len(argv) > 1:
        return os.path.abspath(argv[1])
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(root, folders=FOLDERS):
    """Paths of .c and .h files below the folders, relative to root, sorted."""
    found = []
    for folder in folders:
        for here, below, names in os.walk(os.path.join(root, folder)):
            below.sort()
            found += [os.path.relpath(os.path.join(here, n), root) for n in names if n.endswith((".c", ".h"))]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read()


_TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def bare(text):
    """The text with comments blanked and literals emptied; line numbers stay."""
    def blank(m):
        token = m.group(0)
        if token[0] in "\"'":
            return token[0] + token[0]
        return " " + "\n" * token.count("\n")
    return _TOKEN.sub(blank, text)


def report(check, findings, what):
    """Prints the findings and the one closing line; the exit code of the script."""
    for line in findings:
        print(f"  {line}")
    print(f"{check}: {'FAILED, %d finding(s)' % len(findings) if findings else 'ok'} ({what})")
    return 1 if findings else 0


def fail_empty(check, paths):
    if not paths:
        print(f"{check}: FAILED, no C files found: wrong folder?")
        sys.exit(1)
