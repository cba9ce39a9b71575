#!/usr/bin/env bash
# Runs a command and says on standard error, every EVERY seconds, how far it is. One that ends sooner is not mentioned. What
# "go build -v" compiles and downloads is counted instead of shown. The exit code is that of the command.
# usage: [NOTE=SENTENCE] hack/progress.sh NAME EVERY COMMAND [ARGUMENT...]
set -uo pipefail
name=$1 every=$2 due=$2 compiled=0 downloaded=0 line='' got=0
shift 2
say() { sed -E 's/, 0 [^,]*//g' >&2 <<<"$name: $1, $downloaded modules downloaded, $compiled packages compiled"; }
count() {
	if [[ $1 == 'go build -v'* && $line == 'go: downloading '* ]]; then
		downloaded=$((downloaded + 1))
	elif [[ $1 == 'go build -v'* && $line =~ ^[A-Za-z0-9._~+/-]+$ ]]; then
		compiled=$((compiled + 1))
	else
		echo "$line" >&2
	fi
	line=''
}
child='' stopped=''
trap 'stopped=yes; [[ -z $child ]] || kill "$child"' INT TERM
# A job of its own: bash can forget the exit code of a process substitution that ends at once.
pipe=$(mktemp -d) && mkfifo "$pipe/stderr" || exit 1
exec 3<&0
"$@" 2>"$pipe/stderr" <&3 3<&- &
child=$!
exec 3<&- 4<"$pipe/stderr"
rm -r "$pipe"
[[ -z $stopped ]] || kill "$child"
while ((got == 0)) || { ((got > 128)) && kill -0 "$child" 2>/dev/null; }; do # above 128: a second without a line
	IFS= read -r -u 4 -t 1 part
	got=$? line+=$part
	((got)) || count "$*"
	((SECONDS < due)) || { say "${NOTE:+$NOTE; }$SECONDS s" && NOTE='' due=$((SECONDS + every)); }
done
printf %s "$line" >&2
wait "$child"
code=$?
((SECONDS < every)) || say "$( ((code)) && echo failed after || echo done in) $SECONDS s"
exit "$code"
