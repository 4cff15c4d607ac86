#!/usr/bin/env bash
# Makes .venv with the pinned tools, and the agent's compiled scanner. Quiet when there is nothing to do.
# System packages are asked for once on a person's machine; in CI and as root in a container they are just installed.
# With `tests`: also the servers that tests start; with `images` or `rpm`: what those are made with.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/uv.sh
. tools/go.sh
. tools/kubernetes.sh
. tools/influxd.sh

command -v python3 >/dev/null || die "python3 is missing. Install Python 3.11 or newer (Debian 12: apt-get install python3)."
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "Python 3.11 or newer is needed; this is $(python3 -V)."

# --- system packages: only those that are missing
missing=()
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
command -v git >/dev/null || missing+=(git)
gcc -fsyntax-only -x c - <<<'#include <string.h>' 2>/dev/null || missing+=(gcc libc6-dev) # gcc alone has no headers
case ${1:-} in images | tests) command -v mmdebstrap >/dev/null || missing+=(mmdebstrap) ;; esac
case ${1:-} in rpm | tests)
  command -v rpmbuild >/dev/null || missing+=(rpm)
  for machine in x86_64 aarch64; do # the compiler for other machines has their headers apart
    "$machine-linux-gnu-gcc" -fsyntax-only -x c - <<<'#include <string.h>' 2>/dev/null ||
      missing+=("gcc-${machine/_/-}-linux-gnu" "libc6-dev-$([ $machine = x86_64 ] && echo amd64 || echo arm64)-cross")
  done
  ;;
esac
if [ "${1:-}" = tests ]; then # servers that the tests talk to; only `make test` asks for them
  PATH=$PATH:/usr/sbin
  command -v gmond >/dev/null || missing+=(ganglia-monitor)
  command -v gmetad >/dev/null || missing+=(gmetad)
  for need in slurmctld slurmd slurmdbd slurmrestd squeue:slurm-client munged:munge mariadbd:mariadb-server-core; do
    command -v "${need%:*}" >/dev/null || missing+=("${need#*:}")
  done
  compgen -G '/usr/lib/*/slurm-wlm/accounting_storage_mysql.so' >/dev/null || missing+=(slurm-wlm-mysql-plugin)
  compgen -G '/usr/lib/*/slurm-wlm/auth_jwt.so' >/dev/null || missing+=(slurm-wlm-jwt-plugin)
  command -v promtool >/dev/null || missing+=(prometheus) # tries alerts, and scrapes what the aggregator shows
  if [ ! -x "$(influxd_program)" ]; then
    lacks_rust && missing+=(cargo-web rustc-web) # Debian's newest; plain cargo and rustc are too old
    command -v pkg-config >/dev/null || missing+=(pkg-config)
  fi
  for need in containerd runc iptables ip:iproute2; do # a node of Kubernetes
    command -v "${need%:*}" >/dev/null || missing+=("${need#*:}")
  done
  [ -e /usr/lib/cni/ptp ] || missing+=(containernetworking-plugins)
  command -v rpmlint >/dev/null || missing+=(rpmlint)
  command -v tmux >/dev/null || missing+=(tmux) # a real terminal for `harvest top`
fi
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || die "Please install: ${missing[*]} (this is not Debian, so it cannot be done for you)."
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "You are not root and there is no sudo. As root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  in_container() { [ -e /.dockerenv ] || [ -e /run/.containerenv ] || grep -qaE 'docker|lxc|containerd|kubepods' /proc/1/cgroup; }
  if [ -z "${CI:-}" ] && ! { [ "$(id -u)" = 0 ] && in_container; } && [ -z "${HARVEST_YES:-}" ]; then
    say "These Debian packages are needed and will be installed: ${missing[*]}"
    [ -t 0 ] || die "Nobody to ask. Say HARVEST_YES=1 to agree, or install them yourself: apt-get install ${missing[*]}"
    read -r -p "Go on? [y/N] " answer
    [[ $answer == [yY]* ]] || die "Nothing was changed."
  fi
  say "installing ${missing[*]}"
  quietly=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get) # sudo drops what is set outside of it
  "${quietly[@]}" update -qq
  policy=/usr/sbin/policy-rc.d # Debian asks it before it starts what was installed; here nothing is to run
  if [ -d /run/systemd/system ] && [ ! -e $policy ] &&
    "${as_root[@]}" install -m 755 /dev/stdin $policy <<<$'#!/bin/sh\nexit 101'; then
    trap '"${as_root[@]}" rm -f $policy' EXIT
  fi
  "${quietly[@]}" install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

# --- the environment, made again only when the pins, the members' descriptions or Python changed
wanted=$({ python3 -c 'import sys; print(sys.version, sys.base_prefix)'; cat requirements/dev.txt ./*/pyproject.toml tools/*.sh; } |
  sha256sum | cut -d' ' -f1)
if [ ! -x .venv/bin/python ] || [ "$(cat .venv/harvest-stamp 2>/dev/null)" != "$wanted" ]; then
  need_uv
  say "making .venv with the pinned tools"
  "$uv" venv -q --allow-existing --python "$(command -v python3)" .venv
  VIRTUAL_ENV=$PWD/.venv "$uv" pip sync -q --require-hashes requirements/dev.txt
  members=(); for member in ./*/pyproject.toml; do members+=(-e "${member%/pyproject.toml}"); done
  VIRTUAL_ENV=$PWD/.venv "$uv" pip install -q --no-deps --no-build-isolation "${members[@]}"
  echo "$wanted" > .venv/harvest-stamp
fi

# --- the compiled scanner (the agent works without it, slower; the tests compare the two)
library=agent/src/harvest_agent/libharvest_scan.so
if [ ! -e $library ] || [ agent/native/scan.c -nt $library ]; then
  say "compiling agent/native/scan.c"
  gcc -O2 -std=c11 -Wall -Wextra -Werror -fPIC -shared -o $library agent/native/scan.c ||
    die "agent/native/scan.c does not compile (gcc says why, above). The tests need it, so nothing more was done."
fi

# --- a Debian with pyslurm and its Slurm, in the cache folder: minutes, once, which no test has
if [ "${1:-}" = tests ] && [ "$(id -u)" = 0 ]; then
  PYTHONPATH=tests .venv/bin/python -m support.pyslurm_root
fi

# --- a Kubernetes in the cache folder: minutes, once; the next time this asks Go for its version only
if [ "${1:-}" = tests ]; then
  need_kubernetes
  need_go_program dns tests/support/kubernetes/dns # its names
  need_go_program kind-loader tests/support/kind sigs.k8s.io/kind pkg/harvest
  need_prometheus_rules
fi

# --- the InfluxDB that tests write to, likewise
if [ "${1:-}" = tests ]; then need_influxd; fi
