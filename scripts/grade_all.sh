#!/usr/bin/env bash
# grade_all.sh FROM CSV BUILD grades every submission in folder FROM, NAME.cu or NAME/*.cu, on the emulator. It
# grades as many at once as there are processors. CSV gets one line per submission: name, points, the points of
# each function, and what is wrong. A folder named like the CSV without .csv gets NAME.json and NAME.txt: the
# scorecard, or the reason why there is none. SEED gives all submissions the same shapes.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1-}" = --one ]; then # --one SOURCE|- NAME
  source=$2 name=$3 own=$GRADING/${3//[^A-Za-z0-9._-]/_}
  mkdir -p "$own"
  status=0
  if [ "$source" = - ]; then
    echo 'nothing was handed in' >"$CARDS/$name.txt"
    status=1
  else
    cp "$source" "$own/exercise.cu"
    { make -s ON=emulator SETUP=0 SUBMISSION="$own/exercise.cu" SEALED="$own" "$own/mlp-exercise-emulator" 2>&1 || status=$?; } |
      grep -v '^make' >"$CARDS/$name.txt" || true
    [ -x "$own/mlp-exercise-emulator" ] || status=1
  fi
  # A submission gets points only if the grader ended by itself, with status 0, 1 or 4.
  if [ $status = 0 ]; then
    timeout 600 "$own/mlp-exercise-emulator" --seed "$SEED" --grade "$own/points.json" \
      >"$CARDS/$name.txt" 2>&1 </dev/null || status=$?
    case $status in 0 | 1 | 4) ;; *) rm -f "$own/points.json" ;; esac
  fi
  rm -f "$own/mlp-exercise-emulator"
  if [ -f "$own/points.json" ]; then
    cp "$own/points.json" "$CARDS/$name.json"
    points=$(sed -nE 's/^ *"score": ([0-9.]+),?$/\1/p' "$own/points.json" | paste -sd,)
    said=$(grep -aE '^[1-4] is wrong' "$CARDS/$name.txt" | head -n 1 || true)
  else
    points=0,0,0,0,0
    said=$(grep -av '^$' "$CARDS/$name.txt" | head -n 1 || true)
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
  name=$(basename "$entry" .cu) source=-
  if [ -d "$entry" ]; then source=$(find "$entry" -name '*.cu' -type f | sort | head -n 1); fi
  [[ $entry != *.cu ]] || source=$entry
  [ -d "$entry" ] || [[ $entry == *.cu ]] || continue
  printf '%s\0%s\0' "${source:--}" "$name"
done | xargs -0 -n 2 -P "$(nproc)" "$0" --one
{
  echo 'name,points,forward,softmax,loss,update,what is wrong'
  cat "$GRADING"/*/row | sort
} >"$csv"
echo "seed $SEED; $csv, and the scorecards in $CARDS/"
