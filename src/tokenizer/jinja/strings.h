// Python's string operations on Text: who wrote which byte is kept where bytes are kept.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/text.h"

namespace tessera::jinja {

enum class Side { kLeft, kRight, kBoth };

// Characters of `characters`, or blanks when it is null, off the ends.
Text strip(const Text& text, const std::string_view* characters, Side side);
std::vector<Text> split(const Text& text, std::string_view separator,
                        long long max_splits);  // negative: no limit
std::vector<Text> split_from_right(const Text& text, std::string_view separator, long long max_splits);
std::vector<Text> split_at_blanks(const Text& text, long long max_splits);
std::vector<Text> split_at_blanks_from_right(const Text& text, long long max_splits);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
// `grown` is called with the size of the result while it grows.
Text replace(const Text& text, const Text& from, const Text& to, long long max_count,
             const std::function<void(std::size_t)>& grown);
// Each run mapped by itself; for mappings that work character by character.
Text map_runs(const Text& text, std::string (*map)(std::string_view));
std::string capitalized(std::string_view text);  // str.capitalize
std::string swap_case(std::string_view text);

// All characters fulfil `is`, and there is one.
bool all_points(std::string_view text, bool (*is)(char32_t));

}  // namespace tessera::jinja
