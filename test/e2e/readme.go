// Package e2e runs Hollowfleet on real kind clusters, with the images, the charts and the commands that a user has.
package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// block is a piece of shell in a page.
type block struct{ text string }

var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// blocks are the pieces of shell below a heading of a Markdown page, in their order.
func blocks(page, heading string) ([]block, error) {
	content, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, section, found := strings.Cut("\n"+string(content), "\n"+heading+"\n")
	if !found {
		return nil, fmt.Errorf("%s has no heading %q", page, heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	section, _, _ = strings.Cut(section, "\n"+level+" ")
	var all []block
	for _, match := range shell.FindAllStringSubmatch(section, -1) {
		all = append(all, block{text: match[1]})
	}
	return all, nil
}

// with is the block with other names in it, given as pairs of old and new. A name that the block does not have is an error: then
// the page has changed, and what would run is not what it says.
func (b block) with(pairs ...string) (string, error) {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(b.text, pairs[i]) {
			return "", fmt.Errorf("no %q in these commands:\n%s", pairs[i], b.text)
		}
	}
	return strings.NewReplacer(pairs...).Replace(b.text), nil
}
