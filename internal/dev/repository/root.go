// Package repository finds the source of Hollowfleet from within a test or a program of development.
package repository

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// FindRoot returns the directory that has go.work: the working directory or the nearest one above it. Tests run in the directory of their
// package, so it finds theirs. It is an error if there is none. Paths that the compiler notes cannot serve: -trimpath takes them out.
func FindRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	for ; ; directory = filepath.Dir(directory) {
		if _, err := os.Stat(filepath.Join(directory, "go.work")); err == nil {
			return directory, nil
		}
		if directory == filepath.Dir(directory) {
			return "", errors.New("looking for the repository: the working directory and those above it have no go.work")
		}
	}
}
