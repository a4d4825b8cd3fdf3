#!/usr/bin/env bash
# Tracked files must not name a machine: absolute paths of one developer's or one robot's disk.
# Usage: paths.sh [ROOT]
set -euo pipefail
root=${1:-$(cd "$(dirname "$0")/../.." && pwd)}
# The bracketed letters keep this script from finding itself.
pattern='(^|[^A-Za-z0-9_.~%*-])/(wor[k]|roo[t]|far[m]|home/[a-z]+)(/|[^A-Za-z0-9_-]|$)'

if git -C "$root" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    list=(git -C "$root" -c core.quotePath=false ls-files -z)
else
    list=(find "$root" -path "$root/build" -prune -o -type f -printf '%P\0')
fi
mapfile -d '' files < <("${list[@]}")
if [[ ${#files[@]} -eq 0 ]]; then
    echo "paths: FAILED, no files found: wrong folder?"
    exit 1
fi
found=$(cd "$root" && printf '%s\0' "${files[@]}" | xargs -0 grep -sInE -- "$pattern" || true)
if [[ -n $found ]]; then
    sed 's/^/  /' <<<"$found" | cut -c1-200
    echo "paths: FAILED, $(wc -l <<<"$found") finding(s) (${#files[@]} files)"
    exit 1
fi
echo "paths: ok (${#files[@]} files)"
