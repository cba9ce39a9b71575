package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// imageSizes are how much an image takes on a node and how much is transferred to it, in bytes.
func imageSizes(image v1.Image) (unpacked, packed int64, err error) {
	layers, err := image.Layers()
	if err != nil {
		return 0, 0, err
	}
	for _, layer := range layers {
		compressed, err := layer.Size()
		if err != nil {
			return 0, 0, err
		}
		packed += compressed
		content, err := layer.Uncompressed()
		if err != nil {
			return 0, 0, err
		}
		length, err := io.Copy(io.Discard, content)
		if err := errors.Join(err, content.Close()); err != nil {
			return 0, 0, err
		}
		unpacked += length
	}
	return unpacked, packed, nil
}

func printTable(out io.Writer, rows []row) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "IMAGE\tSIZE\tCOMPRESSED\tDIGEST")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.image, formatMegabytes(r.size), formatMegabytes(r.packed), r.digest)
	}
}

func formatMegabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/megabyte) }

// checkSizes names each image that is larger than it may be.
func checkSizes(rows []row) error {
	var problems []error
	for _, r := range rows {
		if r.limit != 0 && r.size > r.limit {
			problems = append(problems, fmt.Errorf("%s has %s, and may have at most %s", r.image, formatMegabytes(r.size), formatMegabytes(r.limit)))
		}
	}
	return errors.Join(problems...)
}
