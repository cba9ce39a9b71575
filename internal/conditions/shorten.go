package conditions

import "unicode/utf8"

const (
	// cut stands for what was taken out of a text.
	cut = "…"
	// shortest is the fewest characters of a text that is cut in the middle. A shorter one is a name or a version, whose start matters.
	shortest = 128
)

// Shorten takes the middle out of text that has more than most characters: messages start with what is wrong and end with the remedy. The
// longer part of what stays is the start. Fewer than 128 characters are the start alone.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	characters := []rune(text)
	if len(characters) <= most {
		return text
	}
	if most < shortest {
		return string(characters[:most-1]) + cut
	}
	end := (most - 1) / 2
	return string(characters[:most-1-end]) + cut + string(characters[len(characters)-end:])
}

// ShortenBytes is Shorten for a limit in bytes of UTF-8, of at least 128. Characters stay whole.
func ShortenBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := (most - len(cut)) / 2
	start := most - len(cut) - end
	for start > 0 && !utf8.RuneStart(text[start]) {
		start--
	}
	for end > 0 && !utf8.RuneStart(text[len(text)-end]) {
		end--
	}
	return text[:start] + cut + text[len(text)-end:]
}
