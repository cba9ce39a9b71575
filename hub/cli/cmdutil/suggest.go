package cmdutil

import (
	"strings"
)

// farthest is how many letters a name may be off to be suggested.
const farthest = 2

// DidYouMean is a question after the one of known that is nearest to typed, or "" if none is near.
func DidYouMean(typed string, known []string) string {
	best, nearest := "", farthest+1
	for _, name := range known {
		if far := editDistance(strings.ToLower(typed), name); far < nearest && far < len(name) {
			best, nearest = name, far
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// editDistance is the number of letters to insert, remove or change between a and b. It is exact up to farthest.
func editDistance(a, b string) int {
	if len(a)-len(b) > farthest || len(b)-len(a) > farthest {
		return farthest + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
