package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// member is a file of an archive.
type member struct {
	name, path string
	mode       fs.FileMode
}

// archiveName is the file with the plugin for a platform.
func (o options) archiveName(p platform) string {
	extension := ".tar.gz"
	if p.os == "windows" {
		extension = ".zip"
	}
	return fmt.Sprintf("%s_%s_%s%s", pluginName, o.version, p, extension)
}

// listMembers returns the files of the archive with a plugin, in the order of their names: the licence, the program that kubectl asks for completions,
// and the plugin.
func (o options) listMembers(plugin string, p platform) []member {
	completion := "kubectl_complete-hollow"
	source := "kubectl_complete-hollow.sh"
	if p.os == "windows" {
		completion += ".cmd"
		source = "kubectl_complete-hollow.cmd"
	}
	return []member{
		{"LICENSE", filepath.Join(o.root, "LICENSE"), 0o644},
		{filepath.Base(plugin), plugin, 0o755},
		{completion, filepath.Join(o.root, "hack", source), 0o755},
	}
}

// writeArchive packs a plugin. What it writes depends on the contents, the version and the time of the commit alone.
func (o options) writeArchive(plugin string, p platform, to string) error {
	write := writeTarGz
	if p.os == "windows" {
		write = writeZip
	}
	if err := write(to, o.listMembers(plugin, p), o.source.time); err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return nil
}

func writeTarGz(to string, members []member, modified time.Time) error {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	zipper := gzip.NewWriter(file) // Its header has neither a name nor a time.
	archive := tar.NewWriter(zipper)
	for _, m := range members {
		content, readErr := os.ReadFile(m.path)
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: m.name, Mode: int64(m.mode), Size: int64(len(content)), ModTime: modified, Format: tar.FormatUSTAR,
		}
		if err = errors.Join(readErr, archive.WriteHeader(header)); err != nil {
			break
		}
		if _, err = archive.Write(content); err != nil {
			break
		}
	}
	return errors.Join(err, archive.Close(), zipper.Close(), file.Close())
}

func writeZip(to string, members []member, modified time.Time) error {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	archive := zip.NewWriter(file)
	for _, m := range members {
		if err = addToZip(archive, m, modified); err != nil {
			break
		}
	}
	return errors.Join(err, archive.Close(), file.Close())
}

func addToZip(archive *zip.Writer, m member, modified time.Time) error {
	content, err := os.ReadFile(m.path)
	if err != nil {
		return err
	}
	header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: modified}
	header.SetMode(m.mode)
	writer, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = writer.Write(content)
	return err
}
