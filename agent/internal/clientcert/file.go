package clientcert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is a Store in a directory, for one process at a time.
type Dir struct{ path string }

// NewDir makes the directory if it is missing, readable by its owner only.
func NewDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the credential directory: %w", err)
	}
	return &Dir{path: path}, nil
}

func (d *Dir) String() string { return "directory " + d.path }

// Load implements Store.
func (d *Dir) Load(context.Context) (Contents, error) {
	contents := Contents{}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(d.path, name))
		switch {
		case err == nil:
			contents[name] = content
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("reading the stored credential: %w", err)
		}
	}
	return contents, nil
}

// Save implements Store. Each file is replaced as a whole, and only if it differs; those that must go, go last.
func (d *Dir) Save(_ context.Context, contents Contents) error {
	for _, name := range names {
		if len(contents[name]) == 0 {
			continue
		}
		if err := d.write(name, contents[name]); err != nil {
			return err
		}
	}
	for _, name := range names {
		if len(contents[name]) > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old credential: %w", err)
		}
	}
	return nil
}

func (d *Dir) write(name string, content []byte) error {
	path := filepath.Join(d.path, name)
	if known, err := os.ReadFile(path); err == nil && bytes.Equal(known, content) {
		return nil
	}
	// os.CreateTemp makes files that only their owner can read.
	temporary, err := os.CreateTemp(d.path, "."+name+"-")
	if err != nil {
		return fmt.Errorf("storing the credential: %w", err)
	}
	_, err = temporary.Write(content)
	if err == nil {
		err = temporary.Sync()
	}
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("storing the credential: %w", errors.Join(err, os.Remove(temporary.Name())))
	}
	return d.sync()
}

// sync makes a rename last through a crash of the machine.
func (d *Dir) sync() error {
	directory, err := os.Open(d.path)
	if err != nil {
		return fmt.Errorf("storing the credential: %w", err)
	}
	if err := errors.Join(directory.Sync(), directory.Close()); err != nil {
		return fmt.Errorf("storing the credential: %w", err)
	}
	return nil
}
