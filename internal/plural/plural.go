// Package plural writes numbers of things.
package plural

import (
	"fmt"
	"strings"
)

// Count is a number of things with the name of one in the right number: "1 machine", "2 machines".
func Count(n int, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "s"):
		return fmt.Sprintf("%d %ses", n, one)
	}
	return fmt.Sprintf("%d %ss", n, one)
}
