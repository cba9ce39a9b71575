package main

import (
	"os"
	"runtime/debug"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// rootsModule is where the public certificate authorities in an image come from.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// writeSBOM writes the modules that the program at path is made of, in the CycloneDX format: those that Go has noted in the
// program itself. It has neither a time nor a serial number, so that the same program gives the same file.
func (b build) writeSBOM(p program, path, to string) error {
	generator, err := bin.NewGenerator(path, bin.WithIncludeStdlib(true), bin.WithVersionOverride(b.version), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return err
	}
	if p.roots {
		*bom.Components = append(*bom.Components, rootsComponent())
	}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer file.Close()
	encoder := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.Encode(bom); err != nil {
		return err
	}
	return file.Close()
}

// rootsComponent is the source of /etc/ssl/certs/ca-certificates.crt in an image.
func rootsComponent() cyclonedx.Component {
	component := cyclonedx.Component{Type: cyclonedx.ComponentTypeData, Name: rootsModule, Description: "content of /" + rootsFile}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == rootsModule {
				component.Version = module.Version
			}
		}
	}
	component.PackageURL = "pkg:golang/" + rootsModule + "@" + component.Version
	component.BOMRef = component.PackageURL
	return component
}
