# Makes a man page or a bash completion of a program's table of options: fills the marks of a template,
# mlp*.1.in or mlp.bash.in.
#
#   MLP_TABLE=1 PROGRAM --help | awk -f src/cli/manual.awk - TEMPLATE
#
# print_table of option_table.c says what the lines of the table are.

# roff TEXT: a line in which every - is one that can be typed, and a leading . is not a request.
function roff(text,  i, c, line) {
  for (i = 1; i <= length(text); i++) {
    c = substr(text, i, 1)
    line = line (c == "-" ? "\\-" : c == "\\" ? "\\e" : c)
  }
  return (line ~ /^[.']/ ? "\\&" : "") line
}

function bold(before, text) { return "\\fB" before roff(text) "\\fR" }

# The values that the row allows, and its default.
function values(  limits, initial, count, choice, i, text) {
  limits = choices != "" || (high > low && high < 1.8446744e19)
  initial = argument != "" && usual != ""
  if (!limits && !initial) return ""
  count = split(choices, choice, " ")
  if (count) text = argument == "LIST" ? "\\fBnone\\fR or, separated by commas, any of " : "one of "
  else if (limits) text = "from " $7 " to " $8
  for (i = 1; i <= count; i++) text = text (i > 1 ? ", " : "") bold("", choice[i])
  if (initial) text = text (limits ? "; default " : "default ") bold("", usual)
  return ".br\n" text "\n"
}

function fill(line, mark, text,  at, filled) {
  while ((at = index(line, mark))) {
    filled = filled substr(line, 1, at - 1) text
    line = substr(line, at + length(mark))
  }
  return filled line
}

BEGIN { FS = "\t" }

# ---- the table ---------------------------------------------------------------------------------

NR == 1 { program = $1; version = $2; next }
NR == FNR && $0 == "\f" { part++; next }
# What for: the first sentence below "Usage: ...", in one line and without its capital.
NR == FNR && part == 0 && !/^(Usage:| )/ { purpose = purpose (purpose == "" ? "" : " ") $0 }
NR == FNR && part == 0 { usage = usage roff($0) "\n"; next }
NR == FNR && part == 1 { usage = usage "\n" roff($0); next }
NR == FNR {
  group = $1; name = $2; letter = $3; argument = $4; is_key = $5; usual = $6; low = $7 + 0; high = $8 + 0
  choices = $9; is_file = $10; endings = $11
  if (group != "") options = options ".SS " group "\n"
  options = options ".TP\n" (letter != "" ? "\\fB\\-" letter "\\fR, " : "") bold("\\-\\-", name) \
    (argument != "" ? " \\fI" argument "\\fR" : "") "\n" roff($12) "\n" values()
  if (!is_key) keyless = keyless (keyless == "" ? "" : ",\n") bold("\\-\\-", name)
  if (argument != "") # what completes the value; for a number that is its default
    cases = cases "    " (letter != "" ? "-" letter " | " : "") "--" name ") _mlp_" \
      (is_file ? "files" : choices != "" && argument == "LIST" ? "list" : "words") " '" \
      (endings != "" ? endings : choices != "" ? choices : is_file ? "" : usual) "' ;;\n"
  names = names (names == "" ? "" : group != "" ? "\n          " : " ") "--" name
  next
}

# ---- the template ------------------------------------------------------------------------------

$0 == "@OPTIONS@" { printf "%s", options; next }
$0 == "@VALUES@" { printf "%s", cases; next }
{
  sub(/[.:].*/, "", purpose)
  line = fill(fill($0, "@PROGRAM@", program), "@VERSION@", version)
  line = fill(line, "@NAME@", roff(program) " \\- " roff(tolower(substr(purpose, 1, 1)) substr(purpose, 2)))
  print fill(fill(fill(line, "@USAGE@", usage), "@COMMAND-LINE@", keyless), "@NAMES@", names)
}

END { exit program == "" }
