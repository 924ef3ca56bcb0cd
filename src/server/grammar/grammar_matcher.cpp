#include "server/grammar/grammar_matcher.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace tessera {

GrammarMatcher::GrammarMatcher(ByteGrammar grammar, const TokenTrie& trie)
    : grammar_(std::move(grammar)), trie_(trie) {
  start_ = settle({{grammar_.ends(grammar_.root).start, -1}});
}

std::int32_t GrammarMatcher::frame(ByteGrammar::Node back, std::int32_t below) {
  const auto [at, is_new] = frame_ids_.try_emplace({back, below}, static_cast<std::int32_t>(frames_.size()));
  if (is_new) {
    const std::int32_t depth = below < 0 ? 1 : frames_[static_cast<std::size_t>(below)].depth + 1;
    frames_.push_back({back, below, depth});
  }
  return at->second;
}

GrammarMatcher::State GrammarMatcher::settle(std::vector<Place> places) {
  std::set<Place> seen(places.begin(), places.end());
  StateData state;
  const auto visit = [&](Place place) {
    if (seen.insert(place).second) places.push_back(place);
  };
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place place = places[i];
    const auto& edges = grammar_.nodes[static_cast<std::size_t>(place.node)];
    for (const ByteGrammar::Node to : edges.free) visit({to, place.frame});
    const std::int32_t depth = place.frame < 0 ? 0 : frames_[static_cast<std::size_t>(place.frame)].depth;
    if (depth < kMostOpenCalls) {
      for (const auto& edge : edges.calls) {
        visit({grammar_.ends(edge.rule).start, frame(edge.to, place.frame)});
      }
    }
    if (edges.ends_rule) {
      if (place.frame < 0) {
        state.may_end = true;
      } else {
        const Frame& open = frames_[static_cast<std::size_t>(place.frame)];
        visit({open.back, open.below});
      }
    }
    if (!edges.bytes.empty()) state.places.push_back(place);
  }
  if (state.places.empty() && !state.may_end) return kDead;
  std::ranges::sort(state.places);
  const auto known = state_ids_.find({state.places, state.may_end});
  if (known != state_ids_.end()) return known->second;
  if (states_.size() >= kMostStates) return kDead;
  const auto id = static_cast<State>(states_.size());
  state_ids_.emplace(std::pair{state.places, state.may_end}, id);
  states_.push_back(std::move(state));
  return id;
}

GrammarMatcher::State GrammarMatcher::step(State state, std::uint8_t byte) {
  auto& next = states_[static_cast<std::size_t>(state)].next;
  if (next.empty()) next.assign(256, kUnknown);
  if (next[byte] != kUnknown) return next[byte];
  std::vector<Place> places;
  for (const Place& place : states_[static_cast<std::size_t>(state)].places) {
    for (const auto& edge : grammar_.nodes[static_cast<std::size_t>(place.node)].bytes) {
      if (byte >= edge.low && byte <= edge.high) places.push_back({edge.to, place.frame});
    }
  }
  std::ranges::sort(places);
  // Not std::ranges::unique: clang 14, which builds the fuzz targets, cannot read libstdc++'s subrange.
  places.erase(std::unique(places.begin(), places.end()), places.end());
  const State to = places.empty() ? kDead : settle(std::move(places));
  states_[static_cast<std::size_t>(state)].next[byte] = to;  // settle may have moved the states
  return to;
}

GrammarMatcher::State GrammarMatcher::read(State state, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  for (const char c : bytes) {
    if (state == kDead) return kDead;
    state = step(state, static_cast<std::uint8_t>(c));
  }
  return state;
}

bool GrammarMatcher::may_end(State state) {
  const std::lock_guard lock(mutex_);
  return state != kDead && states_[static_cast<std::size_t>(state)].may_end;
}

bool GrammarMatcher::must_end(State state) {
  const std::lock_guard lock(mutex_);
  return state != kDead && states_[static_cast<std::size_t>(state)].may_end &&
         states_[static_cast<std::size_t>(state)].places.empty();
}

std::shared_ptr<const std::vector<std::uint64_t>> GrammarMatcher::allowed(State state) {
  const std::lock_guard lock(mutex_);
  TS_CHECK(state != kDead);
  if (const auto known = masks_.find(state); known != masks_.end()) return known->second;
  auto mask = std::make_shared<std::vector<std::uint64_t>>(static_cast<std::size_t>(trie_.vocab() + 63) / 64);
  std::vector<State> path(static_cast<std::size_t>(trie_.depth()) + 1);  // state after each byte of the walk
  path[0] = state;
  const auto& nodes = trie_.nodes();
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const State to = step(path[node.depth - 1], node.byte);
    if (to == kDead) {
      i = node.skip;
      continue;
    }
    path[node.depth] = to;
    for (std::int32_t token = node.token; token >= 0; token = trie_.next_same(token)) {
      (*mask)[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
    }
    ++i;
  }
  if ((masks_.size() + 1) * mask->size() * sizeof(std::uint64_t) > kMostMaskBytes) masks_.clear();
  masks_.emplace(state, mask);
  return mask;
}

}  // namespace tessera
