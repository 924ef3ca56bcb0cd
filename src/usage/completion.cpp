#include "usage/completion.h"

#include <algorithm>

namespace tessera {
namespace {

// Verbs and flags are asked from the program itself, so that a script from an older version still completes
// what a newer one knows. `PROGRAM` stands for its name, `NAME` for that as an identifier.
//
// Words that are not flags may be verbs or values: the longest run of them that the program has help for
// counts.
constexpr std::string_view kBash = R"sh(_NAME() {
  local word=${COMP_WORDS[COMP_CWORD]} help= i
  local -a verbs=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in -*) ;; *) verbs+=("${COMP_WORDS[i]}") ;; esac
  done
  for ((i = ${#verbs[@]}; i >= 0; i--)); do
    help=$(PROGRAM "${verbs[@]:0:i}" --help 2>/dev/null) && break
  done
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$(grep -oE -- '--[a-z][a-z0-9-]*' <<<"$help" | sort -u)" -- "$word"))
  else
    COMPREPLY=($(compgen -W "$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\).*/\1/p' <<<"$help")" -- "$word") $(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _NAME PROGRAM
)sh";

constexpr std::string_view kZsh = "autoload -U +X bashcompinit && bashcompinit\n";

constexpr std::string_view kFish = R"sh(function __NAME_help
  set -l verbs
  for word in (commandline -opc)[2..]
    string match -q -- '-*' $word; or set -a verbs $word
  end
  while true
    PROGRAM $verbs --help 2>/dev/null; and return
    test (count $verbs) -eq 0; and return
    set -e verbs[-1]
  end
end
function __NAME_verbs
  __NAME_help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) *\(.*\)/\1\t\2/p'
end
function __NAME_flags
  __NAME_help | string match -rag -- '(--[a-z][a-z0-9-]*)' | sort -u
end
complete -c PROGRAM -a '(__NAME_verbs)'
complete -c PROGRAM -n 'string match -q -- "-*" (commandline -ct)' -a '(__NAME_flags)'
)sh";

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

std::string for_program(std::string_view script, std::string_view program) {
  std::string name(program);
  std::ranges::replace(name, '-', '_');
  std::string out(script);
  replace_all(out, "PROGRAM", program);
  replace_all(out, "NAME", name);
  return out;
}

}  // namespace

std::optional<std::string> completion_script(std::string_view program, std::string_view shell) {
  if (shell == "bash") return for_program(kBash, program);
  if (shell == "zsh") return std::string(kZsh) + for_program(kBash, program);
  if (shell == "fish") return for_program(kFish, program);
  return std::nullopt;
}

}  // namespace tessera
