// Who reviews a path, by the base's CODEOWNERS file as GitHub reads it: the last pattern that matches
// decides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stack/tree.h"

namespace tessera::stack {

class CodeOwners {
 public:
  // From .github/CODEOWNERS, CODEOWNERS or docs/CODEOWNERS, the first that is there; else nobody owns
  // anything.
  static CodeOwners read(const Tree& base, const BlobStore& blobs);
  explicit CodeOwners(std::string_view text);

  // "@a @b" as written; empty: nobody.
  std::string of(std::string_view path) const;

 private:
  struct Rule {
    std::vector<std::string> globs;  // any of them
    std::string owners;
  };
  std::vector<Rule> rules_;
};

}  // namespace tessera::stack
