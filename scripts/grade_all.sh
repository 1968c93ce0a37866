#!/usr/bin/env bash
# grade_all.sh FROM CSV BUILD grades every submission in folder FROM, NAME.cu or NAME/*.cu, on the emulator. It
# grades as many at once as there are processors. CSV gets one line per submission: name, points, the points of
# each function, and what is wrong. A folder named like the CSV without .csv gets NAME.json, the scorecard, and
# NAME.txt, what the grader printed or why it did not run. SEED gives all submissions the same shapes.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1-}" = --one ]; then # --one SOURCE|- NAME
  source=$2 name=$3 own=$GRADING/${3//[^A-Za-z0-9._-]/_} card=$CARDS/$3 status=none
  grader=$own/mlp-exercise-emulator
  mkdir -p "$own"
  rm -f "$card.json"
  if [ "$source" = - ]; then
    echo 'nothing was handed in' >"$card.txt"
  else
    cp "$source" "$own/exercise.cu"
    make -s ON=emulator SETUP=0 SUBMISSION="$own/exercise.cu" SEALED="$own" "$grader" 2>&1 | grep -v '^make' >"$card.txt" || true
  fi
  if [ -x "$grader" ]; then
    status=0
    timeout 600 "$grader" --seed "$SEED" --grade "$card.json" >"$card.txt" 2>&1 </dev/null || status=$?
    rm -f "$grader"
  fi
  # A submission gets points only if the grader ended by itself, with status 0, 1 or 4.
  if [[ $status = [014] && -f $card.json ]]; then
    points=$(sed -nE 's/^ *"score": ([0-9.]+),?$/\1/p' "$card.json" | paste -sd,)
    said=$(grep -aE '^[1-4] is wrong' "$card.txt" | head -n 1 || true)
  else
    rm -f "$card.json"
    points=0,0,0,0,0
    said=$(grep -av '^$' "$card.txt" | head -n 1 || true)
  fi
  printf '"%s",%s,"%s"\n' "${name//\"/\"\"}" "$points" "${said//\"/\"\"}" | tee "$own/row"
  exit 0
fi

from=$1 csv=$2
export GRADING=$3/grading CARDS=${2%.csv} SEED=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
[ -d "$from" ] || { echo "grade-all: $from is not a folder: FROM=FOLDER CSV=points.csv" >&2; exit 1; }
rm -rf "$GRADING"
mkdir -p "$GRADING" "$CARDS"
for entry in "$from"/*; do
  [[ -d $entry || $entry = *.cu ]] || continue
  source=$(find -H "$entry" -name '*.cu' -type f | sort | head -n 1)
  printf '%s\0%s\0' "${source:--}" "$(basename "$entry" .cu)"
done | xargs -0 -n 2 -P "$(nproc)" "$0" --one
{
  echo 'name,points,forward,softmax,loss,update,what is wrong'
  cat "$GRADING"/*/row | sort
} >"$csv"
echo "seed $SEED; $csv, and the scorecards in $CARDS/"
