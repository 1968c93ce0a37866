#!/usr/bin/env bash
# help_manual.sh man|completion NAME VERSION: makes the man page or the bash completion of the program
# NAME from what its --help prints, which comes on standard input.
set -euo pipefail

man_page() {
  awk -v name="$1" -v version="$2" '
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
    }'
}

completion() {
  local words
  words=$(grep -o -- '--[a-z][a-z-]*' | sort -u | tr '\n' ' ')
  printf '# bash completion for %s %s, made from its help.\n' "$1" "$2"
  printf "complete -o default -W '%s' %s\n" "${words% }" "$1"
}

case ${1-} in
man) man_page "$2" "$3" ;;
completion) completion "$2" "$3" ;;
*)
  echo "usage: help_manual.sh man|completion NAME VERSION" >&2
  exit 2
  ;;
esac
