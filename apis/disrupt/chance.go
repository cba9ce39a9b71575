package disrupt

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"
)

// chanceOf is a number that follows from seed and the names and numbers that it is about, spread evenly. JSON keeps lists
// apart that would look the same if their parts were put one behind the other.
func chanceOf(seed int64, about ...any) uint64 {
	text, _ := json.Marshal(append([]any{seed}, about...)) // Texts and numbers always can be written.
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// Spread is a duration from 0 to limit that follows from seed and the names and numbers that it is about.
func Spread(limit time.Duration, seed int64, about ...any) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(chanceOf(seed, about...) % (uint64(limit) + 1))
}

// Hits reports whether something is among the so many of 100 that are hit, which follows from seed and the names and numbers
// that it is about. 0 means all.
func Hits(percent int32, seed int64, about ...any) bool {
	if percent <= 0 || percent >= DefaultPercent {
		return true
	}
	return int32(chanceOf(seed, about...)%DefaultPercent) < percent
}

// Choose returns so many of names, which follow from seed and the names and numbers that it is about. 0 means all.
func Choose(count int, names []string, seed int64, about ...any) []string {
	if count <= 0 || count >= len(names) {
		return slices.Clone(names)
	}
	return slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return cmp.Compare(chanceOf(seed, append(slices.Clone(about), a)...), chanceOf(seed, append(slices.Clone(about), b)...))
	})[:count]
}

// SeedOf is a seed that follows from the names and numbers that it is about. It is small enough to be a number in any JSON.
func SeedOf(about ...any) int64 {
	const spare = 12
	return int64(chanceOf(0, append([]any{"seed"}, about...)...) >> spare)
}
