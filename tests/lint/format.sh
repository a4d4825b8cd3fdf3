#!/usr/bin/env bash
# Our C files as clang-format would write them. Usage: format.sh [ROOT]
set -euo pipefail
root=${1:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$root"
mapfile -d '' files < <(find common sidecar controller cli bench tests examples -name '*.[ch]' -print0 2>/dev/null | sort -z)
if [[ ${#files[@]} -eq 0 ]]; then
    echo "format: FAILED, no C files found: wrong folder?"
    exit 1
fi
bad=$(for f in "${files[@]}"; do
    clang-format --dry-run -Werror "$f" >/dev/null 2>&1 || echo "$f"
done)
if [[ -n $bad ]]; then
    sed 's/^/  /' <<<"$bad"
    echo "format: FAILED, $(wc -l <<<"$bad") of ${#files[@]} files (./dev format mends them)"
    exit 1
fi
echo "format: ok (${#files[@]} files)"
