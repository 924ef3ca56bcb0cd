// The matcher's masks: which tokens may follow a state. What the inside of a rule allows is worked out once
// and shared (mask_library.h); here it is put together with what lies around the rule.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "base/check.h"
#include "server/grammar/grammar_matcher.h"

namespace tessera {

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
    const auto after = [&, frame = frame] { return frame < 0 ? kDead : state_of(settle({{around.back, around.below}}), 0); };
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
