#include "stack/parity/language.h"

#include <array>
#include <utility>

namespace tessera::stack {
namespace {

constexpr std::array<std::pair<std::string_view, Language>, 43> kByExtension = {{
    {"py", Language::kPython},
    {"pyi", Language::kPython},
    {"c", Language::kC},
    {"h", Language::kC},
    {"cc", Language::kC},
    {"cpp", Language::kC},
    {"cxx", Language::kC},
    {"hh", Language::kC},
    {"hpp", Language::kC},
    {"hxx", Language::kC},
    {"inl", Language::kC},
    {"cu", Language::kC},
    {"cuh", Language::kC},
    {"hip", Language::kC},
    {"sh", Language::kShell},
    {"bash", Language::kShell},
    {"yaml", Language::kYaml},
    {"yml", Language::kYaml},
    {"toml", Language::kToml},
    {"ini", Language::kIni},
    {"cfg", Language::kIni},
    {"json", Language::kJson},
    {"cmake", Language::kCMake},
    {"rs", Language::kRust},
    {"js", Language::kScript},
    {"mjs", Language::kScript},
    {"cjs", Language::kScript},
    {"ts", Language::kScript},
    {"mts", Language::kScript},
    {"mk", Language::kMakefile},
    {"dockerfile", Language::kDockerfile},
    // Said outright, so that nobody adds them: white space is text, or the grammar is not ours.
    {"md", Language::kUnknown},
    {"rst", Language::kUnknown},
    {"txt", Language::kUnknown},
    {"jsx", Language::kUnknown},
    {"tsx", Language::kUnknown},
    {"html", Language::kUnknown},
    {"css", Language::kUnknown},
    {"csv", Language::kUnknown},
    {"ipynb", Language::kUnknown},
    {"jinja", Language::kUnknown},
    {"patch", Language::kUnknown},
    {"diff", Language::kUnknown},
}};

constexpr std::array<std::pair<Language, std::string_view>, 13> kNames = {{
    {Language::kUnknown, "unknown"},
    {Language::kPython, "python"},
    {Language::kC, "c"},
    {Language::kShell, "shell"},
    {Language::kDockerfile, "dockerfile"},
    {Language::kYaml, "yaml"},
    {Language::kToml, "toml"},
    {Language::kIni, "ini"},
    {Language::kJson, "json"},
    {Language::kCMake, "cmake"},
    {Language::kRust, "rust"},
    {Language::kScript, "script"},
    {Language::kMakefile, "makefile"},
}};

Language by_first_line(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  if (!line.starts_with("#!")) return Language::kUnknown;
  if (line.find("python") != std::string_view::npos) return Language::kPython;
  if (line.ends_with("/sh") || line.find("bash") != std::string_view::npos || line.ends_with(" sh"))
    return Language::kShell;
  return Language::kUnknown;
}

}  // namespace

std::string_view name_of(Language language) {
  for (const auto& [value, name] : kNames) {
    if (value == language) return name;
  }
  return "unknown";
}

Language language_of(std::string_view path, std::string_view text) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name == "CMakeLists.txt") return Language::kCMake;
  if (name == "Makefile" || name == "makefile" || name == "GNUmakefile") return Language::kMakefile;
  if (name == "Dockerfile" || name.starts_with("Dockerfile.") || name == "Containerfile")
    return Language::kDockerfile;
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return by_first_line(text);
  const std::string_view extension = name.substr(dot + 1);
  for (const auto& [known, language] : kByExtension) {
    if (known == extension) return language;
  }
  return Language::kUnknown;
}

}  // namespace tessera::stack
