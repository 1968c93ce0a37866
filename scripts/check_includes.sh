#!/usr/bin/env bash
# check_includes.sh FLOOR...: the folders of src/, those of a floor joined by "+", the lowest first.
# Holds every #include against the plan of the house:
#
#   a file includes from its own floor or a lower one; the mains include from all
#   kernels/ includes of src/ only base/
#   neither two folders nor two files include each other, nor any longer ring of them; x.c and x.h are
#   one file here
#
# Prints each include that breaks it; exit code 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

# "FILE INCLUDED", both from the top of the repository.
includes() {
  git grep --untracked -E '^#include ".*"$' -- {src,kernels}/'*.'{c,h,cu,cuh} | sed 's/:#include "/ /; s/"$//' |
    while read -r file name; do
      if [ -f "src/$name" ]; then
        echo "$file src/$name"
      elif [ -f "kernels/$name" ]; then
        echo "$file kernels/$name"
      else
        echo "$file: there is no $name" >&2
      fi
    done
}

# shellcheck disable=SC2016 # $1 is awk's
upwards='
function folder(path,  part) { split(path, part, "/"); return part[3] == "" ? "" : part[2] }
BEGIN {
  floors = split(plan, floor_of, " ")
  for (f = 1; f <= floors; f++)
    for (i = split(floor_of[f], name, "+"); i > 0; i--) floor[name[i]] = f
}
$1 ~ /^src/ && $2 ~ /^src/ {
  from = folder($1); to = folder($2)
  if (from != "" && !(from in floor)) print $1 ": the plan has no folder " from
  else if (from != "" && floor[to] > floor[from]) print $1 ": includes " $2 " of a higher floor"
}
$1 ~ /^kernels/ && $2 ~ /^src/ && folder($2) != "base" {
  print $1 ": includes " $2 ", but kernels/ takes only base/ of src/"
}'

# rings WHAT: tsort names the members of each ring among the pairs that it reads.
rings() {
  tsort 2>&1 >/dev/null | sed "s/^tsort: -: .*/$1 include each other:/; s/^tsort: /  /" || true
}

all=$(includes)
complaints=$(
  awk -v plan="$*" "$upwards" <<<"$all"
  sed -E 's#\.[a-z]+( |$)#\1#g' <<<"$all" | awk '$1 != $2' | rings files
  sed -n -E 's#^src/([a-z]+)/[^ ]* src/([a-z]+)/.*#\1 \2#p' <<<"$all" | awk '$1 != $2' | sort -u |
    rings folders
)
! grep . <<<"$complaints"
