// Which language a file is in, by its name and first line; decides what may count as white space or comment.
#pragma once

#include <string_view>

namespace tessera::stack {

enum class Language {
  kUnknown,  // no mild classes at all; also prose, where every blank may matter
  kPython,
  kC,  // C, C++, CUDA
  kShell,
  kDockerfile,
  kYaml,
  kToml,
  kIni,
  kJson,
  kCMake,
  kRust,
  kScript,  // JavaScript and TypeScript, without JSX
  kMakefile,
};
std::string_view name_of(Language language);

// `text` is looked at only for a "#!" line when the name says nothing.
Language language_of(std::string_view path, std::string_view text);

}  // namespace tessera::stack
