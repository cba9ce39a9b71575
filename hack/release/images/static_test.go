package main

import (
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// linked writes an ELF file that wants linker as its dynamic linker, or none.
func linked(t *testing.T, machine elf.Machine, linker string) string {
	t.Helper()
	const headers, programHeader = 64, 56
	kind, size := elf.PT_LOAD, uint64(0)
	if linker != "" {
		kind, size = elf.PT_INTERP, uint64(len(linker)+1)
	}
	var file bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
			Phoff: headers, Ehsize: headers, Phentsize: programHeader, Phnum: 1,
		},
		elf.Prog64{Type: uint32(kind), Off: headers + programHeader, Filesz: size, Memsz: size},
		[]byte(linker + "\x00"),
	} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "hub")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Claim: Dynamic or too large programs are refused. Broken: neither is looked at. Also: TestSizes.
func TestDynamicallyLinkedProgramIsRefused(t *testing.T) {
	g := NewWithT(t)
	path := linked(t, elf.EM_X86_64, "/lib64/ld-linux-x86-64.so.2")
	want := path + " is linked dynamically (it wants /lib64/ld-linux-x86-64.so.2), and the image would have nothing but the program: " +
		"build it with CGO_ENABLED=0, as make build does"
	_, err := testBuild.buildImage(program{name: "hub"}, path)
	g.Expect(err).To(MatchError(want))
	for machine, architecture := range map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"} {
		g.Expect(checkStatic(linked(t, machine, ""))).To(Equal(architecture))
	}
	_, err = checkStatic(linked(t, elf.EM_S390, ""))
	g.Expect(err).To(MatchError(ContainSubstring("is for EM_S390: images are made for amd64 and arm64")))
}

// It also runs in an image, as TestAProgramStartsInItsImage has it: Go finds the authorities there.
func TestAuthoritiesAreTrusted(t *testing.T) {
	g := NewWithT(t)
	pool := x509.NewCertPool()
	g.Expect(pool.AppendCertsFromPEM(publicAuthorities())).To(BeTrue())
	//nolint:staticcheck // Subjects is deprecated for system pools; it counts what AppendCertsFromPEM has added.
	g.Expect(len(pool.Subjects())).To(BeNumerically(">", 100))
	if filepath.Dir(os.Args[0]) == "/" {
		system, err := x509.SystemCertPool()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(system.Equal(pool)).To(BeTrue(), "what a program in the image trusts")
	}
}
