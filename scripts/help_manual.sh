#!/usr/bin/env bash
# help_manual.sh PROGRAM VERSION: writes PROGRAM.1 and PROGRAM.bash, the man page and the bash completion
# of a program, from what its --help prints, which comes on standard input.
set -euo pipefail
name=${1##*/} help=$(cat)

awk -v name="$name" -v version="$2" '
function roff(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.\x27]/) text = "\\&" text
  return text
}
# The help is a usage, a description up to a blank line, and the rest.
part == 0 && /^(Usage:| )/ {
  sub(/^Usage: +/, "")
  sub(/^ +/, "")
  usage = usage roff($0) "\n.br\n"
  next
}
part == 0 { part = 1 }
part == 1 && /^$/ { part = 2; next }
part == 1 { about = about (about ? "\n" : "") $0; next }
{ rest = rest roff($0) "\n" }
END {
  # the first sentence, in one line and without its capital, says what the program is
  first = about
  gsub(/\n/, " ", first)
  first = substr(first, 1, match(first, /[.:]( |$)/) - 1)
  printf ".TH %s 1 \"\" \"mlp\\-train %s\" \"User Commands\"\n", roff(toupper(name)), version
  printf ".SH NAME\n%s \\- %s%s\n", roff(name), tolower(substr(first, 1, 1)), roff(substr(first, 2))
  printf ".SH SYNOPSIS\n%s", usage
  printf ".SH DESCRIPTION\n"
  lines = split(about, line, "\n")
  for (i = 1; i <= lines; i++) print roff(line[i])
  printf ".SH OPTIONS\n.nf\n%s.fi\n", rest
  printf ".SH SEE ALSO\n\\fBmlp\\-train\\fR(1)\n"
}' <<<"$help" >"$1.1"

printf "# bash completion for %s %s, made from its help.\ncomplete -o default -W '%s' %s\n" "$name" "$2" \
  "$(grep -o -- '--[a-z][a-z-]*' <<<"$help" | sort -u | paste -sd ' ')" "$name" >"$1.bash"
