#include "server/grammar/byte_grammar.h"

#include <algorithm>
#include <functional>

namespace tessera {
namespace {

using Node = ByteGrammar::Node;
using Rule = ByteGrammar::Rule;

// Nodes that the rule's start reaches, where `may_pass` says which calls can be walked through.
std::vector<Node> reach(const ByteGrammar& grammar, Rule rule, bool through_bytes,
                        const std::function<bool(Rule)>& may_pass) {
  std::vector<bool> seen(grammar.nodes.size());
  std::vector<Node> list = {grammar.ends(rule).start};
  seen[static_cast<std::size_t>(list.front())] = true;
  const auto visit = [&](Node node) {
    if (seen[static_cast<std::size_t>(node)]) return;
    seen[static_cast<std::size_t>(node)] = true;
    list.push_back(node);
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& edges = grammar.nodes[static_cast<std::size_t>(list[i])];
    for (const Node to : edges.free) visit(to);
    if (through_bytes) {
      for (const auto& edge : edges.bytes) visit(edge.to);
    }
    for (const auto& edge : edges.calls) {
      if (may_pass(edge.rule)) visit(edge.to);
    }
  }
  return list;
}

// Rules whose end can be reached, as a least fixed point. through_bytes: by any text; else: by the empty
// text.
std::vector<bool> finishing(const ByteGrammar& grammar, bool through_bytes) {
  std::vector<bool> known(grammar.rules.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (Rule rule = 0; rule < static_cast<Rule>(grammar.rules.size()); ++rule) {
      if (known[static_cast<std::size_t>(rule)]) continue;
      const auto nodes = reach(grammar, rule, through_bytes,
                               [&](Rule called) { return known[static_cast<std::size_t>(called)]; });
      if (std::ranges::find(nodes, grammar.ends(rule).end) == nodes.end()) continue;
      known[static_cast<std::size_t>(rule)] = true;
      changed = true;
    }
  }
  return known;
}

}  // namespace

ByteGrammar::Node ByteGrammar::add_node() {
  nodes.emplace_back();
  return static_cast<Node>(nodes.size()) - 1;
}

ByteGrammar::Rule ByteGrammar::add_rule() {
  const Node start = add_node();
  const Node end = add_node();
  nodes[static_cast<std::size_t>(end)].ends_rule = true;
  rules.push_back({start, end});
  return static_cast<Rule>(rules.size()) - 1;
}

void ByteGrammar::bytes(Node from, std::uint8_t low, std::uint8_t high, Node to) {
  nodes[static_cast<std::size_t>(from)].bytes.push_back({low, high, to});
}

void ByteGrammar::call(Node from, Rule rule, Node to) {
  nodes[static_cast<std::size_t>(from)].calls.push_back({rule, to});
}

void ByteGrammar::call_counted(Node from, Rule rule, Bound bound, Node to) {
  nodes[static_cast<std::size_t>(from)].calls.push_back({rule, to, static_cast<std::int32_t>(bounds.size())});
  bounds.push_back(bound);
}

ByteGrammar::Node ByteGrammar::literal(Node from, std::string_view text) {
  for (const char c : text) {
    const Node next = add_node();
    bytes(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), next);
    from = next;
  }
  return from;
}

std::optional<std::string> ByteGrammar::defect() const {
  if (!finishing(*this, true)[static_cast<std::size_t>(root)]) {
    return "no finite text satisfies it: something is required inside itself";
  }
  // A rule that can call itself before it reads a byte would be unrolled for ever.
  const std::vector<bool> can_be_empty = finishing(*this, false);
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(rules.size(), Mark::kNew);
  const std::function<bool(Rule)> begins_with_itself = [&](Rule rule) {
    Mark& mark = marks[static_cast<std::size_t>(rule)];
    if (mark != Mark::kNew) return mark == Mark::kOpen;
    mark = Mark::kOpen;
    const auto nodes_at_start = reach(
        *this, rule, false, [&](Rule called) { return can_be_empty[static_cast<std::size_t>(called)]; });
    for (const Node node : nodes_at_start) {
      for (const auto& edge : nodes[static_cast<std::size_t>(node)].calls) {
        if (begins_with_itself(edge.rule)) return true;
      }
    }
    marks[static_cast<std::size_t>(rule)] = Mark::kDone;
    return false;
  };
  for (Rule rule = 0; rule < static_cast<Rule>(rules.size()); ++rule) {
    if (begins_with_itself(rule)) return "a part of it begins with itself, without anything before";
  }
  return std::nullopt;
}

}  // namespace tessera
