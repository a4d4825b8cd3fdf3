#!/usr/bin/env bash
# Shows that every lint check can fail: a small tree that passes, then one fault at a time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONDONTWRITEBYTECODE=1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0
shown=0

fresh()
{
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/{common/base,common/model,common/io,sidecar/policy,sidecar/proxy,controller/decide,build}
    cp "$here/../../.clang-format" "$tree/.clang-format"
    cat >"$tree/common/base/one.h" <<'C'
#ifndef FL_COMMON_BASE_ONE_H
#define FL_COMMON_BASE_ONE_H

int fl_one(void);

#endif
C
    cat >"$tree/common/base/one.c" <<'C'
#include "common/base/one.h"

#include <string.h>

int fl_one(void)
{
    return (int)strlen("one system() call, in a text only"); /* as is strcpy() here */
}
C
}

check()
{
    case $1 in
    purity)
        cc -c "$tree/common/base/one.c" -I"$tree" -o "$tree/build/one.c.o"
        rm -f "$tree/build/libcommon-base.a"
        ar rc "$tree/build/libcommon-base.a" "$tree/build/one.c.o"
        bash "$here/purity.sh" "$tree/build" "$tree"
        ;;
    paths | format) bash "$here/$1.sh" "$tree" ;;
    *) python3 "$here/$1.py" "$tree" ;;
    esac
}

passes()
{
    if ! output=$(check "$1" 2>&1); then
        echo "  selftest: $1 must pass: $2"
        sed 's/^/    /' <<<"$output"
        failed=1
    fi
}

# finds CHECK WORDS WHAT: the check fails, and says the words.
finds()
{
    shown=$((shown + 1))
    if output=$(check "$1" 2>&1) || ! grep -qF -- "$2" <<<"$output"; then
        echo "  selftest: $1 did not find: $3"
        sed 's/^/    /' <<<"$output"
        failed=1
    fi
    fresh
}

fresh
for name in layers purity sizes banned paths format; do
    passes $name "a clean tree"
done

printf '#include "common/base/one.h"\n#include "common/io/up.h"\n' >"$tree/common/base/one.c"
printf '#ifndef FL_UP_H\n#define FL_UP_H\n#endif\n' >"$tree/common/io/up.h"
finds layers 'common/base (layer 0) must not include common/io (layer 2)' "an arrow that points up"

printf '#include "sidecar/policy/p.h"\n' >"$tree/controller/decide/d.c"
printf '#ifndef FL_P_H\n#define FL_P_H\n#endif\n' >"$tree/sidecar/policy/p.h"
finds layers 'controller/decide (layer 1) must not include sidecar/policy' "the other process"

sed -i 's|#include "common/base/one.h"|#include "one.h"|' "$tree/common/base/one.c"
finds layers 'is no file below the root' "an include that is not written from the root"

sed -i '1s|.*|#include <stddef.h>|' "$tree/common/base/one.c"
finds layers 'must be its own header' "a header that is not first"

printf '#include <sys/socket.h>\n' >"$tree/sidecar/policy/s.c"
finds layers 'must not include <sys/socket.h>' "a socket in a pure room"

printf '#include <curl/curl.h>\n' >"$tree/sidecar/proxy/s.c"
finds layers 'must not include <curl/curl.h>' "libcurl in the sidecar"

mkdir -p "$tree/common/strange" && printf 'int x;\n' >"$tree/common/strange/s.c"
finds layers 'in no row of the layer table' "a folder without a layer"

printf 'int fl_one(void);\n' >"$tree/common/base/one.h"
finds layers 'no include guard' "a header without a guard"

printf '#include <time.h>\nlong fl_one(void)\n{\n    return time(0);\n}\n' >"$tree/common/base/one.c"
finds purity 'needs time' "a clock"

printf '#include <unistd.h>\nlong fl_one(void)\n{\n    return write(1, "", 0);\n}\n' >"$tree/common/base/one.c"
finds purity 'needs write' "a write outside check.c"

printf '#include <pthread.h>\nint fl_one(pthread_mutex_t *m)\n{\n    return pthread_mutex_lock(m);\n}\n' \
    >"$tree/common/base/one.c"
finds purity 'needs pthread_mutex_lock' "a lock"

printf 'int fl_m(void)\n{\n    return 0;\n}\n' >"$tree/common/model/m.c"
finds purity 'libcommon-model.a is missing' "an archive that was not built"

{ printf 'int fl_long(void)\n{\n' && printf '    ;\n%.0s' {1..60} && printf '}\n'; } >"$tree/common/base/two.c"
passes sizes "a function of 60 lines"
sed -i '3s/.*/    ;\n    ;/' "$tree/common/base/two.c"
finds sizes 'a function of 61 lines' "a function of 61 lines"

printf '\n%.0s' {1..601} >"$tree/common/base/two.h"
finds sizes '601 lines, at most 600' "a file of 601 lines"

printf 'int fl_bad(char *a)\n{\n    return (int)strcpy(a, "x")[0];\n}\n' >"$tree/common/base/two.c"
finds banned 'banned call strcpy()' "strcpy"

printf 'char *fl_bad(void)\n{\n    return getenv("X");\n}\n' >"$tree/sidecar/main.c"
passes banned "getenv in main.c"
mv "$tree/sidecar/main.c" "$tree/sidecar/app.c"
finds banned 'getenv() outside main.c' "getenv elsewhere"

printf 'int fl_bad(int a)\n{\n    if (a) {\n        goto again;\n    }\nagain:\n    return a;\n}\n' \
    >"$tree/common/base/two.c"
finds banned 'goto again' "a goto"

printf 'int fl_bad(char *a)\n{\n    return atoi(a); /* lint-ok: */\n}\n' >"$tree/common/base/two.c"
finds banned 'banned call atoi()' "an excuse without a reason"

printf 'see /%s/x\n' wor"k" >"$tree/notes.md"
finds paths 'notes.md:1' "a path of one machine"

sed -i 's/    return/  return/' "$tree/common/base/one.c"
finds format 'common/base/one.c' "a wrong indent"

rm -rf "$tree/common" "$tree/sidecar" "$tree/controller"
for name in layers sizes banned format; do
    shown=$((shown + 1))
    if check $name >/dev/null 2>&1; then
        echo "  selftest: $name passes on a tree without C files"
        failed=1
    fi
done

if [[ $failed -ne 0 ]]; then
    echo "selftest: FAILED, a check above misses what it is for"
    exit 1
fi
echo "selftest: ok ($shown faults, each found)"
