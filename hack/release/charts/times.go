package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// forgetTimes writes the package of a chart again without the times at which helm made it, so that the same chart gives the same file.
func forgetTimes(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	var packed bytes.Buffer
	zipper := gzip.NewWriter(&packed)
	// By these helm knows its own.
	zipper.Extra, zipper.Comment = unpacked.Extra, unpacked.Comment
	writer := tar.NewWriter(zipper)
	if err := errors.Join(copyEntries(writer, tar.NewReader(unpacked)), writer.Close(), zipper.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.WriteFile(path, packed.Bytes(), 0o644)
}

func copyEntries(to *tar.Writer, from *tar.Reader) error {
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		header.ModTime, header.AccessTime, header.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
		if err := to.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.Copy(to, from); err != nil {
			return err
		}
	}
}
