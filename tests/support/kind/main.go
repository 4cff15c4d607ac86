// Reads a configuration of kind as kind does, and prints what kind understood of it.
// It is built inside a copy of kind's source: its loader may only be used there.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/kind/pkg/internal/apis/config/encoding"
)

func main() {
	cluster, err := encoding.Load(os.Args[1])
	if err == nil {
		err = cluster.Validate()
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(cluster)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
