#!/usr/bin/env bash
# Types, borders and unit tests, side by side: together they take about half as long on two cores.
set -uo pipefail
cd "$(dirname "$0")/.."
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
begin() { local name=$1; shift; "$@" >"$said/$name" 2>&1 & started[$!]=$name; }
declare -A started
half=(tests/unit/accounting tests/unit/agent tests/unit/sim tests/unit/site tests/guards)
rest=(); for folder in tests/unit/*/; do [[ " ${half[*]} " == *" ${folder%/} "* ]] || rest+=("${folder%/}"); done
begin types .venv/bin/mypy --no-error-summary
begin borders .venv/bin/lint-imports --no-logo
begin tests-1 .venv/bin/pytest -q "${half[@]}"
begin tests-2 .venv/bin/pytest -q "${rest[@]}"
failed=0
for child in "${!started[@]}"; do
  wait "$child" || { failed=1; cat "$said/${started[$child]}"; }
done
[ $failed = 0 ] && tail -qn 1 "$said"/tests-*
exit $failed
