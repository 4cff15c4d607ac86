# Sourced by the other tools, after go.sh. `need_kubernetes` sets $kubernetes: a folder with etcd, kube-apiserver, kubectl and so on.
# No package registry has these programs, so they are built, once, as one program that is linked under each name.
kubernetes_programs="etcd kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet"

need_kubernetes() {
  need_go
  local source=$PWD/tests/support/kubernetes/hyper version
  version=$(sed -n 's#^\tk8s.io/kubernetes v##p' "$source/go.mod")
  kubernetes=$cache/kubernetes-$version-$({ cat "$source"/*; "$go" version; } | sha256sum | cut -c1-12)
  [ -d "$kubernetes" ] && return
  mkdir -p "$cache"
  ( flock 9
    [ -d "$kubernetes" ] && exit
    say "building Kubernetes $version into the cache folder, once: 6 minutes on two idle cores"
    folder=$(mktemp -d "$cache/kubernetes.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    mkdir "$folder/bin"
    if ! build_kubernetes "$source" "$version" "$folder" 2> >(tee "$folder/log" |
      awk 'NR % 400 == 0 { printf "[harvest]   %d packages of Kubernetes are compiled\n", NR > "/dev/stderr" }'); then
      tail -n 40 "$folder/log" >&2
      die "Kubernetes $version could not be built (why: above); the operator's tests need it."
    fi
    for program in $kubernetes_programs; do ln -s hyperkube "$folder/bin/$program"; done
    mv "$folder/bin" "$kubernetes"
  ) 9>"$cache/kubernetes.lock"
}

build_kubernetes() ( # what is downloaded and compiled for it, two gigabytes, goes away with the folder
  set -e
  export GOMODCACHE=${GOMODCACHE:-$3/mod} GOCACHE=${GOCACHE:-$3/build} GOFLAGS="-buildvcs=false -modcacherw" GOTOOLCHAIN=local CGO_ENABLED=0
  says=k8s.io/component-base/version minor=${2#*.}
  cd "$1"
  nice "$go" build -v -trimpath -o "$3/bin/hyperkube" -ldflags "-s -w -X $says.gitVersion=v$2 -X $says.gitMajor=${2%%.*} \
    -X $says.gitMinor=${minor%%.*} -X $says.gitTreeState=clean" .
)
