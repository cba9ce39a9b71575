package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// isolatedPeer is the name of isolatedPeerCommand.
const isolatedPeer = "isolated-peer"

// isolateNetwork gives a command a network of its own, which nothing outside can reach. It needs no root where users may have namespaces.
func isolateNetwork(command *exec.Cmd) {
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	command.SysProcAttr = attributes
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
}

// isolatedPeerCommand returns the command that runs in a network of its own.
func isolatedPeerCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: isolatedPeer + " NAME PROGRAM NODES", Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := strconv.Atoi(args[2])
			if err != nil {
				return fmt.Errorf("NODES: %w", err)
			}
			if err := raiseLoopback(); err != nil {
				return err
			}
			for _, one := range listPeers(scaleOptions{}) {
				if one.Name == args[0] {
					one.program, one.Nodes = args[1], nodes
					figures, err := one.measurePeer(cmd.Context(), *opts)
					if err != nil {
						return err
					}
					return json.NewEncoder(opts.out).Encode(figures)
				}
			}
			return fmt.Errorf("NAME: no %s", args[0])
		},
	}
	cmd.Flags().DurationVar(&opts.settle, "settle", opts.settle, "as in scale")
	return cmd
}

// raiseLoopback brings the loopback interface of a new network up.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("naming the loopback interface: %w", err)
	}
	loopback.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback); err != nil {
		return fmt.Errorf("raising the loopback interface: %w", err)
	}
	return nil
}
