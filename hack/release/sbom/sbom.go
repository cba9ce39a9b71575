// Package sbom writes what programs and charts consist of, in the CycloneDX format. The files have neither a time nor a serial number: what
// is the same gives the same file.
package sbom

import (
	"errors"
	"os"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// WriteProgram writes the modules of a program, which Go has noted in the program itself, and more that comes with it, to a file.
func WriteProgram(program, version, to string, more ...cyclonedx.Component) error {
	generator, err := bin.NewGenerator(program, bin.WithIncludeStdlib(true), bin.WithVersionOverride(version), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return err
	}
	*bom.Components = append(*bom.Components, more...)
	return writeBOM(bom, to)
}

func writeBOM(bom *cyclonedx.BOM, to string) error {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	encoder := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	return errors.Join(encoder.Encode(bom), file.Close())
}
