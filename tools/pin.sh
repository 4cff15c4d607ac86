#!/usr/bin/env bash
# Writes the pins with hashes; `--upgrade` renews them. No index address may get into them.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/uv.sh
need_uv
compiled() { # FILE INPUT…: what is pinned for a purpose
  local file=$1; shift
  "$uv" pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
    --no-emit-package harvest-core --no-emit-package harvest-proto --no-emit-package harvest-site --no-emit-package harvest-pki \
    -o "requirements/$file.txt" "$@"
}
compiled dev --group dev "$@" \
  pyproject.toml proto/pyproject.toml core/pyproject.toml pki/pyproject.toml site/pyproject.toml aggregator/pyproject.toml cli/pyproject.toml operator/pyproject.toml --extra accounting --extra kubernetes
# what images are made of, in the same versions: each program's own, and the build backend
for program in agent aggregator operator; do compiled $program -c requirements/dev.txt $program/pyproject.toml; done
compiled build -c requirements/dev.txt - <<<hatchling
