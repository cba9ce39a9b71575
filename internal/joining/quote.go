package joining

import "strings"

// plainInShell are the characters, besides letters and digits, that no shell gives a meaning to within a word.
const plainInShell = "-_./:=@%+,"

// ShellQuote returns word such that a POSIX shell reads it as that one word.
func ShellQuote(word string) string {
	special := func(r rune) bool {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(plainInShell, r):
			return false
		}
		return true
	}
	if word != "" && strings.IndexFunc(word, special) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
