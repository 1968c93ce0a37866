#!/usr/bin/env bash
# grade_all.sh FROM CSV BUILD grades every submission in folder FROM on the emulator, as many at once as there are
# processors. An entry of FROM is a .cu file, an archive, or a folder such as a clone of the kit. CSV gets a line for every
# entry, graded or not: name, points, the points of each function, and what is wrong. A folder named like the CSV without
# .csv gets NAME.json, the scorecard, and NAME.txt, what the grader printed or why it did not run. SEED gives all
# submissions the same shapes. SET is exercise or transformer.
set -euo pipefail
export LC_ALL=C # names are bytes, in whatever alphabet
cd "$(dirname "$0")/.."

MOST_FILES=5000 MOST_SOURCES=200 MOST_KB=256 MOST_SECONDS=20 # of an archive: all files, .cu files, KB of each, time
ARCHIVE='\.(zip|7z|rar|tar|tgz|txz|tar\.(gz|xz|bz2|zst))$'
SOURCE='\.cu(\.txt)?$'
SET=${SET:-exercise}
[ "$SET" = exercise ] && HANDED_OUT=kernels/exercise.cu || HANDED_OUT=kernels/class/$SET.cu
mapfile -t FUNCTIONS < <(sed -nE "s/^cudaError_t launch_${SET}_([a-z_]+).*/\1/p" kernels/kernels.h)
NO_POINTS=$(printf '0%.0s,' 0 "${FUNCTIONS[@]}") NO_POINTS=${NO_POINTS%,}
[ "$SET" = exercise ] && OTHER_SET=transformer.cu || OTHER_SET=exercise.cu # a clone of the kit has it, too
shopt -s nocasematch

# unpack ARCHIVE FOLDER unpacks the .cu files. bsdtar writes neither outside of FOLDER nor through links. If it fails,
# $reason says why.
unpack() {
  local files sources status=0
  mkdir -p "$2"
  reason=
  command -v bsdtar >/dev/null || { reason='is an archive, and bsdtar is not installed (package libarchive-tools)'; return; }
  # head ends the listing of an archive that has too many files.
  read -r files sources < <( (ulimit -t $MOST_SECONDS; LC_ALL=C.UTF-8 bsdtar -tf "$1" 2>/dev/null </dev/null) |
    head -n $((MOST_FILES + 1)) | awk '{ if (tolower($0) ~ /\.cu(\.txt)?$/) n++ } END { print NR, n + 0 }')
  if [ "$files" -gt $MOST_FILES ] || [ "$sources" -gt $MOST_SOURCES ]; then
    reason="is an archive of more than $MOST_FILES files or $MOST_SOURCES .cu files"
    return
  elif [ "$files" -gt 0 ] && [ "$sources" = 0 ]; then
    reason='is an archive without .cu files'
    return
  fi
  { # bash itself says that bsdtar was killed
    (ulimit -t $MOST_SECONDS -f $MOST_KB
      LC_ALL=C.UTF-8 exec bsdtar -xf "$1" -C "$2" --passphrase none --include='*.[cC][uU]*' --exclude='._*' \
        >"$2.said" 2>&1 </dev/null) || status=$?
  } 2>/dev/null
  if [ $status -gt 128 ]; then
    reason="cannot be unpacked: a .cu file has more than $MOST_KB KB, or it takes more than $MOST_SECONDS s"
  elif [ $status != 0 ]; then
    reason="cannot be unpacked: $(grep -avE 'Error exit|^$' "$2.said" | head -n 1 || true)"
  fi
}

# choose FOLDER sets $chosen to the file to grade, relative to FOLDER: kernels/exercise.cu, else exercise.cu, both as near
# to FOLDER as possible; else the only .cu file; else the only .cu.txt file, since browsers add .txt. (For another SET,
# $HANDED_OUT and $SET.cu.) Otherwise $chosen is empty and $reason says why. $skipped lists the other files.
choose() {
  local path name root rank depth best=999 others=() ties=()
  chosen='' skipped='' archives=()
  while IFS= read -r -d '' path; do
    name=${path##*/} root=${path%"$name"}
    if [[ $name = ._* || /$path = */__MACOSX/* ]]; then
      skipped+="; skipped $path, which macOS added"
      continue
    elif [ -L "$1/$path" ]; then
      skipped+="; skipped $path, a link, which is not followed"
      continue
    elif [[ $name = warmup.cu ]]; then
      skipped+="; skipped $path, the warm-up"
      continue
    elif [[ $name = "$OTHER_SET" ]]; then
      skipped+="; skipped $path, which is not of SET=$SET"
      continue
    elif [[ $name =~ $ARCHIVE ]]; then
      archives+=("$path")
      continue
    elif [[ ! $name =~ $SOURCE ]]; then
      others+=("$path")
      continue
    elif [[ /$path = */$HANDED_OUT ]]; then
      root=${path:0:${#path}-${#HANDED_OUT}} rank=0
    elif [[ $name = "$SET.cu" ]]; then
      rank=1
    else
      root='' rank=8
      [[ $name != *.txt ]] || rank=9
    fi
    depth=${root//[!\/]/}
    rank=$((rank < 8 ? 2 * ${#depth} + rank : 900 + rank))
    if [ $rank -lt $best ]; then
      for name in ${ties[@]+"${ties[@]}"}; do skipped+="; skipped $name"; done
      best=$rank ties=("$path")
    elif [ $rank = $best ]; then
      ties+=("$path")
    else
      skipped+="; skipped $path"
    fi
  done < <(find "$1" -mindepth 1 -name .git -prune -o \( -type f -o -type l \) -printf '%P\0' | sort -z | head -z -n 20000)
  if [ ${#ties[@]} = 1 ]; then
    chosen=${ties[0]}
  elif [ ${#ties[@]} -gt 1 ]; then
    reason="has ${#ties[@]} files of which only one can be graded: $(listed "${ties[@]}")"
  elif [ -n "$skipped" ]; then
    reason="nothing was handed in${skipped:0:900}"
  elif [ ${#others[@]} -gt 0 ]; then
    reason="has no .cu file, but $(listed "${others[@]}")"
  else
    reason='nothing was handed in'
  fi
}

# listed NAME... prints the first five names.
listed() {
  local IFS=,
  printf '%s' "${*:1:5}" | sed 's/,/, /g'
  [ $# -le 5 ] || printf ', ...'
}

copy() { # FILE OWN
  head -c $((MOST_KB * 1024 + 1)) <"$1" >"$2/$SET.cu" || reason="cannot be read: $1"
}

# find_source ENTRY OWN copies the entry's file to grade to OWN/$SET.cu. Otherwise $reason says why there is none.
find_source() {
  local name=${1##*/}
  reason='' skipped='' chosen=''
  if [ -L "$1" ]; then
    reason='is a link, which is not followed'
  elif [[ $name = ._* || $name = __MACOSX || $name = .DS_Store ]]; then
    reason='is skipped, because macOS added it'
  elif [ -d "$1" ]; then
    choose "$1"
    if [ -n "$chosen" ]; then
      copy "$1/$chosen" "$2"
    elif [ ${#archives[@]} = 1 ]; then
      name=${archives[0]}
      unpack_and_choose "$1/$name" "$2"
      [ -z "$chosen" ] || chosen=$name/$chosen
    elif [ ${#archives[@]} -gt 1 ]; then
      reason="has ${#archives[@]} archives and no .cu file: $(listed "${archives[@]}")"
    fi
  elif [ ! -f "$1" ]; then
    reason='is skipped, because it is not a file or a folder'
  elif [[ $name = warmup.cu ]]; then
    reason='is skipped, because the warm-up has no points'
  elif [[ $name = "$OTHER_SET" ]]; then
    reason="is skipped, because it is not of SET=$SET"
  elif [[ $name =~ $ARCHIVE ]]; then
    unpack_and_choose "$1" "$2"
  elif [[ $name =~ $SOURCE ]]; then
    copy "$1" "$2"
    chosen=$name
  else
    reason='is skipped, because it is not a .cu file, an archive or a folder'
  fi
}

unpack_and_choose() { # ARCHIVE OWN
  unpack "$1" "$2/unpacked"
  if [ -z "$reason" ]; then
    choose "$2/unpacked"
    [ -z "$chosen" ] || copy "$2/unpacked/$chosen" "$2"
  fi
  rm -rf "$2/unpacked"
}

# cell TEXT prints the text as a cell of a CSV file. A spreadsheet would compute a cell that begins with one of =+-@.
cell() {
  local text=${1//\"/\"\"}
  [[ $text != [=+@$'\t\r']* && $text != -* ]] || text="'$text"
  printf '"%s"' "$text"
}

row() { # NAME POINTS SAID
  cell "$1"
  printf ',%s,' "$2"
  cell "$3"
  echo
}

if [ "${1-}" = --one ]; then # --one NUMBER ENTRY NAME
  number=$2 entry=$3 name=$4 own=$GRADING/$2 card=$CARDS/$4 status=none
  grader=$own/mlp-$SET-emulator
  [ ${#name} -le 240 ] || card=$CARDS/$number
  mkdir -p "$own"
  rm -f "$card.json"
  find_source "$entry" "$own"
  if [ -n "$reason" ]; then
    echo "$reason" >"$own/said"
  else
    make -s ON=emulator SETUP=0 GPU="$GPU" SET="$SET" SUBMISSION="$own/$SET.cu" SEALED="$own" "$grader" 2>&1 | grep -v '^make' >"$own/said" || true
  fi
  if [ -x "$grader" ]; then
    status=0
    timeout 3600 "$grader" --gpu "$GPU" --seed "$SEED" --grade "$card.json" >"$own/said" 2>&1 </dev/null || status=$?
  fi
  # A submission gets points only if the grader ended by itself, with status 0, 1 or 4.
  if [[ $status = [014] && -f $card.json ]]; then
    points=$(sed -nE 's/^ *"score": ([0-9.]+),?$/\1/p' "$card.json" | paste -sd,)
    said=$(grep -aE '^[0-9]+ is wrong' "$own/said" | head -n 1 || true)
  else
    rm -f "$card.json"
    points=$NO_POINTS
    said=$(grep -av '^$' "$own/said" | head -n 1 || true)
    [ "$status" = none ] || said="the grader ended with status $status: $said"
  fi
  {
    [ -z "$chosen" ] || printf '%s\n\n' "Graded is $chosen$skipped."
    cat "$own/said"
    printf '\nPoints: %s of 100 (%s: %s)\n' "${points%%,*}" "$(listed "${FUNCTIONS[@]}")" "${points#*,}"
  } >"$card.txt"
  row "$name" "$points" "$said" | tee "$GRADING/$number.row"
  rm -rf "$own"
  exit 0
fi

from=$1 csv=$2
export CARDS=${2%.csv} SEED=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
fail() {
  echo "grade-all: $*" >&2
  exit 1
}
[ -d "$from" ] || fail "$from is not a folder: FROM=FOLDER CSV=points.csv"
[[ $csv = *?.csv && $csv != */.csv ]] || fail "CSV=$csv must end with .csv, because the folder ${csv%/} would get the scorecards"
[ ! -d "$csv" ] || fail "CSV=$csv is a folder"
mkdir -p "$CARDS" && : >>"$csv" || exit # before an hour of grading
mkdir -p "$3"
GRADING=$(mktemp -d "$3/grading.XXXXXX") # a folder of its own, so that two classes can be graded at the same time
export GRADING
trap 'rm -rf "$GRADING"' EXIT
shopt -s nullglob dotglob
entries=("$from"/*) names=()
for entry in ${entries[@]+"${entries[@]}"}; do # a name is the entry's, without the ending of a file
  name=${entry##*/} short=${entry##*/}
  if [[ ! -d $entry && ($name =~ $ARCHIVE || $name =~ $SOURCE) ]]; then short=${name%"${BASH_REMATCH[0]}"}; fi
  names+=("${short:-$name}")
done
changed=1
while [ $changed = 1 ]; do # where entries would share a name, all of them keep their endings
  changed=0
  while IFS= read -r -d '' twice; do
    for i in "${!names[@]}"; do
      if [ "${names[i]}" = "$twice" ] && [ "$twice" != "${entries[i]##*/}" ]; then
        names[i]=${entries[i]##*/} changed=1
      fi
    done
  done < <(printf '%s\0' ${names[@]+"${names[@]}"} | sort -z | uniq -zd)
done
for i in ${entries[@]+"${!entries[@]}"}; do
  printf '%04d\0%s\0%s\0' "$i" "${entries[i]}" "${names[i]}"
done | xargs -0 -r -n 3 -P "$(nproc)" scripts/grade_all.sh --one
{
  echo "name,points,$(IFS=,; echo "${FUNCTIONS[*]}"),what is wrong"
  for i in ${entries[@]+"${!entries[@]}"}; do
    own=$GRADING/$(printf '%04d' "$i").row
    if [ -s "$own" ]; then cat "$own"; else row "${names[i]}" "$NO_POINTS" 'could not be graded: see what was printed'; fi
  done
} >"$csv"
echo "seed $SEED; $csv, and the scorecards in $CARDS/"
