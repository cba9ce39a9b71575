package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Descendants returns the IDs of all processes that root has started, and that those have started.
func Descendants(root int) []int {
	children := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	for _, path := range stats {
		if fields, err := statFields(path); err == nil {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			parent, parentErr := strconv.Atoi(fields[1])
			if err == nil && parentErr == nil {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	var all []int
	for queue := slices.Clone(children[root]); len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return all
}

// Stat returns the fields of the process's stat file after the program's name, which start with state and parent.
func Stat(pid int) ([]string, error) { return statFields(fmt.Sprintf("/proc/%d/stat", pid)) }

func statFields(path string) ([]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("reading %s: too few fields", path)
	}
	return fields, nil
}

// Program is the name of the program that the process runs, "ended" if it does not run.
func Program(pid int) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "ended"
	}
	return filepath.Base(target)
}
