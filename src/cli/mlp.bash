# Completes names of options and of files for the programs of mlp-train in bash.
_mlp() {
  COMPREPLY=()
  if [[ $2 == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${1/#\~/${HOME-}}" --help 2>/dev/null | grep -oE -e '--[a-z0-9-]+')" -- "$2" | sort -u)
  fi
}

complete -o default -F _mlp mlp-train mlp-digits mlp-lab mlp-bench
