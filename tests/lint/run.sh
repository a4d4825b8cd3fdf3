#!/usr/bin/env bash
# All lint checks, one closing line each; exit 1 on any finding. Usage: run.sh BUILD_DIR (with the target `pure` built)
set -uo pipefail
build=${1:?usage: run.sh BUILD_DIR}
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONDONTWRITEBYTECODE=1
rc=0
bash "$here/selftest.sh" || rc=1 # first: a check that cannot fail proves nothing
python3 "$here/layers.py" || rc=1
bash "$here/purity.sh" "$build" || rc=1
python3 "$here/sizes.py" || rc=1
python3 "$here/banned.py" || rc=1
bash "$here/paths.sh" || rc=1
bash "$here/format.sh" || rc=1
exit $rc
