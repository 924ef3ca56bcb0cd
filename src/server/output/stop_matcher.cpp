#include "server/output/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace tessera {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop) : include_stop_(include_stop) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    Pattern pattern{.text = std::move(stop), .fallback = {}};
    pattern.fallback.resize(pattern.text.size());
    std::uint32_t border = 0;
    for (std::size_t i = 1; i < pattern.text.size(); ++i) {
      while (border > 0 && pattern.text[i] != pattern.text[border]) border = pattern.fallback[border - 1];
      if (pattern.text[i] == pattern.text[border]) ++border;
      pattern.fallback[i] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (matched_) return {};
  if (patterns_.empty()) return std::string(text);
  std::size_t longest_prefix = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Pattern* found = nullptr;
    longest_prefix = 0;
    for (Pattern& pattern : patterns_) {
      std::size_t& at = pattern.reached;
      while (at > 0 && pattern.text[at] != text[i]) at = pattern.fallback[at - 1];
      if (pattern.text[at] == text[i]) ++at;
      if (at == pattern.text.size()) {
        if (found == nullptr || pattern.text.size() > found->text.size()) found = &pattern;
        at = pattern.fallback[at - 1];  // never used again, but within bounds
      }
      longest_prefix = std::max(longest_prefix, at);
    }
    if (found != nullptr) {
      held_.append(text.substr(0, i + 1));
      if (!include_stop_) held_.resize(held_.size() - found->text.size());
      matched_ = found->text;
      return std::exchange(held_, {});
    }
  }
  held_.append(text);
  if (text.empty()) return {};
  std::string out = held_.substr(0, held_.size() - longest_prefix);
  held_.erase(0, out.size());
  return out;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace tessera
