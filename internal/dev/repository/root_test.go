package repository_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/repository"
)

func TestFindRoot(t *testing.T) {
	g := NewWithT(t)
	root, err := repository.FindRoot()
	g.Expect(err).NotTo(HaveOccurred())
	own, err := os.Getwd()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filepath.Join(root, "internal", "dev", "repository")).To(Equal(own))

	t.Chdir(t.TempDir())
	_, err = repository.FindRoot()
	g.Expect(err).To(MatchError("looking for the repository: the working directory and those above it have no go.work"))
}
