#!/usr/bin/env bash
# docs.sh [FOLDER] turns the records in FOLDER/results [docs/results] into tables and pictures. Needs no GPU.
#
#   FOLDER/lab/TOPIC.md            a mark in the page, such as "<!-- record lab-h200: ", names a record; the
#                                  tables of that record replace the text between this mark and the next
#   FOLDER/results/NAME.png        the picture of a record; only pictures that exist are drawn again. The picture of a
#                                  record of the lab, lab-NAME.json, is copy-patterns-NAME.png
#   build/docs/NAME.md             the tables of every other record
#
#   PROGRAMS  the folder with mlp-bench and mlp-lab  [.]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-docs} programs=${PROGRAMS:-.}
tables=$(mktemp)
trap 'rm -f "$tables"' EXIT

for page in "$folder"/lab/[!R]*.md; do
  record=$(sed -n 's/^<!-- record \([a-z0-9-]*\): .*/\1/p' "$page")
  listed=$("$programs/mlp-lab" list "$(basename "$page" .md)" --from "$folder/results/$record.json" 2>&1) || true
  if [[ $listed == *'unknown topic'* ]]; then
    echo "docs.sh: $page keeps what it has: $record.json is older than this topic" >&2
    continue
  fi
  "$programs/mlp-lab" "$(basename "$page" .md)" --from "$folder/results/$record.json" --markdown |
    sed -n '/^## /,$p' | sed 's/^## /### /' >"$tables"
  sed -i -e '/^<!-- record /,/^<!-- end of record -->$/{/^<!--/!d}' -e "/^<!-- record /r $tables" "$page"
done

for record in "$folder"/results/lab-*.json; do
  picture=$folder/results/copy-patterns-$(basename "${record#*lab-}" .json).png
  [ ! -f "$picture" ] || "$programs/mlp-lab" copy_patterns --from "$record" --plot "$picture" >"$tables"
done

mkdir -p build/docs
for record in "$folder"/results/fusion-*.json; do
  to=${record%.json}
  "$programs/mlp-bench" --from "$record" --markdown >"build/docs/$(basename "$to").md"
  [ ! -f "$to.png" ] || "$programs/mlp-bench" --from "$record" --plot "$to.png" >"$tables"
done
for record in "$folder"/results/scaling-*.json; do
  scripts/scaling.sh "$record" >"build/docs/$(basename "$record" .json).md"
done
