// Package plural writes numbers of things.
package plural

import (
	"fmt"
	"strings"
)

// Count is a number of things with the name of one in the right number: "1 machine", "2 machines", "3 certificate requests".
func Count[N int | int32 | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, Of(one))
}

// Of is the name of several things, by that of one: "machines", "classes", "policies".
func Of(one string) string {
	switch {
	case strings.HasSuffix(one, "s"), strings.HasSuffix(one, "ch"), strings.HasSuffix(one, "x"):
		return one + "es"
	case strings.HasSuffix(one, "y") && !strings.ContainsRune("aeiou", rune(one[max(len(one)-2, 0)])):
		return strings.TrimSuffix(one, "y") + "ies"
	}
	return one + "s"
}

// Are is Count with the verb: "1 machine is", "2 machines are".
func Are[N int | int32 | int64](n N, one string) string {
	return Count(n, one) + " " + Verb(n, "is", "are")
}

// Were is Are of what is past: "1 pod was", "2 pods were".
func Were[N int | int32 | int64](n N, one string) string {
	return Count(n, one) + " " + Verb(n, "was", "were")
}

// Have is Count with that verb: "1 cluster has", "2 clusters have".
func Have[N int | int32 | int64](n N, one string) string {
	return Count(n, one) + " " + Verb(n, "has", "have")
}

// Verb is the form of a verb for a number of things: singular for one of them, else several.
func Verb[N int | int32 | int64](n N, singular, several string) string {
	if n == 1 {
		return singular
	}
	return several
}
