#!/usr/bin/env bash
# Writes the typed Python code for the wire into a folder (default: where it is checked in).
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-src}
PATH=$PWD/../.venv/bin:$PATH
mkdir -p "$out/harvest/v1"
python -m grpc_tools.protoc -I . --python_out="$out" --grpc_python_out="$out" --mypy_out="$out" --mypy_grpc_out="$out" \
  harvest/v1/stream.proto
printf '"""Generated code of the wire contract; see proto/generate.sh."""\n' | tee "$out/harvest/__init__.py" > "$out/harvest/v1/__init__.py"
touch "$out/harvest/py.typed"
