#!/usr/bin/env bash
# drop_links.sh FOLDER: in the Markdown pages there, a link to a file that is not there becomes its
# text, over the end of a line too; all others stay.
set -euo pipefail

while read -r page; do
  { grep -o ']([^)#]*' "$page" || true; } | sed 's/^](//' | sort -u | while read -r target; do
    if [[ -z $target || $target = *://* || -e ${page%/*}/$target ]]; then continue; fi
    pattern=$(printf '%s' "$target" | sed 's/[.[\*^$|]/\\&/g')
    sed -z -i -E "s|\[([^]]*)\]\(${pattern}(#[^)]*)?\)|\1|g" "$page"
  done
done < <(find "$1" -name '*.md')
