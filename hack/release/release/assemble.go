package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/hollowfleet/hollowfleet/hack/release/sbom"
)

const (
	checksumsFile  = "SHA256SUMS"
	provenanceFile = "provenance.intoto.json"
)

// assembleRelease adds to images and charts what else belongs to a release: the plugin, the SBOMs of the charts, the provenance of all, and the checksums of all.
func (o options) assembleRelease(programs []string, made string) error {
	if slices.Contains(o.parts, partPlugin) {
		if err := o.assemblePlugin(programs, made); err != nil {
			return err
		}
	}
	if err := describeCharts(made); err != nil {
		return err
	}
	sums, err := sumFiles(made)
	if err != nil {
		return err
	}
	if err := o.writeProvenance(sums, programs, filepath.Join(made, provenanceFile)); err != nil {
		return err
	}
	if sums, err = sumFiles(made); err != nil {
		return err
	}
	var text strings.Builder
	for _, each := range sums {
		fmt.Fprintf(&text, "%s  %s\n", each.sum, each.name)
	}
	return os.WriteFile(filepath.Join(made, checksumsFile), []byte(text.String()), 0o644)
}

// assemblePlugin writes an archive and an SBOM for each plugin among the programs, and the manifest of krew.
func (o options) assemblePlugin(programs []string, made string) error {
	var entries []krewPlatform
	for _, path := range programs {
		if !strings.HasPrefix(filepath.Base(path), pluginName) {
			continue
		}
		system, arch, _ := strings.Cut(filepath.Base(filepath.Dir(path)), "_")
		p := platform{system, arch}
		archive := filepath.Join(made, o.archiveName(p))
		if err := o.writeArchive(path, p, archive); err != nil {
			return err
		}
		if err := sbom.WriteProgram(path, o.version, filepath.Join(made, fmt.Sprintf("%s_%s_%s.cdx.json", pluginName, o.version, p))); err != nil {
			return fmt.Errorf("writing the SBOM of %s: %w", path, err)
		}
		sum, err := sumFile(archive)
		if err != nil {
			return err
		}
		entries = append(entries, o.krewPlatformOf(p, filepath.Base(path), sum))
	}
	return o.writeKrew(entries, filepath.Join(made, krewFile))
}

// describeCharts writes an SBOM beside each chart of a directory.
func describeCharts(made string) error {
	charts, err := filepath.Glob(filepath.Join(made, "*.tgz"))
	if err != nil {
		return err
	}
	for _, path := range charts {
		if err := sbom.WriteChart(path, strings.TrimSuffix(path, ".tgz")+".cdx.json"); err != nil {
			return fmt.Errorf("writing the SBOM of %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// summed is a file with its SHA-256, in hexadecimal.
type summed struct {
	name, sum string
	size      int64
}

// sumFiles are all files of a directory, by name, but the list of checksums.
func sumFiles(directory string) ([]summed, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var all []summed
	for _, entry := range entries {
		if entry.Name() == checksumsFile {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		sum, err := sumFile(filepath.Join(directory, entry.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, summed{entry.Name(), sum, info.Size()})
	}
	return all, nil
}

func sumFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func printFiles(out io.Writer, directory string) error {
	files, err := sumFiles(directory)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FILE\tSIZE\tSHA-256")
	for _, each := range files {
		fmt.Fprintf(table, "%s\t%.1f MB\t%.12s…\n", each.name, float64(each.size)/1e6, each.sum)
	}
	return table.Flush()
}
