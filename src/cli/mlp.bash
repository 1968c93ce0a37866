# bash completion for the programs of mlp-train, which print their options for it.
# $cur is the word to complete, and what it may become goes to COMPREPLY.

_mlp_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

# none, or words separated by commas, each at most once.
_mlp_list() {
  local words="none $1" before='' word
  if [[ $cur == *,* ]]; then words=$1 before=${cur%,*},; fi
  for word in $words; do
    if [[ ,$before != *,$word,* && $before$word == "$cur"* ]]; then
      COMPREPLY+=("$before$word")
    fi
  done
  compopt -o nospace
}

# Folders, and files that end in one of the words, if there are any; for --test none, and for --config
# the presets that are installed.
_mlp_files() {
  mapfile -t COMPREPLY < <(
    compgen -d -- "$cur"
    [[ $1 ]] || compgen -f -- "$cur"
    for ending in $1; do compgen -f -X "!*[.-]$ending" -- "$cur"; done
    [[ $option != --test ]] || compgen -W none -- "$cur"
    [[ $1 != conf ]] || compgen -W "$(cd "${BASH_SOURCE%/*}/../../mlp-train/configs" 2>/dev/null && echo *.conf)" -- "$cur"
  )
  compopt -o filenames
}

_mlp() {
  local IFS=$' \t\n'
  local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} names=""
  local name letter argument is_file endings values
  # --name=value is three words
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $option == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  while IFS='|' read -r name letter argument is_file endings values; do
    names+=" --$name"
    [[ $argument && ($option == "--$name" || $option == "-$letter") ]] || continue
    if ((is_file)); then
      option=--$name _mlp_files "$endings"
    elif [[ $argument == LIST && $values ]]; then
      _mlp_list "$values"
    else
      _mlp_words "$values"
    fi
    return
  done < <(MLP_HELP=words "${COMP_WORDS[0]/#\~/${HOME-}}" --help 2>/dev/null)
  if [[ $cur != -* && " ${COMP_WORDS[*]:1:COMP_CWORD-1} " == *' --classify '* ]]; then
    _mlp_files 'png PNG jpg JPG jpeg JPEG pgm PGM ppm PPM'
  else
    _mlp_words "$names"
  fi
}

complete -F _mlp mlp-train mlp-digits mlp-lab mlp-bench
