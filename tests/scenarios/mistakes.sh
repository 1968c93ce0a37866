# Mistakes and cheats, a row for each: an edit of our answers to the exercise, what is said of it, and where. Rows in a row
# whose functions ascend are edits of one file, for each function is judged apart.
graded=$TOP/build/graded/mistakes
kit=$graded/student-kit

if ! command -v "${CXX:-g++}" >/dev/null || ! command -v clang++ >/dev/null; then
  case_ 'mistakes'
  skip_ 'there is no C++ compiler, or no clang++'
  exit 0
fi

# makes ARGUMENT...: what make said is in out.
makes() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$kit" CFLAGS=-O2 ON=emulator SEED=1 "$@" >out 2>&1 || true; }

mkdir -p "$graded"
[ ! -d "$kit/build" ] || mv "$kit/build" "$graded/kept"
(cd "$TOP" && scripts/student_kit.sh "${graded#"$TOP/"}") >out
[ ! -d "$graded/kept" ] || mv "$graded/kept" "$kit/build"
answers=$TOP/docs/teaching/answers/exercise.cu
where=('1,$' '/void forward(/,/^}/' '/void softmax(/,/^}/' '/void loss(/,/^}/' '/void update(/,/^}/')

# edits FUNCTION FROM TO: edits exercise.cu; sets $line to the line of it, in the answers.
edits() {
  sed "${where[$1]}s~$2~$3~" "$answers" >alone
  line=$(diff "$answers" alone | sed -n '1s/[^0-9].*//p') || true
  [ -n "$line" ] || die "nothing to edit: $2"
  sed -i "${where[$1]}s~$2~$3~" exercise.cu
}

# expects NAME: every pattern of those of the file is found in what was said.
expects() {
  for pattern in "${patterns[@]}"; do
    grep -aqE -- "$pattern" out || die "$1: no line '$pattern' in: $(grep -aE 'is (wrong|not)|error:|not allow' out)"
  done
}

# judge: scores what is edited so far, and looks for what is expected.
judge() {
  [ ${#patterns[@]} -gt 0 ] || return 0
  cp exercise.cu "$kit/kernels/"
  makes $only exercise
  expects "$names"
}

# rows: reads FUNCTION~FROM~TO~PATTERN, of which @ is the line; a line that begins with a space goes on.
rows_() {
  last=9 names='' patterns=()
  while IFS='~' read -r function from to pattern; do
    if [ "$function" -le $last ]; then
      judge
      cp "$answers" exercise.cu
      patterns=() names='' only="ONLY=$function"
    else
      only=
    fi
    last=$function
    edits "$function" "$from" "$to"
    patterns+=("^$function ${pattern//@/kernels\/exercise.cu:$line:}") names+="$to; "
  done
  judge
}
