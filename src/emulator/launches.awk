# Makes C++ of CUDA C++, line by line:
#   kernel<<<grid, block, shared, stream>>>(arguments)  ->  kernel ->* emulated::grid(grid, ...)(arguments)
#   extern __shared__ T name[];                          ->  T *const name = emulated::dynamic<T>();
# `>>>` alone closes templates and stays.
BEGIN { printf "#line 1 \"%s\"\n", NAME }
{
  line = $0; out = ""
  while (match(line, open ? ">>>" : "<<<")) {
    out = out substr(line, 1, RSTART - 1) (open ? ")" : " ->* emulated::grid(")
    line = substr(line, RSTART + RLENGTH); open = !open
  }
  line = out line
  sub(/__shared__ +alignas\(/, "EMULATOR_ALIGNED(", line) # an attribute stands first in C++
  if (match(line, /extern +__shared__ /)) {
    declaration = substr(line, RSTART + RLENGTH); before = substr(line, 1, RSTART - 1)
    sub(/__align__\([0-9]+\) */, "", declaration)
    if (match(declaration, /[A-Za-z_0-9]+\[\];/)) {
      name = substr(declaration, RSTART, RLENGTH - 3)
      type = substr(declaration, 1, RSTART - 1)
      line = before type "*const " name " = emulated::dynamic<" type ">();" substr(declaration, RSTART + RLENGTH)
    }
  }
  print line
}
