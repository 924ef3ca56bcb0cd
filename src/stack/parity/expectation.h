// The user's own assertions on a tree: a path has a text, lacks it, has a digest, exists or does not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stack/tree.h"

namespace tessera::stack {

struct Expectation {
  std::string path;
  std::string has{};     // text that some line contains; may span lines; empty: not asked
  std::string lacks{};   // text that no line contains
  std::string sha256{};  // 64 hex digits, with or without "sha256:"
  bool exists = false;
  bool absent = false;
  std::string why{};
  std::string where{};  // "stack.toml:41"
};

struct ExpectationResult {
  std::string path;
  bool holds = false;
  std::string reason{};   // why not, one full sentence; printable
  std::string nearest{};  // "212: seq_lens_cpu = ...": the line most like what was looked for, or the one
                          // that should not be there
  std::string why{};
  std::string where{};
};

std::vector<ExpectationResult> check_expectations(const std::vector<Expectation>& expectations,
                                                  const Tree& tree, const BlobStore& blobs);

}  // namespace tessera::stack
