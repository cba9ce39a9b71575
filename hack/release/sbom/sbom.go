// Package sbom writes the modules that a program is made of: those that Go has noted in the program itself.
package sbom

import (
	"errors"
	"os"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// Write writes the modules of a program, and what comes with it, to a file in the CycloneDX format. It has neither a time nor a serial
// number, so that the same program gives the same file.
func Write(program, version, to string, more ...cyclonedx.Component) error {
	generator, err := bin.NewGenerator(program, bin.WithIncludeStdlib(true), bin.WithVersionOverride(version), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return err
	}
	*bom.Components = append(*bom.Components, more...)
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	encoder := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	return errors.Join(encoder.Encode(bom), file.Close())
}
