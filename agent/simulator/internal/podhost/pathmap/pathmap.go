// Package pathmap stands in for mount points. Pods run without a mount
// namespace, so a volume cannot appear at its mount path. Instead, where the
// mount path occurs in a container's command, arguments or environment, it is
// replaced by the directory that holds the volume.
package pathmap

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Map replaces mount paths. The zero value replaces nothing.
type Map struct {
	entries []entry
}

type entry struct{ mountPath, directory string }

// New makes a map from mount paths to directories.
func New(directories map[string]string) Map {
	var m Map
	for mountPath, directory := range directories {
		m.entries = append(m.entries, entry{path.Clean(mountPath), directory})
	}
	// A mount inside another one wins over it.
	slices.SortFunc(m.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(len(b.mountPath), len(a.mountPath)), cmp.Compare(a.mountPath, b.mountPath))
	})
	return m
}

// Apply replaces every mount path in the text.
func (m Map) Apply(text string) string {
	var result strings.Builder
	for i := 0; i < len(text); {
		match := slices.IndexFunc(m.entries, func(e entry) bool { return occursAt(text, i, e.mountPath) })
		if match < 0 {
			result.WriteByte(text[i])
			i++
			continue
		}
		result.WriteString(m.entries[match].directory)
		i += len(m.entries[match].mountPath)
	}
	return result.String()
}

// Occurs reports whether the mount path would be replaced in the text.
func Occurs(text, mountPath string) bool {
	mountPath = path.Clean(mountPath)
	for i := range len(text) {
		if occursAt(text, i, mountPath) {
			return true
		}
	}
	return false
}

func occursAt(text string, i int, mountPath string) bool {
	if !strings.HasPrefix(text[i:], mountPath) {
		return false
	}
	end := i + len(mountPath)
	return (i == 0 || beginsPath(text[i-1])) && (end == len(text) || text[end] == '/' || !isNameByte(text[end]))
}

// beginsPath reports whether a path may start after this character: one that
// belongs to a path or closes an expansion such as ${HOME} does not qualify.
func beginsPath(before byte) bool {
	return !isNameByte(before) && !strings.ContainsRune("/})*", rune(before))
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 || strings.IndexByte("._-~%+@", c) >= 0
}
