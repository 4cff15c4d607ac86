# Sourced by bootstrap.sh, after go.sh. The InfluxDB that tests write to: no registry has the program, so it is built, once.
# Its query language is Rust, which its own `pkg-config` compiles when Go asks for it.
influx_version=2.7.12
influx_pkg_config=0.3.0
rust_needed=1.80

influxd_program() { need_cache; echo "$cache/influxd-$influx_version"; }

lacks_rust() { ! printf '%s\n' "$rust_needed" "$(cargo --version 2>/dev/null | cut -d' ' -f2)" | sort -CV; }

need_influxd() {
  local program; program=$(influxd_program)
  [ -x "$program" ] && return
  need_go
  mkdir -p "$cache"
  ( flock 9
    [ -x "$program" ] && exit
    say "building InfluxDB $influx_version into the cache folder, once: 5 minutes on two idle cores"
    folder=$(mktemp -d "$cache/influxd.XXXXXX")
    trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
    build_influxd "$folder" >"$folder/log" 2>&1 & # beside: as a condition it would not end at its first failure
    if ! wait $!; then
      tail -n 40 "$folder/log" >&2
      die "InfluxDB $influx_version could not be built (why: above); the tests of its sink need it."
    fi
    mv "$folder/influxd" "$program"
  ) 9>"$cache/influxd.lock"
}

build_influxd() ( # in a folder in which everything is kept that is downloaded: gigabytes, which go away with it
  set -e
  export GOPATH=$1/go GOCACHE=$1/gocache GOBIN=$1/bin CARGO_HOME=$1/cargo GOFLAGS="-buildvcs=false -modcacherw" GOTOOLCHAIN=local
  lacks_rust && PATH=/usr/bin:$PATH # Debian's, which was installed beside one that is too old
  # its sources name a compiler of their own, which rustup would fetch, or miss
  if toolchain=$(rustup show active-toolchain 2>/dev/null); then export RUSTUP_TOOLCHAIN=${toolchain%% *}; fi
  nice "$go" install "github.com/influxdata/pkg-config@v$influx_pkg_config"
  sources=$("$go" mod download -json "github.com/influxdata/influxdb/v2@v$influx_version" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
  cp -r "$sources" "$1/sources"
  printf '#!/bin/sh\nexec "$@" --cap-lints=warn\n' >"$1/rustc" # newer compilers warn of more, which is denied there
  chmod -R u+w "$1/sources"; chmod +x "$1/rustc"
  cd "$1/sources"
  PATH="$(dirname "$go"):$PATH" PKG_CONFIG=$1/bin/pkg-config RUSTC_WORKSPACE_WRAPPER=$1/rustc \
    nice "$go" build -tags sqlite_foreign_keys,sqlite_json -ldflags '-s -w' -o "$1/influxd" ./cmd/influxd
)
