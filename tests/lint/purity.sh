#!/usr/bin/env bash
# Undefined symbols of the pure archives: no socket, clock, thread, file or random symbol, and no logging.
# Usage: purity.sh BUILD_DIR [ROOT]. A room with sources must have its archive; one without sources is not there yet.
set -euo pipefail
build=${1:?usage: purity.sh BUILD_DIR [ROOT]}
root=${2:-$(cd "$(dirname "$0")/../.." && pwd)}
rooms="common/base common/model common/http1 common/verdict sidecar/policy controller/decide"

net='socket|socketpair|connect|accept|accept4|bind|listen|recv|recvfrom|recvmsg|recvmmsg|send|sendto|sendmsg|sendmmsg|sendfile|splice|shutdown|getsockopt|setsockopt|getaddrinfo|poll|ppoll|select|epoll_[a-z0-9_]*|eventfd|timerfd_[a-z]*'
clock='clock_gettime|clock_nanosleep|gettimeofday|time|ftime|nanosleep|usleep|sleep|gmtime(_r)?|localtime(_r)?|mktime|timegm'
random='rand|rand_r|srand|random|srandom|drand48|arc4random[a-z_]*|getrandom|getentropy'
file='open|open64|openat|openat64|creat|fopen|fopen64|fdopen|read|pread|pread64|readv|write|pwrite|pwrite64|writev|close|unlink|rename|mmap|mmap64|stat|fstat|opendir'
other='pthread_[a-z0-9_]*|thrd_[a-z]*|mtx_[a-z]*|fork|execve?|getenv|secure_getenv|printf|fprintf|vfprintf|puts|putchar|fputs|fputc|fwrite|perror|syslog|stdout|stderr|__fprintf_chk|__printf_chk|__vfprintf_chk'
forbidden="^($net|$clock|$random|$file|$other)\$"
# A panic has to say its words, so that object may write; everything else in it is looked at as usual.
excused='^check\.c\.o:write$'

findings=0
looked=0
for room in $rooms; do
    if ! compgen -G "$root/$room/*.c" >/dev/null; then
        continue
    fi
    archive=$build/lib${room//\//-}.a
    if [[ ! -f $archive ]]; then
        echo "  $archive is missing; build it first"
        findings=$((findings + 1))
        continue
    fi
    looked=$((looked + 1))
    # nm -A prints "libX.a:member.o:   U symbol@version"; an archive that nm cannot read (LTO) must not pass.
    if ! symbols=$(nm -A "$archive" 2>&1) || ! grep -qE ' [TtDdRrBb] ' <<<"$symbols"; then
        echo "  $archive: nm cannot read it (LTO archive? use the dev build)"
        findings=$((findings + 1))
        continue
    fi
    while read -r member symbol; do
        if [[ $symbol =~ $forbidden && ! "$member:$symbol" =~ $excused ]]; then
            echo "  $room is pure, but $member needs $symbol"
            findings=$((findings + 1))
        fi
    done < <(sed -nE 's/^[^:]*:([^:]+):[[:space:]]+[Uw] ([^@[:space:]]+).*/\1 \2/p' <<<"$symbols" | sort -u)
done

if [[ $looked -eq 0 && $findings -eq 0 ]]; then
    echo "purity: FAILED, no pure room has sources: wrong folder?"
    exit 1
elif [[ $findings -gt 0 ]]; then
    echo "purity: FAILED, $findings finding(s) ($looked archives)"
    exit 1
fi
echo "purity: ok ($looked archives)"
