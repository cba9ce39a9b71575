package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	user = "65532"
	// rootsFile is the first place where Go looks for the authorities to trust.
	rootsFile = "etc/ssl/certs/ca-certificates.crt"

	passwd = "root:x:0:0:root:/:/sbin/nologin\nhollowfleet:x:" + user + ":" + user + ":hollowfleet:/:/sbin/nologin\n"
	group  = "root:x:0:\nhollowfleet:x:" + user + ":\n"
)

// entry is a file or, with a name that ends in a slash, a directory of a layer. It belongs to root.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// systemFiles are the files that the image of a program has beside the program.
func systemFiles(p program) []entry {
	files := []entry{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte(passwd)},
		{"etc/group", 0o644, []byte(group)},
	}
	if p.roots {
		files = append(files, entry{"etc/ssl/", 0o755, nil}, entry{"etc/ssl/certs/", 0o755, nil}, entry{rootsFile, 0o644, publicAuthorities()})
	}
	if p.temporary {
		files = append(files, entry{"tmp/", 0o1777, nil})
	}
	return files
}

// publicAuthorities are the public certificate authorities that Mozilla trusts, in the format of ca-certificates.crt. An authority that
// is trusted with a restriction is left out, because that format cannot state it.
func publicAuthorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return all.Bytes()
}

// systemLayer is the layer with files.
func systemLayer(files []entry) (v1.Layer, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, file := range files {
		if err := writer.WriteHeader(tarHeader(file.name, file.mode, int64(len(file.content)))); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return newLayer(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
}

// programLayer is the layer with the program alone, as /NAME.
func programLayer(name, path string) (v1.Layer, error) {
	return newLayer(func() (io.ReadCloser, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		reader, writer := io.Pipe()
		go func() {
			defer file.Close()
			writer.CloseWithError(writeProgram(writer, name, file, info.Size()))
		}()
		return reader, nil
	})
}

func writeProgram(to io.Writer, name string, program io.Reader, size int64) error {
	archive := tar.NewWriter(to)
	if err := archive.WriteHeader(tarHeader(name, 0o755, size)); err != nil {
		return err
	}
	if _, err := io.Copy(archive, program); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return archive.Close()
}

// tarHeader has nothing that changes from one build to the next: no time, no names of this machine's users.
func tarHeader(name string, mode, size int64) *tar.Header {
	kind := byte(tar.TypeReg)
	if name[len(name)-1] == '/' {
		kind = tar.TypeDir
	}
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
}

// newLayer keeps the compressed layer in memory: it is needed several times, and compressing takes the longest of all.
func newLayer(open tarball.Opener) (v1.Layer, error) {
	return tarball.LayerFromOpener(open, tarball.WithCompressedCaching, tarball.WithCompressionLevel(gzip.DefaultCompression))
}
