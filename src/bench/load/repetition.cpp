#include "bench/load/repetition.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace tessera::bench {
namespace {

constexpr std::size_t kStretch = 128;

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBlanks = " \n\t\r";
  std::vector<std::string_view> words;
  for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    characters.push_back(text.substr(at, end - at));
    at = end;
  }
  return characters;
}

}  // namespace

double distinct_bigram_ratio(std::string_view text) {
  std::vector<std::string_view> units = words_of(text);
  if (units.size() * 16 < text.size()) units = characters_of(text);
  if (units.size() < 2) return 1;
  double sum = 0;
  std::size_t stretches = 0;
  for (std::size_t from = 0; from + 1 < units.size(); from += kStretch) {
    const std::size_t end = std::min(from + kStretch, units.size());
    if (stretches > 0 && end - from < kStretch / 2) break;  // a short rest repeats less
    std::set<std::pair<std::string_view, std::string_view>> pairs;
    for (std::size_t i = from; i + 1 < end; ++i) pairs.emplace(units[i], units[i + 1]);
    sum += static_cast<double>(pairs.size()) / static_cast<double>(end - from - 1);
    ++stretches;
  }
  return sum / static_cast<double>(stretches);
}

}  // namespace tessera::bench
