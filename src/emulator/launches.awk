# Turns CUDA C++ into C++, line by line, and removes comments:
#   kernel<<<grid, block, shared, stream>>>(arguments)  ->  kernel ->* emulated::grid(grid, ...)(arguments)
#   extern __shared__ T name[];                          ->  EMULATOR_DYNAMIC(T, name);
#   __launch_bounds__(most) ... {                        ->  ... { emulator_bounds(most);
# Joins continued lines and adds empty lines to keep line numbers. Keeps a `>>>` that closes templates.
# With CHECK=1, only removes comments. With NO_STRINGS=1 also empties strings, except in directives.
BEGIN { if (NAME) printf "#line 1 \"%s\"\n", NAME }
{
  if (NR == 1) sub(/^\357\273\277/, "") # the mark that some editors put before UTF-8
  sub(/\r$/, "")
  if (sub(/\\[ \t\v\f\r]*$/, "")) { held = held $0; empty++; next }
  line = held $0; held = ""
  print rewritten(line)
  for (; empty > 0; empty--) print ""
}
END { if (held != "") print rewritten(held) }

# Returns the line with its tokens replaced.
function rewritten(line,   out, token, emptied) {
  out = ""
  emptied = NO_STRINGS && line !~ /^[ \t]*#/
  while (line != "") {
    if (comment) {
      if (!(token = index(line, "*/"))) return out
      line = substr(line, token + 2); out = out " "; comment = 0
    } else if (line ~ /^\/\//) return out
    else if (line ~ /^\/\*/) { line = substr(line, 3); comment = 1 }
    else if (match(line, /^[A-Za-z_][A-Za-z_0-9]*/) || match(line, /^[0-9]([A-Za-z_0-9.]|'[A-Za-z_0-9])*/) ||
             match(line, /^"([^"\\]|\\.)*"/) || match(line, /^'([^'\\]|\\.)*'/) || match(line, /^(<<<|>>>)/) ||
             match(line, /^./)) {
      token = substr(line, 1, RLENGTH); line = substr(line, RLENGTH + 1)
      if (emptied && token ~ /^["'].*["']$/) token = substr(token, 1, 1) substr(token, 1, 1)
      out = out (CHECK ? token : made_of(token))
    }
  }
  return !CHECK && out ~ /__shared__/ ? with_dynamic(out) : out
}

function made_of(token) {
  if (token == "<<<") { open = 1; return " ->* emulated::grid(" }
  if (token == ">>>" && open) { open = 0; return ")" }
  if (token == "__launch_bounds__") { bounds = ""; depth = 0; in_bounds = 1; return "" }
  if (!in_bounds) return token
  depth += (token == "(") - (token == ")")
  if (in_bounds == 1) { # the arguments of __launch_bounds__
    bounds = bounds token
    if (depth == 0 && token == ")") in_bounds = 2
    return ""
  }
  if (depth > 0 || (token != "{" && token != ";")) return token
  in_bounds = 0
  return token == "{" ? "{ emulator_bounds" bounds ";" : token
}

function with_dynamic(line,   before, type, name) {
  gsub(/alignas/, "__align__", line) # C++ wants alignas first; __align__ may stay where it is
  if (line !~ /(^|[^A-Za-z_0-9])extern([^A-Za-z_0-9]|$)/ || !match(line, /[A-Za-z_0-9]+ *\[ *\] *;/)) return line
  name = substr(line, RSTART, RLENGTH); type = substr(line, 1, RSTART - 1); line = substr(line, RSTART + RLENGTH)
  sub(/ *\[.*/, "", name)
  before = match(type, /.*[;{}]/) ? substr(type, 1, RLENGTH) : ""
  type = substr(type, length(before) + 1)
  type = " " type " "
  while (match(type, /[^A-Za-z_0-9](extern|__shared__)[^A-Za-z_0-9]/))
    type = substr(type, 1, RSTART) substr(type, RSTART + RLENGTH - 1)
  gsub(/__align__ *\([0-9A-Za-z_ ]*\)/, "", type)
  return before " EMULATOR_DYNAMIC(" type ", " name ");" line
}
