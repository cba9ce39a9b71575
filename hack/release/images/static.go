package main

import (
	"debug/elf"
	"fmt"
	"io"
	"strings"
)

// checkStatic returns the architecture of a program, as Go names it. A program that needs a dynamic linker is refused: its
// image has none, and starting it there would fail with "no such file or directory", which names the program itself.
func checkStatic(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading %s as a Linux program: %w", path, err)
	}
	defer file.Close()
	for _, header := range file.Progs {
		if header.Type != elf.PT_INTERP {
			continue
		}
		linker, err := io.ReadAll(header.Open())
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", path, err)
		}
		return "", fmt.Errorf("%s is linked dynamically (it wants %s), and the image would have nothing but the program: build it with CGO_ENABLED=0, as make build does",
			path, strings.TrimRight(string(linker), "\x00"))
	}
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	default:
		return "", fmt.Errorf("%s is for %s: images are made for amd64 and arm64", path, file.Machine)
	}
}
