#include "stack/command/completion.h"

namespace tessera::stack {
namespace {

// The verbs are asked from the program itself, so that a script from an older version still completes what a
// newer one knows.
constexpr std::string_view kBash = R"sh(_tessera_stack() {
  local word=${COMP_WORDS[COMP_CWORD]} verb= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in -*) ;; *) verb="$verb ${COMP_WORDS[i]}" ;; esac
  done
  local help
  help=$(tessera-stack $verb --help 2>/dev/null) || help=$(tessera-stack --help 2>/dev/null)
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$(grep -oE -- '--[a-z-]+' <<<"$help" | sort -u)" -- "$word"))
  else
    COMPREPLY=($(compgen -W "$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\+\).*/\1/p' <<<"$help")" -- "$word") $(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _tessera_stack tessera-stack
)sh";

constexpr std::string_view kZsh = "autoload -U +X bashcompinit && bashcompinit\n";

constexpr std::string_view kFish = R"sh(function __tessera_stack_verbs
  tessera-stack --help 2>/dev/null | string match -rg '^  ([a-z]+) +(.*)$' | string join \t
end
complete -c tessera-stack -n __fish_use_subcommand -f -a '(tessera-stack --help 2>/dev/null | sed -n "/^Subcommands:/,/^\$/s/^  \([a-z]*\) *\(.*\)/\1\t\2/p")'
complete -c tessera-stack -l plan -r -d 'The plan'
complete -c tessera-stack -l json -d 'One JSON document'
complete -c tessera-stack -l dry-run -d 'Change nothing'
complete -c tessera-stack -l quiet -d 'Only errors'
)sh";

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "zsh") return std::string(kZsh) + std::string(kBash);
  if (shell == "fish") return std::string(kFish);
  return std::string(kBash);
}

}  // namespace tessera::stack
