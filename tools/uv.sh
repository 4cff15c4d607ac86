# Sourced by the other tools. `need_uv` sets $uv: the wanted version from the PATH, else from our cache.
# sites with a proxy of their own keep its certificate in the system's store
[ -s /etc/ssl/certs/ca-certificates.crt ] && export UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1
uv_version=0.13.7
say() { printf '\033[1m[harvest]\033[0m %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Sets $cache: where downloads and what is built of them are kept.
need_cache() {
  : "${HOME:=$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6)}" # services and bare containers have none
  export HOME
  [ -n "$HOME${XDG_CACHE_HOME:-}${HARVEST_CACHE:-}" ] || die "HOME is not set. Say HARVEST_CACHE=DIR: where downloads are kept."
  cache=${HARVEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/harvest}
}

need_uv() {
  uv=$(command -v uv || true)
  if [ -n "$uv" ] && [ "$("$uv" --version | cut -d' ' -f2)" = "$uv_version" ]; then return; fi
  need_cache
  uv=$cache/uv-$uv_version/bin/uv
  if [ ! -x "$uv" ]; then
    say "getting uv $uv_version"
    python3 -m venv "$cache/uv-$uv_version"
    "$cache/uv-$uv_version/bin/pip" install -q --disable-pip-version-check "uv==$uv_version"
  fi
}
