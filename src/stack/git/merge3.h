// A three-way merge of texts, as git does it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::stack {

struct MergedText {
  std::string text;  // with conflict markers when it is not clean
  bool is_clean = false;
};

MergedText merge_texts(std::string_view base, std::string_view ours, std::string_view theirs);

}  // namespace tessera::stack
