// Command cluster is etcd, kube-apiserver and kube-controller-manager in one program, for tests.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "cluster: name etcd, kube-apiserver or kube-controller-manager")
		os.Exit(2)
	}
	program := os.Args[1]
	os.Args = append([]string{program}, os.Args[2:]...)
	switch program {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(manager.NewControllerManagerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "cluster: there is no %s\n", program)
		os.Exit(2)
	}
}
