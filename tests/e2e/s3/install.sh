#!/usr/bin/env bash
# Installs stores and clients of the S3 suite into a cache, each part in a folder named by what it is made of, and
# prints NAME=FOLDER lines for the environment of the tests. Fast and silent when everything is there.
# usage: install.sh CACHE [--long]
set -euo pipefail
cache=${1:?usage: install.sh CACHE [--long]}
long=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
versitygw=v1.8.0

die()
{
    echo "e2e s3: $*" >&2
    exit 1
}

# at_least WHAT HAVE WANT WHY
at_least()
{
    [[ -n $2 ]] || die "$1 is not installed; $3 or newer is needed $4"
    [[ $(printf '%s\n%s\n' "$3" "$2" | sort -V | head -1) == "$3" ]] ||
        die "$1 is version $2; $3 or newer is needed $4 (Debian 12's own is too old)"
}

py=/usr/bin/python3
[[ -x $py ]] || py=python3
node_version=$(node --version 2>/dev/null | sed 's/^v//' || true)
go_version=$(go env GOVERSION 2>/dev/null | sed 's/^go//' || true)
at_least node "$node_version" 20.0 "by the AWS SDK for JavaScript v3"
at_least go "$go_version" 1.25 "to build versitygw, the strict store"
command -v npm >/dev/null || die "npm is not installed; it brings the AWS SDK for JavaScript v3"
if [[ $long == --long ]]; then
    command -v mvn >/dev/null && command -v javac >/dev/null ||
        die "mvn and a JDK (17 or newer) are needed by --long for the AWS SDK for Java v2"
fi

mkdir -p "$cache"
exec 9>"$cache/s3.lock"
flock 9 # two runs at once: the second waits, then finds it done
tmp=$(mktemp -d "$cache/tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# part NAME VARIABLE KEY...: runs make_NAME FOLDER unless its folder is complete; the key names what it is made of.
part()
{
    local name=$1 variable=$2 folder
    shift 2
    folder=$cache/s3-$name-$(printf '%s\n' "$@" | sha256sum | cut -c1-16)
    if [[ ! -e $folder/.complete ]]; then
        echo "e2e s3: installing $name" >&2
        mkdir "$tmp/$name"
        "make_$name" "$tmp/$name" >"$tmp/$name.log" 2>&1 || {
            tail -30 "$tmp/$name.log" >&2
            die "could not install $name"
        }
        touch "$tmp/$name/.complete"
        rm -rf "$folder"
        mv "$tmp/$name" "$folder"
    fi
    echo "$variable=$folder"
}

make_py()
{
    $py -m venv "$1" && "$1/bin/python" -m pip install -q -r "$here/clients/requirements.txt"
}

make_versitygw()
{
    GOBIN=$1 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false nice -n 5 \
        go install -ldflags '-s -w' "github.com/versity/versitygw/cmd/versitygw@$versitygw"
}

make_js()
{
    cp "$here"/clients/js/package*.json "$1" && (cd "$1" && npm ci --no-audit --no-fund)
}

make_awscli()
{
    $py -m venv "$1" && "$1/bin/python" -m pip install -q -r "$here/clients/requirements-awscli.txt"
}

make_go()
{
    (cd "$here/clients/go" && GOBIN=$1 GOTOOLCHAIN=local GOFLAGS="-buildvcs=false -mod=readonly" nice -n 5 \
        go install -ldflags '-s -w' ./...)
}

make_java()
{
    cp -r "$here"/clients/java/. "$1" &&
        (cd "$1" && nice -n 5 mvn -q -B package dependency:copy-dependencies -DoutputDirectory=target/lib)
}

go_directive=$(sed -n "s,^go ,,p" "$here/clients/go/go.mod")
if [[ $long == --long ]]; then
    at_least go "$go_version" "$go_directive" "by the Go clients of --long"
fi
part py FAIRLEAD_S3_PY "$($py --version)" "$(cat "$here/clients/requirements.txt")"
part versitygw FAIRLEAD_S3_VERSITYGW "$versitygw" "$go_version"
part js FAIRLEAD_S3_JS "$node_version" "$(cat "$here"/clients/js/package*.json)"
if [[ $long == --long ]]; then
    part awscli FAIRLEAD_S3_AWSCLI "$($py --version)" "$(cat "$here/clients/requirements-awscli.txt")"
    part go FAIRLEAD_S3_GO "$go_version" "$(cat "$here"/clients/go/go.* "$here"/clients/go/*/*.go)"
    part java FAIRLEAD_S3_JAVA "$(javac -version 2>&1)" "$(find "$here/clients/java" -type f -print0 | sort -z | xargs -0 cat)"
fi
