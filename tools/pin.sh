#!/usr/bin/env bash
# Writes the pins with hashes; `--upgrade` renews them. No index address may get into them.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/uv.sh
need_uv
"$uv" pip compile -q --group dev --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
  --no-emit-package harvest-core --no-emit-package harvest-proto --no-emit-package harvest-site --no-emit-package harvest-pki "$@" -o requirements/dev.txt \
  pyproject.toml proto/pyproject.toml core/pyproject.toml pki/pyproject.toml site/pyproject.toml aggregator/pyproject.toml cli/pyproject.toml --extra accounting
