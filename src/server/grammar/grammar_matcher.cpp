#include "server/grammar/grammar_matcher.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace tessera {

GrammarMatcher::GrammarMatcher(ByteGrammar grammar, const TokenTrie& trie,
                               std::shared_ptr<MaskLibrary> library)
    : grammar_(std::move(grammar)),
      trie_(trie),
      library_(std::move(library)),
      path_(static_cast<std::size_t>(trie.depth()) + 1) {
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
    state.deepest = std::max(state.deepest, depth);
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
  return intern(std::move(state));
}

GrammarMatcher::State GrammarMatcher::intern(StateData state) {
  if (state.places.empty() && !state.may_end) return kDead;
  std::ranges::sort(state.places);
  const auto known = state_ids_.find({state.places, state.may_end});
  if (known != state_ids_.end()) {
    std::int32_t& deepest = states_[static_cast<std::size_t>(known->second)].deepest;
    deepest = std::max(deepest, state.deepest);
    return known->second;
  }
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

void GrammarMatcher::mark(std::vector<std::uint64_t>& mask, std::int32_t token) const {
  for (; token >= 0; token = trie_.next_same(token)) {
    mask[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
  }
}

// Marks the tokens among trie nodes [first, end) that may follow `state`, which holds after `depth` bytes.
void GrammarMatcher::walk(std::vector<std::uint64_t>& mask, std::size_t first, std::size_t end,
                          std::size_t depth, State state) {
  path_[depth] = state;
  const auto& nodes = trie_.nodes();
  for (std::size_t i = first; i < end;) {
    const TokenTrie::Node& node = nodes[i];
    const State to = step(path_[node.depth - 1], node.byte);
    if (to == kDead) {
      i = node.skip;
      continue;
    }
    path_[node.depth] = to;
    mark(mask, node.token);
    ++i;
  }
}

// As though nothing were open around the rule of these nodes: where it ends, the text ends.
LocalMask GrammarMatcher::walk_locally(const std::vector<ByteGrammar::Node>& from) {
  LocalMask out;
  StateData start;
  for (const ByteGrammar::Node node : from) start.places.push_back({node, -1});
  path_[0] = intern(std::move(start));
  std::vector<std::uint64_t> mask(static_cast<std::size_t>(trie_.vocab() + 63) / 64);
  const auto& nodes = trie_.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++out.visited) {
    const TokenTrie::Node& node = nodes[i];
    const State to = path_[node.depth - 1] == kDead ? kDead : step(path_[node.depth - 1], node.byte);
    if (to == kDead) {
      i = node.skip;
      continue;
    }
    path_[node.depth] = to;
    const StateData& state = states_[static_cast<std::size_t>(to)];
    out.deepest = std::max(out.deepest, state.deepest);
    if (state.may_end) out.exits.push_back(static_cast<std::uint32_t>(i));
    if (!state.places.empty()) {
      mark(mask, node.token);
      for (std::int32_t t = node.token; t >= 0 && out.few.size() <= kLongList; t = trie_.next_same(t))
        out.few.push_back(t);
    }
    ++i;
  }
  if (out.few.size() > kLongList) {
    out.few.clear();
    out.inside = std::move(mask);
  }
  return out;
}

// All that the nodes lead to, with nodes renamed in the order of their discovery, so that equal automata of
// different grammars are equal texts. Empty: too large to be worth it.
std::string GrammarMatcher::automaton_from(const std::vector<ByteGrammar::Node>& from) const {
  std::vector<ByteGrammar::Node> list;
  const auto number_of = [&](ByteGrammar::Node node) {
    const auto found = std::ranges::find(list, node);
    const auto at = static_cast<std::size_t>(found - list.begin());
    if (found == list.end()) list.push_back(node);
    return static_cast<char>(at);
  };
  std::string out;
  for (const ByteGrammar::Node node : from) number_of(node);
  out += static_cast<char>(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const ByteGrammar::NodeEdges& edges = grammar_.nodes[static_cast<std::size_t>(list[i])];
    for (const auto& edge : edges.bytes) {
      out += {'b', static_cast<char>(edge.low), static_cast<char>(edge.high), number_of(edge.to)};
    }
    for (const auto& edge : edges.calls) {
      out += {'c', number_of(grammar_.ends(edge.rule).start), number_of(edge.to)};
    }
    for (const ByteGrammar::Node to : edges.free) out += {'f', number_of(to)};
    out += edges.ends_rule ? 'E' : '.';
    if (list.size() > kMostSharedNodes) return {};
  }
  return out;
}

std::shared_ptr<const LocalMask> GrammarMatcher::local_mask(const std::vector<ByteGrammar::Node>& nodes) {
  if (const auto known = local_masks_.find(nodes); known != local_masks_.end()) return known->second;
  std::string automaton = library_ ? automaton_from(nodes) : std::string();
  std::shared_ptr<const LocalMask> made = automaton.empty() ? nullptr : library_->find(automaton);
  if (!made) {
    made = std::make_shared<const LocalMask>(walk_locally(nodes));
    if (!automaton.empty() && made->visited > kWorthSharing) library_->keep(std::move(automaton), made);
  }
  if (local_masks_.size() >= kMostLocalMasks) local_masks_.clear();
  local_masks_.emplace(nodes, made);
  return made;
}

std::shared_ptr<const std::vector<std::uint64_t>> GrammarMatcher::allowed(State state) {
  const std::lock_guard lock(mutex_);
  TS_CHECK(state != kDead);
  if (const auto known = masks_.find(state); known != masks_.end()) return known->second;
  auto mask = std::make_shared<std::vector<std::uint64_t>>(static_cast<std::size_t>(trie_.vocab() + 63) / 64);
  // Places with the same calls open around them go through their rule together. What the rule allows is known
  // from anywhere; only tokens that reach beyond its end depend on where this one was called.
  std::map<std::int32_t, std::vector<ByteGrammar::Node>> by_frame;
  for (const Place& place : states_[static_cast<std::size_t>(state)].places) {
    by_frame[place.frame].push_back(place.node);
  }
  const auto& nodes = trie_.nodes();
  for (const auto& [frame, from] : by_frame) {
    const auto local = local_mask(from);
    const Frame around = frame < 0 ? Frame{-1, -1, 0} : frames_[static_cast<std::size_t>(frame)];
    if (around.depth + local->deepest >= kMostOpenCalls) {  // the limit on nesting cuts some of it off
      walk(*mask, 0, nodes.size(), 0, state);
      break;
    }
    for (std::size_t i = 0; i < local->inside.size(); ++i) (*mask)[i] |= local->inside[i];
    for (const std::int32_t token : local->few) {
      (*mask)[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
    }
    if (local->exits.empty()) continue;
    const State after = frame < 0 ? kDead : settle({{around.back, around.below}});
    for (const std::uint32_t exit : local->exits) {
      if (frame < 0 || after != kDead) mark(*mask, nodes[exit].token);
      if (after != kDead) walk(*mask, exit + 1, nodes[exit].skip, nodes[exit].depth, after);
    }
  }
  if ((masks_.size() + 1) * mask->size() * sizeof(std::uint64_t) > kMostMaskBytes) masks_.clear();
  masks_.emplace(state, mask);
  return mask;
}

}  // namespace tessera
