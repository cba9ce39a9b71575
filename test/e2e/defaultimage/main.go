// Program defaultimage prints the tag and the digest of the node image that this version of kind starts a cluster from.
package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"
)

func main() { fmt.Println(strings.TrimPrefix(defaults.Image, "kindest/node:")) }
