// The one question that .gitattributes of the base may answer: is this path text for a difference? Nothing
// else of it is honoured.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/tree.h"

namespace tessera::stack {

class TextAttributes {
 public:
  // Reads every .gitattributes file of the tree; unreadable ones are taken as empty.
  static TextAttributes read(const Tree& base, const BlobStore& blobs);

  // True: `diff` or `text` says so; false: `binary` or `-diff`; nothing: look at the bytes. The last match
  // wins, deeper files last.
  std::optional<bool> is_text(std::string_view path) const;

 private:
  struct Rule {
    std::string folder;  // with a trailing slash, or empty
    std::string glob;
    bool text = false;
  };
  std::vector<Rule> rules_;
};

}  // namespace tessera::stack
