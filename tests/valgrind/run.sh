#!/usr/bin/env bash
# Runs unit tests, simulations and a course of both programs under valgrind's memcheck: no invalid access, no use of what was
# never written, no definite or indirect leak. A build without sanitizers and optimisation, in build/valgrind.
#   run.sh [FILTER]    only what has FILTER in its name ("course": sidecar and controller through their lives)
# Exit code 0 when everything is clean. One line per binary; reports are in build/valgrind/reports.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
build=build/valgrind reports=build/valgrind/reports filter=${1:-}
memcheck=(valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect
          --errors-for-leak-kinds=definite,indirect --track-fds=no --num-callers=30 --fair-sched=yes)
SIM_SEEDS=10 # of 300: the random weather takes a second each here

# What these tests assert does not hold here, and proves nothing: valgrind keeps descriptors of its own above the limit that
# the first two set; the third is about edges that the kernel joins, unless the reader is very slow.
CANNOT="test_out_of_descriptors answers_when_descriptors_are_out test_data_and_fin_together"

[[ -f $build/build.ninja ]] || cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Debug >/dev/null || exit 1
ninja -C $build >$build/build.log 2>&1 || { tail -20 $build/build.log; exit 1; }
rm -rf $reports && mkdir -p $reports

clean=0 errors=0 failed=0 limited=0

# A failed test frees nothing: what it lost is no finding. Anything else in the report is.
only_losses_of_a_failed_test()
{
    grep -q '^\[  FAILED  \]' "$reports/$1.out" &&
        ! grep -qhE 'Invalid|uninitialised|Mismatched|overlap|Syscall param' "$reports/$1".[0-9]*
}

# Names of the cmocka tests that failed in the output $1 and are not known to fail here.
failures_of()
{
    grep -oP '^\[  FAILED  \] \K\w+' "$1" | sort -u | grep -vxF "${CANNOT// /$'\n'}" | grep -v '^[0-9]*$'
}

run()
{
    local name=$1 attempt rc began=$SECONDS
    shift
    for attempt in 1 2; do # real clocks: what is only late may have a second try, said aloud
        timeout 900 "${memcheck[@]}" --log-file="$reports/$name.%p" "$@" >"$reports/$name.out" 2>&1
        rc=$?
        [[ $rc -ne 9 ]] || ! only_losses_of_a_failed_test "$name" || rc=1
        [[ $rc -ne 9 && $rc -lt 124 && -z $(failures_of "$reports/$name.out") ]] && break
        [[ $attempt -eq 2 ]] || { mkdir -p "$reports/first" && mv "$reports/$name".* "$reports/first/"; }
    done
    local said="clean"
    if [[ $rc -eq 9 ]]; then
        errors=$((errors + 1)) said="MEMORY ERRORS, see $reports/$name.*"
    elif [[ $rc -ge 124 || -n $(failures_of "$reports/$name.out") ]] ||
        { [[ $rc -ne 0 ]] && ! grep -qE "FAILED  \] (${CANNOT// /|})" "$reports/$name.out"; }; then
        failed=$((failed + 1)) said="FAILED ($rc), see $reports/$name.out"
    elif [[ $rc -ne 0 ]]; then
        limited=$((limited + 1)) said="clean, but what these assert does not hold here: $(
            grep -oP '^\[  FAILED  \] \K[a-z]\w+' "$reports/$name.out" | sort -u | tr '\n' ' ')"
    else
        clean=$((clean + 1))
    fi
    [[ $attempt -eq 1 ]] || said+=" (second run)"
    printf '%-52s %4ds  %s\n' "$name" $((SECONDS - began)) "$said"
}

for binary in $build/tests/unit-* $build/tests/sim/unit-* $build/tests/sim/sim-* $build/tests/sim/scenarios/sim-*; do
    name=${binary##*/}
    [[ -f $binary && -x $binary && $name == *"$filter"* ]] || continue
    if [[ $name == sim-test_random ]]; then
        run "$name" "$binary" 1 $SIM_SEEDS
    else
        run "$name" "$binary"
    fi
done

if [[ course == *"$filter"* ]]; then
    # The programs of the integration tests are wrappers here; a report makes the exit code 9, which the tests refuse.
    wrapped=$PWD/$build/wrapped
    rm -rf "$wrapped" && mkdir "$wrapped"
    ln -s "../fairlead-origin" "$wrapped/"
    for program in fairlead-sidecar fairlead-controller; do
        printf '#!/bin/sh\nexec %s --log-file=%s.%%p %s "$@"\n' "${memcheck[*]}" "$PWD/$reports/$program" \
            "$PWD/$build/$program" >"$wrapped/$program"
        chmod +x "$wrapped/$program"
    done
    began=$SECONDS
    python=/usr/bin/python3
    [[ -x $python ]] || python=python3
    if FAIRLEAD_BUILD=$wrapped FAIRLEAD_VALGRIND=1 FAIRLEAD_TEST_SLACK=10 PYTHONDONTWRITEBYTECODE=1 timeout 900 \
        $python -m pytest -q -p no:cacheprovider tests/integration/test_valgrind_course.py >$reports/course.out 2>&1 &&
        ! find $reports -name 'fairlead-*' -size +0 | grep -q .; then
        clean=$((clean + 1))
        printf '%-52s %4ds  clean: %s\n' course $((SECONDS - began)) "$(tail -1 $reports/course.out)"
    else
        errors=$((errors + 1))
        printf '%-52s %4ds  FAILED, see %s\n' course $((SECONDS - began)) "$reports/course.out, $reports/fairlead-*"
    fi
fi

echo "valgrind: $clean clean, $limited clean with an assertion that does not hold here, $failed failed, $errors with errors"
[[ $((clean + limited)) -gt 0 && $failed -eq 0 && $errors -eq 0 ]]
