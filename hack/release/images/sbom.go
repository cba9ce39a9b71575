package main

import (
	"runtime/debug"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/hollowfleet/hollowfleet/hack/release/sbom"
)

// rootsModule is where the public certificate authorities in an image come from.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// writeSBOM writes what the image of the program at path is made of.
func (b build) writeSBOM(p program, path, to string) error {
	if p.roots {
		return sbom.WriteProgram(path, b.version, to, rootsComponent())
	}
	return sbom.WriteProgram(path, b.version, to)
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
