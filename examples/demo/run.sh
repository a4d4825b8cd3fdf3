#!/usr/bin/env bash
# The demo: three small object stores, a controller that knows them from a file, and a sidecar in front.
#   run.sh                 everything, in the foreground; Ctrl-C ends it
#   run.sh --config FILE   only a sidecar, with your own configuration
# FAIRLEAD_BUILD names the build directory (default: build/release).
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${FAIRLEAD_BUILD:-$root/build/release}
origins=(a b c)
port=9001 # of all three, on 127.0.0.1, 127.0.0.2 and 127.0.0.3, as pods of one Service share a port
pids=()

die()
{
    echo "demo: $*" >&2
    exit 1
}

need_program()
{
    [[ -x $build/$1 ]] || die "$build/$1 is missing; build it first (./dev build), or set FAIRLEAD_BUILD"
}

need_free()
{
    local address=$1 number=$2 purpose=$3
    if (exec 3<>"/dev/tcp/$address/$number") 2>/dev/null; then
        die "port $number on $address is busy; the demo needs it for $purpose. End what listens there and try again."
    fi
}

# Value of field $2 in the JSON line $1, strings without their quotes; empty when absent.
field()
{
    local pattern="\"$2\":(\"(([^\"\\\\]|\\\\.)*)\"|[-0-9.]+)"
    if [[ $1 =~ $pattern ]]; then
        printf '%s' "${BASH_REMATCH[2]:-${BASH_REMATCH[1]#\"\"}}"
    fi
}

# A JSON log line as people like it; anything else as it came.
readable()
{
    local line=$1 time message name value text
    time=$(field "$line" ts)
    time=${time#*T}
    if [[ $line == *'"upstream_addr"'* ]]; then
        text="$(field "$line" method) $(field "$line" uri) $(field "$line" status) in $(field "$line" request_time)s"
        text+="  upstream_addr=\"$(field "$line" upstream_addr)\" upstream_status=\"$(field "$line" upstream_status)\""
        text+=" connect=\"$(field "$line" upstream_connect_time)\""
        value=$(field "$line" retry_reason)
        [[ -n $value ]] && text+=" retried: $value"
        value=$(field "$line" error)
        [[ -n $value ]] && text+=" error: $value"
    elif [[ $line == *'"msg"'* ]]; then
        message=$(field "$line" msg)
        text="$(field "$line" level) $message"
        for name in backend peer error while fails until cause downtime_secs data admin; do
            value=$(field "$line" "$name")
            [[ -n $value ]] && text+=" $name=$value"
        done
    else
        printf '%s\n' "$line"
        return
    fi
    printf '%s %s\n' "${time%Z}" "$text"
}

# Prefixes each line of stdin; lives until its writer ends, whatever Ctrl-C says.
show()
{
    local line
    trap '' INT TERM
    while IFS= read -r line; do
        printf '%-11s %s\n' "[$1]" "$(readable "$line")"
    done
}

start()
{
    local name=$1
    shift
    "$@" > >(show "$name") 2>&1 &
    pids+=($!)
    disown $! # no "Killed" from the shell when a visitor kills a store
}

# Asks URL $1 until it answers 200, at most 10 s; $2 says who is asked.
await()
{
    local i
    for ((i = 0; i < 100; i++)); do
        if curl -fsS -o /dev/null --max-time 1 "$1" 2>/dev/null; then
            return 0
        fi
        sleep 0.1
    done
    echo "demo: $2 did not answer at $1 within 10 s; its lines above say why" >&2
    return 1
}

# Ends every child and waits for it; each gets a fair chance to finish first.
finish()
{
    local code=$1 pid i
    trap '' INT TERM
    for pid in "${pids[@]}"; do
        kill -TERM "$pid" 2>/dev/null
    done
    for ((i = 0; i < 300; i++)); do
        kill -0 "${pids[@]}" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "${pids[@]}" 2>/dev/null
    sleep 0.1 # the last lines
    exit "$code"
}

# A directory that only this user can read, kept between runs for the sake of the key.
private_directory()
{
    dir=${TMPDIR:-/tmp}/fairlead-demo-$(id -u)
    mkdir -p -m 700 "$dir" || die "cannot make $dir"
    [[ -O $dir && ! -L $dir ]] || die "$dir belongs to somebody else; set TMPDIR to a directory of your own"
    chmod 700 "$dir"
    if [[ ! -s $dir/push-private.pem ]]; then
        (umask 077 && openssl genpkey -algorithm ed25519 -out "$dir/push-private.pem") 2>/dev/null ||
            die "openssl could not make a signing key"
    fi
    openssl pkey -in "$dir/push-private.pem" -pubout -out "$dir/push-public.pem" || die "openssl: no public key"
    cp "$here/services.yaml" "$dir/services.yaml"
    local name
    for name in sidecar controller; do
        sed "s|@DIR@|$dir|g" "$here/$name.yaml" >"$dir/$name.yaml"
    done
}

start_all()
{
    local i address
    for i in 0 1 2; do
        address=127.0.0.$((i + 1))
        start "origin ${origins[i]}" "$build/fairlead-origin" --listen "$address:$port" --name "${origins[i]}"
    done
    for i in 0 1 2; do
        address=127.0.0.$((i + 1))
        await "http://$address:$port/demo" "origin ${origins[i]}" || finish 1
        # The same object in each store, as in a replicated one.
        printf 'hello from the bucket\n' | curl -fsS -o /dev/null -T - -H 'Expect:' "http://$address:$port/demo/hello"
    done
    start sidecar "$build/fairlead-sidecar" --config "$dir/sidecar.yaml"
    start controller "$build/fairlead-controller" --config "$dir/controller.yaml"
    await http://127.0.0.1:8422/_/started "the sidecar" || finish 1
    await http://127.0.0.1:8431/_/ready "the controller" || finish 1
    await http://127.0.0.1:8420/demo/hello "a bucket behind the sidecar" || finish 1
}

# Where people look at the process behind $1: its page, else its API.
page()
{
    if curl -fsS -o /dev/null --max-time 1 "$1/_/admin/" 2>/dev/null; then
        echo "$1/_/admin/"
    else
        echo "$1/_/api/admin/backends"
    fi
}

print_tour()
{
    cat <<TEXT

  Fairlead is running: three object stores, a controller, and a sidecar in front. Ctrl-C ends all of it.

    data         http://127.0.0.1:8420            where an application points its S3 SDK
    admin        $(page http://127.0.0.1:8421)   what the sidecar thinks
    status       http://127.0.0.1:8422/_/ready   also /_/metrics
    controller   $(page http://127.0.0.1:8431)   what the controller thinks

  A tour of 60 seconds, in a second terminal:

    1. Read a bucket.
         curl -i http://127.0.0.1:8420/demo/hello
    2. Kill one of its three stores, as a node would die.
         kill -9 ${pids[1]}
    3. Go on reading. Every answer is a 200; one line below has two addresses in upstream_addr, and then comes
       'upstream server temporarily disabled': from there on nobody waits for the dead store.
         for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:8420/demo/hello; done
    4. Count what the client never saw.
         curl -s http://127.0.0.1:8422/_/metrics | grep -E '^fairlead_(rescued|quarantines|peer_state).* [1-9]'
    5. Bring the store back, read a few times more, and see 'upstream readmitted'.
         $build/fairlead-origin --listen 127.0.0.2:$port --name b --set missing=200

  Files: $dir

TEXT
}

main()
{
    if [[ ${1:-} == --config ]]; then
        local file=${2:-}
        [[ -n $file ]] || die "usage: run.sh --config FILE"
        [[ -e $file || ! -e ${OLDPWD:-.}/$file ]] || file=$OLDPWD/$file # ./dev changes the directory first
        need_program fairlead-sidecar
        exec "$build/fairlead-sidecar" --config "$file"
    fi
    [[ $# -eq 0 ]] || die "usage: run.sh [--config FILE]"
    need_program fairlead-origin
    need_program fairlead-sidecar
    need_program fairlead-controller
    command -v openssl >/dev/null || die "openssl is missing (it makes the key that signs the controller's pushes)"
    local i
    for i in 0 1 2; do
        need_free "127.0.0.$((i + 1))" "$port" "object store ${origins[i]}"
    done
    need_free 127.0.0.1 8420 "the data listener of the sidecar"
    need_free 127.0.0.1 8421 "the admin listener of the sidecar"
    need_free 127.0.0.1 8422 "the status listener of the sidecar"
    need_free 127.0.0.1 8431 "the admin listener of the controller"
    need_free 127.0.0.1 8432 "the status listener of the controller"
    private_directory
    trap 'finish 0' INT TERM
    start_all
    print_tour
    # Stores may be killed by the visitor; without the sidecar there is nothing left to see.
    while kill -0 "${pids[3]}" 2>/dev/null; do
        sleep 0.2 &
        wait $!
    done
    echo "demo: the sidecar has ended; its last lines above say why" >&2
    finish 1
}

main "$@"
