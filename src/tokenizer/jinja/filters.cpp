#include "tokenizer/jinja/filters.h"

#include <algorithm>

namespace tessera::jinja {

Builtin find_filter(std::string_view name) {
  for (const auto entries : {text_filters(), items_filters()}) {
    const auto found = std::ranges::find(entries, name, &FilterEntry::first);
    if (found != entries.end()) return found->second;
  }
  return nullptr;
}

}  // namespace tessera::jinja
