#!/usr/bin/env bash
# lab_pages.sh [LAB [FOLDER]]: writes the tables of a record in docs/results into the pages of the
# lab's topics, between two marks, the first of which names the record: "<!-- record lab-h100: ".
# LAB: the program mlp-lab [./mlp-lab]; FOLDER: of the pages [docs/lab].
set -euo pipefail
cd "$(dirname "$0")/.."

lab=${1:-./mlp-lab} folder=${2:-docs/lab}
tables=$(mktemp)
trap 'rm -f "$tables"' EXIT

for page in "$folder"/*.md; do
  topic=$(basename "$page" .md)
  [ "$topic" != README ] || continue
  record=$(sed -n 's/^<!-- record \([a-z0-9-]*\): .*/\1/p' "$page")
  "$lab" "$topic" --from "docs/results/$record.json" --markdown "$tables" >/dev/null
  awk -v tables="$tables" '
    /^<!-- end of record -->$/ { skip = 0 }
    !skip { print }
    /^<!-- record [^:]*: / {
      skip = 1
      while ((getline line < tables) > 0) {
        if (line ~ /^## /) begun = 1
        if (begun) print (line ~ /^## / ? "#" line : line)
      }
      close(tables)
    }' "$page" >"$page.new"
  mv "$page.new" "$page"
done
