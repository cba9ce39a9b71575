// Package shell writes commands that a user can copy into a POSIX shell.
package shell

import "strings"

// plain are the characters, besides letters and digits, that no shell gives a meaning to within a word.
const plain = "-_./:=@%+,"

// Quote returns word such that a shell reads it as that one word.
func Quote(word string) string {
	special := func(r rune) bool {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(plain, r):
			return false
		}
		return true
	}
	if word != "" && strings.IndexFunc(word, special) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
