#include "server/grammar/grammar_matcher.h"

#include <algorithm>
#include <set>

namespace tessera {

GrammarMatcher::GrammarMatcher(ByteGrammar grammar, const TokenTrie& trie,
                               std::shared_ptr<MaskLibrary> library)
    : grammar_(std::move(grammar)),
      trie_(trie),
      library_(std::move(library)),
      path_(static_cast<std::size_t>(trie.depth()) + 1) {
  start_ = state_of(settle({{grammar_.ends(grammar_.root).start, -1}}), 0);
}

std::int32_t GrammarMatcher::frame(const ByteGrammar::CallEdge& call, std::int32_t below) {
  const auto [at, is_new] =
      frame_ids_.try_emplace({call.to, below, call.bound}, static_cast<std::int32_t>(frames_.size()));
  if (is_new) {
    const std::int32_t depth = below < 0 ? 1 : frames_[static_cast<std::size_t>(below)].depth + 1;
    frames_.push_back({.back = call.to, .below = below, .depth = depth, .bound = call.bound});
    if (call.bound >= 0) frames_.back().counted = grammar_.ends(call.rule).start;
  }
  return at->second;
}

GrammarMatcher::Id GrammarMatcher::settle(std::vector<Place> places) {
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
    state.deepest = std::max(state.deepest, depth);
    if (depth < kMostOpenCalls) {
      for (const auto& edge : edges.calls) visit({grammar_.ends(edge.rule).start, frame(edge, place.frame)});
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
  return intern(std::move(state));
}

GrammarMatcher::Id GrammarMatcher::intern(StateData state) {
  if (state.places.empty() && !state.may_end) return kNowhere;
  std::ranges::sort(state.places);
  const auto known = state_ids_.find({state.places, state.may_end});
  if (known != state_ids_.end()) {
    std::int32_t& deepest = states_[static_cast<std::size_t>(known->second)].deepest;
    deepest = std::max(deepest, state.deepest);
    return known->second;
  }
  if (states_.size() >= kMostStates) return kNowhere;
  for (const Place& place : state.places) {
    if (place.frame < 0) continue;
    const std::int32_t bound = frames_[static_cast<std::size_t>(place.frame)].bound;
    if (bound < 0) continue;
    const ByteGrammar::Bound& limit = grammar_.bounds[static_cast<std::size_t>(bound)];
    state.counts = true;
    state.least = std::max(state.least, limit.least);
    state.most = std::min(state.most, limit.most);
  }
  const auto id = static_cast<Id>(states_.size());
  state_ids_.emplace(std::pair{state.places, state.may_end}, id);
  states_.push_back(std::move(state));
  return id;
}

// Where the byte leads after `count` items.
GrammarMatcher::Follower GrammarMatcher::follow(Id from, std::int32_t count, std::uint8_t byte) {
  std::vector<Place> places;
  bool is_item = false;
  for (const Place& place : states_[static_cast<std::size_t>(from)].places) {
    const Frame* open = place.frame < 0 ? nullptr : &frames_[static_cast<std::size_t>(place.frame)];
    const bool counts = open != nullptr && open->bound >= 0;
    for (const auto& edge : grammar_.nodes[static_cast<std::size_t>(place.node)].bytes) {
      if (byte < edge.low || byte > edge.high) continue;
      if (counts) {
        const ByteGrammar::Bound& limit = grammar_.bounds[static_cast<std::size_t>(open->bound)];
        const bool ends = grammar_.nodes[static_cast<std::size_t>(edge.to)].ends_rule;
        const bool begins = place.node == open->counted && !ends;
        if (ends ? count < limit.least : begins && count >= limit.most) continue;
        is_item |= edge.to == open->counted;
      }
      places.push_back({edge.to, place.frame});
    }
  }
  std::ranges::sort(places);
  // Not std::ranges::unique: clang 14, which builds the fuzz targets, cannot read libstdc++'s subrange.
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return {places.empty() ? kNowhere : settle(std::move(places)), is_item};
}

GrammarMatcher::State GrammarMatcher::step(State state, std::uint8_t byte) {
  const Id from = id_of(state);
  const std::int32_t count = count_of(state);
  StateData& before = states_[static_cast<std::size_t>(from)];
  Follower to{kUnknown, false};
  if (before.counts && (count < before.least || count >= before.most)) {
    to = follow(from, count, byte);
  } else {
    if (before.next.empty()) {
      before.next.assign(256, kUnknown);
      if (before.counts) before.is_item.assign(256, false);
    }
    to = {before.next[byte], before.counts && before.is_item[byte]};
    if (to.id == kUnknown) {
      to = follow(from, count, byte);
      StateData& moved = states_[static_cast<std::size_t>(from)];  // settle may have moved the states
      moved.next[byte] = to.id;
      if (moved.counts) moved.is_item[byte] = to.is_item;
    }
  }
  if (to.id == kNowhere || !states_[static_cast<std::size_t>(to.id)].counts) return state_of(to.id, 0);
  // Without a limit there is nothing to count beyond the least.
  const StateData& after = states_[static_cast<std::size_t>(to.id)];
  const bool goes_on = to.is_item && (after.most != ByteGrammar::kNoMost || count < after.least);
  return state_of(to.id, count + (goes_on ? 1 : 0));
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
  return state != kDead && data(state).may_end;
}

bool GrammarMatcher::must_end(State state) {
  const std::lock_guard lock(mutex_);
  return state != kDead && data(state).may_end && data(state).places.empty();
}

}  // namespace tessera
