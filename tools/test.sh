#!/usr/bin/env bash
# All tests that `make check` leaves out, in two halves side by side: most of them wait for servers, so two cores
# are enough for both, and the whole takes two thirds of the time. The first half is shown as it goes on.
set -uo pipefail
cd "$(dirname "$0")/.."
elsewhere=(bench data guards soak support unit)
second=(campaign captures chart crd fuzz images monitoring mutants node operator properties rpm sites)
first=(); for folder in tests/[a-z]*/; do
  name=$(basename "$folder")
  [[ " ${elsewhere[*]} ${second[*]} " == *" $name "* ]] || first+=("tests/$name")
done
said=$(mktemp -d)
set -m # a half in a group of its own can be interrupted: one that shares ours would not hear of it
.venv/bin/pytest -q -s "${second[@]/#/tests/}" >"$said/second" 2>&1 &
behind=$!
stop() { kill -INT -- "-$behind" 2>/dev/null; }
trap 'stop; rm -rf "$said"' EXIT
echo "The second half (${second[*]}) runs beside this one, and is shown after it."
.venv/bin/pytest -q -s "${first[@]}" | tee "$said/first"
failed=${PIPESTATUS[0]}
[ "$failed" = 2 ] && stop # somebody has interrupted it
echo "The first half is done. The second:"
tail -f -n +1 --pid=$behind "$said/second"
wait $behind || failed=1
echo "Both halves:"
grep -hE '^(FAILED|ERROR) | in [0-9.]+s' "$said"/*
exit "$failed"
