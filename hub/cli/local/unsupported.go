//go:build !linux

// Package local has the commands of "kubectl hollow local": a whole fleet on this machine. They need Linux.
package local

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// DescribeKeeper says nothing: local fleets run on Linux only.
func DescribeKeeper(string, []string) string { return "" }

// FindFleet finds none, for the same reason.
func FindFleet(string, []string) *cmdutil.LocalFleet { return nil }

// NewCommand returns "local", which says that it needs Linux.
func NewCommand(*cmdutil.Hub) *cobra.Command {
	return &cobra.Command{
		Use: "local", Short: "Run a whole fleet on this machine (Linux only)", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cmdutil.Refusal("a local fleet needs Linux, and this is %s: run it on a Linux machine or in a container, and reach its hub with --kubeconfig", runtime.GOOS)
		},
	}
}
