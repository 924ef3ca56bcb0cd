#include "stack/parity/directive.h"

#include <array>
#include <cctype>
#include <string>

namespace tessera::stack {
namespace {

// After the comment's marks and blanks, in lower case.
constexpr std::array<std::string_view, 42> kLeads = {"type:",        "noqa",
                                                     "pragma",       "fmt:",
                                                     "ruff:",        "mypy:",
                                                     "isort:",       "pylint:",
                                                     "pyright:",     "flake8:",
                                                     "yapf:",        "nosec",
                                                     "spdx-",        "-*-",
                                                     "vim:",         "coding:",
                                                     "coding=",      "nolint",
                                                     "clang-format", "clang-tidy",
                                                     "iwyu pragma",  "fallthrough",
                                                     "cppcheck-",    "syntax=",
                                                     "escape=",      "check=",
                                                     "shellcheck",   "eslint",
                                                     "prettier-",    "@ts-",
                                                     "tslint:",      "istanbul",
                                                     "webpack",      "yaml-language-server",
                                                     "yamllint",     "cmake-format:",
                                                     "cmake-lint:",  "doctest:",
                                                     "skipif",       "!",
                                                     "go:",          "@generated"};

// Anywhere in the comment: several tools accept their mark behind others.
constexpr std::array<std::string_view, 8> kInside = {"# noqa",       "# type:",    "nolint",    "# pragma",
                                                     "spdx-license", "doctest: +", "fmt: skip", "coding:"};

}  // namespace

bool is_directive(std::string_view comment) {
  std::string text;
  for (const char c : comment) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::size_t first = text.find_first_not_of("#/*;< \t");
  if (first == std::string::npos) return false;
  const std::string_view body = std::string_view(text).substr(first);
  // "#!" and "#: " stand directly at the mark.
  for (const std::string_view lead : kLeads) {
    if (lead == "!" ? text.starts_with("#!") : body.starts_with(lead)) return true;
  }
  for (const std::string_view inside : kInside) {
    if (text.find(inside) != std::string::npos) return true;
  }
  return false;
}

}  // namespace tessera::stack
