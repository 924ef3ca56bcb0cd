// The two halves of the table of filters; find_filter (filters.cpp) looks into both.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "tokenizer/jinja/call.h"

namespace tessera::jinja {

using FilterEntry = std::pair<std::string_view, Builtin>;

std::span<const FilterEntry> text_filters();   // strings and numbers
std::span<const FilterEntry> items_filters();  // lists and dicts

}  // namespace tessera::jinja
