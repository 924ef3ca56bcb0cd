#include "server/grammar/grammar_matcher.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "base/check.h"

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
  path_[0] = state_of(intern(std::move(start)), 0);
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
    const StateData& state = data(to);
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
      if (edge.bound < 0) continue;
      const ByteGrammar::Bound& limit = grammar_.bounds[static_cast<std::size_t>(edge.bound)];
      out += '#' + std::to_string(limit.least) + ' ' + std::to_string(limit.most) + ' ';
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

// The walk from `node` of the counted rule that begins at `start`. Its items are told apart by the text
// alone, so each text has one place in it and one count.
CountedMask GrammarMatcher::walk_counted(ByteGrammar::Node start, ByteGrammar::Node node) const {
  constexpr std::int32_t kOutside = -1;
  constexpr std::int32_t kEnd = -2;
  std::vector<ByteGrammar::Node> list = {start};
  std::vector<std::array<std::int32_t, 256>> next;  // index in list, kOutside or kEnd
  for (std::size_t i = 0; i < list.size(); ++i) {
    next.emplace_back().fill(kOutside);
    for (const auto& edge : grammar_.nodes[static_cast<std::size_t>(list[i])].bytes) {
      auto to = static_cast<std::int32_t>(std::ranges::find(list, edge.to) - list.begin());
      if (grammar_.nodes[static_cast<std::size_t>(edge.to)].ends_rule) {
        to = kEnd;
      } else if (to == static_cast<std::int32_t>(list.size())) {
        list.push_back(edge.to);
      }
      for (int byte = edge.low; byte <= edge.high; ++byte) next[i][static_cast<std::size_t>(byte)] = to;
    }
  }
  struct Step {
    std::int32_t at;
    std::int32_t items;
  };
  std::vector<Step> path(static_cast<std::size_t>(trie_.depth()) + 1);
  path[0] = {static_cast<std::int32_t>(std::ranges::find(list, node) - list.begin()), 0};
  CountedMask out;
  std::vector<std::int32_t> needs;  // of out.tokens
  const auto& nodes = trie_.nodes();
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& here = nodes[i];
    const Step& before = path[here.depth - 1];
    const std::int32_t to = next[static_cast<std::size_t>(before.at)][here.byte];
    if (to < 0) {
      if (to == kEnd) out.exits.push_back({static_cast<std::uint32_t>(i), before.items});
      i = here.skip;
      continue;
    }
    path[here.depth] = {to, before.items + (to == 0 ? 1 : 0)};
    for (std::int32_t token = here.token; token >= 0; token = trie_.next_same(token)) {
      out.tokens.push_back(token);
      needs.push_back(path[here.depth].items + (to == 0 ? 0 : 1));  // the one that is begun counts
    }
    ++i;
  }
  if (out.tokens.size() > kLongList) {
    out.inside.resize(static_cast<std::size_t>(trie_.vocab() + 63) / 64);
    for (const std::int32_t token : out.tokens)
      out.inside[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
  }
  for (const CountedMask::Exit& exit : out.exits) out.most_items = std::max(out.most_items, exit.items);
  for (const std::int32_t need : needs) out.most_items = std::max(out.most_items, need);
  // Sorted by counting.
  out.up_to.assign(static_cast<std::size_t>(out.most_items) + 1, 0);
  for (const std::int32_t need : needs) ++out.up_to[static_cast<std::size_t>(need)];
  std::vector<std::size_t> slot(out.up_to.size());
  std::exclusive_scan(out.up_to.begin(), out.up_to.end(), slot.begin(), std::size_t{0});
  std::partial_sum(out.up_to.begin(), out.up_to.end(), out.up_to.begin());
  std::vector<std::int32_t> sorted(out.tokens.size());
  for (std::size_t i = 0; i < needs.size(); ++i)
    sorted[slot[static_cast<std::size_t>(needs[i])]++] = out.tokens[i];
  out.tokens = std::move(sorted);
  return out;
}

std::shared_ptr<const CountedMask> GrammarMatcher::counted_mask(ByteGrammar::Node start,
                                                                ByteGrammar::Node node) {
  if (const auto known = counted_masks_.find(node); known != counted_masks_.end()) return known->second;
  const std::string automaton = library_ ? automaton_from({start, node}) : std::string();
  std::shared_ptr<const CountedMask> made = automaton.empty() ? nullptr : library_->find_counted(automaton);
  if (!made) {
    made = std::make_shared<const CountedMask>(walk_counted(start, node));
    if (!automaton.empty()) library_->keep_counted(automaton, made);
  }
  counted_masks_.emplace(node, made);
  return made;
}

// A token that ends at `exit`, where a rule has ended, and those that go on from there.
void GrammarMatcher::mark_exit(std::vector<std::uint64_t>& mask, std::uint32_t exit, bool text_may_end,
                               State after) {
  const TokenTrie::Node& node = trie_.nodes()[exit];
  if (text_may_end || after != kDead) mark(mask, node.token);
  if (after != kDead) walk(mask, exit + 1, node.skip, node.depth, after);
}

std::shared_ptr<const std::vector<std::uint64_t>> GrammarMatcher::allowed(State state) {
  const std::lock_guard lock(mutex_);
  TS_CHECK(state != kDead);
  const std::int32_t count = count_of(state);
  // Places with the same calls open around them go through their rule together. What the rule allows is known
  // from anywhere; only tokens that reach beyond its end depend on where this one was called.
  std::map<std::int32_t, std::vector<ByteGrammar::Node>> by_frame;
  for (const Place& place : data(state).places) by_frame[place.frame].push_back(place.node);
  const auto frame_at = [&](std::int32_t frame) {
    return frame < 0 ? Frame{.back = -1, .below = -1, .depth = 0} : frames_[static_cast<std::size_t>(frame)];
  };
  // Far from the bounds the count changes nothing, and one mask is for all.
  State key = state;
  if (data(state).counts) {
    std::int32_t needed = 0;
    for (const auto& [frame, from] : by_frame) {
      const Frame around = frame_at(frame);
      if (around.bound < 0) continue;
      for (const ByteGrammar::Node node : from)
        needed = std::max(needed, counted_mask(around.counted, node)->most_items);
    }
    const StateData& here = data(state);
    const bool is_roomy =
        count >= here.least && (here.most == ByteGrammar::kNoMost || here.most - count >= needed);
    if (is_roomy) key = state_of(id_of(state), ByteGrammar::kNoMost);
  }
  if (const auto known = masks_.find(key); known != masks_.end()) return known->second;
  auto mask = std::make_shared<std::vector<std::uint64_t>>(static_cast<std::size_t>(trie_.vocab() + 63) / 64);
  const auto& nodes = trie_.nodes();
  for (const auto& [frame, from] : by_frame) {
    const Frame around = frame_at(frame);
    const auto after = [&] { return frame < 0 ? kDead : state_of(settle({{around.back, around.below}}), 0); };
    if (around.bound >= 0) {
      const ByteGrammar::Bound& limit = grammar_.bounds[static_cast<std::size_t>(around.bound)];
      const State behind = after();
      for (const ByteGrammar::Node node : from) {
        const auto counted = counted_mask(around.counted, node);
        counted->mark(*mask, limit.most - count);
        for (const CountedMask::Exit& exit : counted->exits) {
          if (exit.items >= limit.least - count && exit.items <= limit.most - count)
            mark_exit(*mask, exit.node, false, behind);
        }
      }
      continue;
    }
    const auto local = local_mask(from);
    if (around.depth + local->deepest >= kMostOpenCalls) {  // the limit on nesting cuts some of it off
      walk(*mask, 0, nodes.size(), 0, state);
      break;
    }
    for (std::size_t i = 0; i < local->inside.size(); ++i) (*mask)[i] |= local->inside[i];
    for (const std::int32_t token : local->few) {
      (*mask)[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
    }
    if (local->exits.empty()) continue;
    const State behind = after();
    for (const std::uint32_t exit : local->exits) mark_exit(*mask, exit, frame < 0, behind);
  }
  if ((masks_.size() + 1) * mask->size() * sizeof(std::uint64_t) > kMostMaskBytes) masks_.clear();
  masks_.emplace(key, mask);
  return mask;
}

}  // namespace tessera
