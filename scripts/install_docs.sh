#!/usr/bin/env bash
# install_docs.sh FOLDER: copies the documents there. A link to what is not installed, the sources
# say, becomes its text; all others lead where they did.
set -euo pipefail
cd "$(dirname "$0")/.."
to=$1

while read -r file; do
  install -D -m 644 "$file" "$to/$file"
done < <(printf '%s\n' LICENSE README.md CONTRIBUTING.md SECURITY.md data/README.md
         find docs -path docs/teaching/answers -prune -o -type f -print | LC_ALL=C sort)
ln -sfn ../../mlp-train/configs "$to/configs"

scripts/drop_links.sh "$to"
