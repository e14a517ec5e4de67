"""The completion scripts of bash, zsh and fish: each asks `ares completion` for the words that may follow."""

from __future__ import annotations

# Without candidates every shell completes names of files.
_BASH = """\
_ares_complete() {
    local line="${COMP_LINE:0:COMP_POINT}" current prefix
    local -a words
    read -r -a words <<< "$line"
    [[ "$line" == *' ' ]] && words+=("")
    current="${words[${#words[@]}-1]}"
    local IFS=$'\\n'
    COMPREPLY=($("${words[0]}" completion bash --words "${words[@]}" 2>/dev/null))
    # bash replaces only what follows the last = or : of the word.
    prefix="${current%"${current##*[=:]}"}"
    [[ -n "$prefix" ]] && COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -o bashdefault -F _ares_complete ares
"""
_ZSH = """\
#compdef ares
_ares() {
    local -a described
    local line text
    for line in "${(@f)$("${words[1]}" completion zsh --words "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
        [[ -z "$line" ]] && continue
        text="${${line%%$'\\t'*}//:/\\\\:}"
        [[ "$line" == *$'\\t'* ]] && text+=":${line#*$'\\t'}"
        described+=("$text")
    done
    if (( ${#described} )); then _describe ares described; else _files; fi
}
if [[ "$funcstack[1]" == _ares ]]; then _ares "$@"; else compdef _ares ares; fi
"""
_FISH = """\
function __ares_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] completion fish --words $words 2>/dev/null
end
complete -c ares -f -n 'test (count (__ares_complete)) -gt 0' -a '(__ares_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
