package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// ticksPerSecond is the unit of CPU time in /proc on every Linux that Go runs on.
const ticksPerSecond = 100

// processFigures sums the processes of one role up.
type processFigures struct {
	Role  string `json:"role"`
	Count int    `json:"count"`
	// RSSMiB and PrivateMiB are of one process, on average and at most.
	RSSMiB        float64 `json:"rssMiB"`
	RSSMaxMiB     float64 `json:"rssMaxMiB"`
	PrivateMiB    float64 `json:"privateMiB"`
	PrivateMaxMiB float64 `json:"privateMaxMiB"`
	// CPUSecondsPerMinute is of one process on average, at rest.
	CPUSecondsPerMinute float64 `json:"cpuSecondsPerMinute"`
}

type usage struct {
	role              string
	rssKiB, privateKB float64
	anonymousKiB      float64
	cpuSeconds        float64
}

// readProcesses reads every process of the fleet: those of this process's descendants that are its programs.
func readProcesses(fleet *localfleet.Fleet) map[int]usage {
	roles := map[int]string{fleet.HubProcess.PID(): "hub"}
	clusters := []*localfleet.Member{{Name: "hub", Cluster: fleet.Hub}}
	for _, member := range fleet.Members {
		roles[member.Agent.PID()] = "agent"
		clusters = append(clusters, member)
	}
	for _, member := range clusters {
		side := "workload"
		if member.Cluster == fleet.Hub {
			side = "hub"
		}
		roles[member.Cluster.Process.PID()] = side + " simcluster"
		if ready, err := member.Cluster.Ready(); err == nil {
			for name, component := range ready.Components {
				if component.PID != ready.SupervisorPID {
					roles[component.PID] = side + " " + name
				}
			}
		}
	}
	for _, pid := range process.Descendants(os.Getpid()) {
		if _, known := roles[pid]; !known {
			roles[pid] = process.Program(pid)
		}
	}
	result := map[int]usage{}
	for pid, role := range roles {
		if one, err := readUsage(pid, role); err == nil { // It may have ended meanwhile.
			result[pid] = one
		}
	}
	return result
}

func summarize(before, after map[int]usage, minutes float64) []processFigures {
	byRole := map[string]*processFigures{}
	for pid, now := range after {
		sum := byRole[now.role]
		if sum == nil {
			sum = &processFigures{Role: now.role}
			byRole[now.role] = sum
		}
		rss, private := now.rssKiB/1024, now.privateKB/1024
		sum.Count++
		sum.RSSMiB += rss
		sum.PrivateMiB += private
		sum.RSSMaxMiB, sum.PrivateMaxMiB = max(sum.RSSMaxMiB, rss), max(sum.PrivateMaxMiB, private)
		if earlier, ok := before[pid]; ok {
			sum.CPUSecondsPerMinute += (now.cpuSeconds - earlier.cpuSeconds) / minutes
		}
	}
	var result []processFigures
	for _, sum := range byRole {
		n := float64(sum.Count)
		sum.RSSMiB, sum.PrivateMiB, sum.CPUSecondsPerMinute = sum.RSSMiB/n, sum.PrivateMiB/n, sum.CPUSecondsPerMinute/n
		result = append(result, *sum)
	}
	slices.SortFunc(result, func(a, b processFigures) int { return strings.Compare(a.Role, b.Role) })
	return result
}

// controllersCPU is what the hub and all agents have used between two readings, divided by the Machines.
func controllersCPU(before, after map[int]usage, opts options) map[string]float64 {
	used := map[string]float64{}
	for pid, now := range after {
		if now.role == "hub" || now.role == "agent" {
			used[now.role] += (now.cpuSeconds - before[pid].cpuSeconds) / float64(opts.clusters*opts.machines)
		}
	}
	return used
}

func readUsage(pid int, role string) (usage, error) {
	result := usage{role: role}
	fields, err := process.Stat(pid)
	if err != nil {
		return result, err
	}
	for _, field := range fields[11:13] { // utime and stime
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return result, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
		}
		result.cpuSeconds += ticks / ticksPerSecond
	}
	rollup, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return result, err
	}
	defer rollup.Close()
	scanner := bufio.NewScanner(rollup)
	for scanner.Scan() {
		var name string
		var kib float64
		if _, err := fmt.Sscanf(scanner.Text(), "%s %f kB", &name, &kib); err != nil {
			continue // The first line is the address range.
		}
		switch name {
		case "Rss:":
			result.rssKiB = kib
		case "Anonymous:":
			result.anonymousKiB = kib
		case "Private_Clean:", "Private_Dirty:":
			result.privateKB += kib
		}
	}
	return result, scanner.Err()
}
