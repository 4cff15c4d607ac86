// One program that is a whole Kubernetes: etcd, the control plane, a node's two daemons and kubectl.
// Which of them it is is said by its name (it is linked under each), or by its first argument.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	complaint "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var daemons = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func run(name string) bool {
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kubectl":
		complaint.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
	default:
		daemon, known := daemons[name]
		if !known {
			return false
		}
		os.Exit(cli.Run(daemon()))
	}
	return true
}

func main() {
	if run(filepath.Base(os.Args[0])) {
		return
	}
	if len(os.Args) > 1 {
		os.Args = os.Args[1:]
		if run(os.Args[0]) {
			return
		}
	}
	names := []string{"etcd", "kubectl"}
	for name := range daemons {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "usage: hyperkube %s ...\n", strings.Join(names, "|"))
	os.Exit(2)
}
