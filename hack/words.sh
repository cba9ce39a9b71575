#!/usr/bin/env bash
# Refuses the words of the first table of docs/contributing/glossary.md, wherever they stand: Go strings and comments, pages, charts,
# manifests and scripts. The table is the list; there is no other.
# usage: hack/words.sh
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
glossary=docs/contributing/glossary.md

terms=$(sed -n '/^## Refused words/,/^## [^R]/s/^| \([^|]*\) |.*/\1/p' "$glossary" | tail -n +2 | tr ',' '\n' | sed 's/^ *//; s/ *$//; /^-*$/d')
[[ -n $terms ]] || { echo "$glossary has no table of refused words"; exit 2; }

# Whole words, in upper or lower case. The generated page repeats comments of tests.
if git grep --untracked -nwiF -f <(echo "$terms") -- '*.go' '*.md' '*.yaml' '*.yml' '*.txt' '*.tpl' '*.tmpl' '*.sh' '*.json' Makefile \
	":!$glossary" ':!docs/contributing/claims.md'; then
	echo "these words are on the list in $glossary, with what to write in their place"
	exit 1
fi
