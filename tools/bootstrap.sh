#!/usr/bin/env bash
# Makes .venv with the pinned tools, and the agent's compiled scanner. Quiet when there is nothing to do.
# System packages are asked for once on a person's machine; in CI and as root in a container they are just installed.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${HARVEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/harvest}
uv_version=0.13.7
say() { printf '\033[1m[harvest]\033[0m %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

command -v python3 >/dev/null || die "python3 is missing. Install Python 3.11 or newer (Debian 12: apt-get install python3)."
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "Python 3.11 or newer is needed; this is $(python3 -V)."

# --- system packages: only those whose command is missing
missing=()
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
command -v git >/dev/null || missing+=(git)
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || die "Please install: ${missing[*]} (this is not Debian, so it cannot be done for you)."
  in_container() { [ -e /.dockerenv ] || [ -e /run/.containerenv ] || grep -qaE 'docker|lxc|containerd|kubepods' /proc/1/cgroup; }
  if [ -z "${CI:-}" ] && ! { [ "$(id -u)" = 0 ] && in_container; } && [ -z "${HARVEST_YES:-}" ]; then
    say "These Debian packages are needed and will be installed: ${missing[*]}"
    [ -t 0 ] || die "Nobody to ask. Say HARVEST_YES=1 to agree, or install them yourself."
    read -r -p "Go on? [y/N] " answer
    [[ $answer == [yY]* ]] || die "Nothing was changed."
  fi
  as_root=(); [ "$(id -u)" = 0 ] || as_root=(sudo)
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

# --- uv
uv=$(command -v uv || true)
if [ -z "$uv" ] || [ "$("$uv" --version | cut -d' ' -f2)" != "$uv_version" ]; then
  uv=$cache/uv-$uv_version/bin/uv
  if [ ! -x "$uv" ]; then
    say "getting uv $uv_version"
    python3 -m venv "$cache/uv-$uv_version"
    "$cache/uv-$uv_version/bin/pip" install -q --disable-pip-version-check "uv==$uv_version"
  fi
fi

# --- the environment, made again only when the pins or the members' descriptions changed
wanted=$(cat requirements/dev.txt ./*/pyproject.toml tools/bootstrap.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat .venv/harvest-stamp 2>/dev/null)" != "$wanted" ]; then
  say "making .venv with the pinned tools"
  "$uv" venv -q --allow-existing --python "$(command -v python3)" .venv
  VIRTUAL_ENV=$PWD/.venv "$uv" pip sync -q --require-hashes requirements/dev.txt
  members=(); for member in ./*/pyproject.toml; do members+=(-e "${member%/pyproject.toml}"); done
  VIRTUAL_ENV=$PWD/.venv "$uv" pip install -q --no-deps --no-build-isolation "${members[@]}"
  echo "$wanted" > .venv/harvest-stamp
fi

# --- the compiled scanner (the agent works without it, slower)
library=agent/src/harvest_agent/libharvest_scan.so
if [ ! -e $library ] || [ agent/native/scan.c -nt $library ]; then
  say "compiling agent/native/scan.c"
  gcc -O2 -std=c11 -Wall -Wextra -Werror -fPIC -shared -o $library agent/native/scan.c
fi
