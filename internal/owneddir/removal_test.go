package owneddir

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"testing"
)

// tree makes a random directory of own and foreign entries.
type tree struct {
	t       *testing.T
	random  *rand.Rand
	dir     string
	outside string
	// foreign are the paths that must survive.
	foreign map[string]fs.FileMode
}

// names are those that own entries have, and some that they have not.
var names = []string{"state.json", "logs", "hub.log", "data", "member", "db", "run", "x.sock", "pods", "clusters", "notes", ".hidden", "a b"}

// grow fills a directory. mine says that all in it is of this program.
func (tr *tree) grow(within string, depth int, mine bool) {
	for range tr.random.IntN(6) {
		entry := path.Join(within, names[tr.random.IntN(len(names))])
		full := filepath.Join(tr.dir, entry)
		if exists(full) {
			continue
		}
		kind := tr.random.IntN(4)
		if depth == 0 && kind == 0 {
			kind = 1
		}
		ownFile, ownDirectory, whole := expected(entry)
		switch kind {
		case 0:
			must(tr.t, os.Mkdir(full, 0o755))
			if !mine && !ownDirectory {
				tr.foreign[entry] = fs.ModeDir
			}
			tr.grow(entry, depth-1, mine || whole)
		case 1, 2:
			must(tr.t, os.WriteFile(full, []byte(entry), 0o644))
			if !mine && !ownFile {
				tr.foreign[entry] = 0
			}
		case 3:
			must(tr.t, os.Symlink(tr.outside, full))
			if !mine {
				tr.foreign[entry] = fs.ModeSymlink
			}
		}
	}
}

// expected says by hand what the list of these tests means.
func expected(entry string) (file, directory, whole bool) {
	dir, base := path.Split(entry)
	switch {
	case entry == "state.json":
		return true, false, false
	case entry == "logs", entry == "data", entry == "data/member", entry == "run", entry == "pods", entry == "clusters":
		return false, true, false
	case dir == "logs/" && base == "hub.log", entry == "data/member/db", dir == "run/" && base == "x.sock":
		return true, false, false
	case dir == "pods/":
		return false, true, true
	}
	return false, false, false
}

// checkRandomTree removes what is known of a random tree, and wants every foreign entry to be there still.
func checkRandomTree(t *testing.T, seed uint64) {
	t.Helper()
	parent := t.TempDir()
	tr := &tree{t: t, random: rand.New(rand.NewPCG(seed, 0)), dir: filepath.Join(parent, "fleet"), outside: filepath.Join(parent, "outside"), foreign: map[string]fs.FileMode{}}
	write(t, filepath.Join(tr.outside, "hub.log"))
	write(t, filepath.Join(tr.outside, "db"))
	d := taken(t, tr.dir)
	tr.grow("", 4, false)
	left := remove(t, d)
	for entry, kind := range tr.foreign {
		info, err := os.Lstat(filepath.Join(tr.dir, entry))
		if err != nil || info.Mode().Type() != kind {
			t.Errorf("seed %d: %s, which others made, is gone: %v", seed, entry, err)
		}
	}
	for _, name := range []string{"hub.log", "db"} {
		if !exists(filepath.Join(tr.outside, name)) {
			t.Errorf("seed %d: a link was followed to %s", seed, name)
		}
	}
	if own := len(tr.foreign) == 0; own != (len(left) == 0) || own == exists(tr.dir) {
		t.Errorf("seed %d: left %v, others made %v", seed, left, tr.foreign)
	}
}

func TestRemovalNeverTouchesWhatOthersMade(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { checkRandomTree(t, seed) })
	}
}

func FuzzRemoval(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed)
	}
	f.Fuzz(checkRandomTree)
}
