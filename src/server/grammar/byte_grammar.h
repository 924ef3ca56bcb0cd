// A grammar over bytes: rules are small automata whose edges read a byte, read nothing, or read what another
// rule reads. Plain data, made by schema_compiler.h and run by grammar_matcher.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ByteGrammar {
  using Node = std::int32_t;
  using Rule = std::int32_t;

  struct ByteEdge {
    std::uint8_t low, high;  // inclusive
    Node to;
  };
  // A call may count. Each time the called rule is back at its start it has read one item, and `bound` says
  // how many items there may be when it ends. Such a rule has byte edges alone, and what an item is depends
  // on the text only: so all counts that are open at one place of a text are equal, and one number beside the
  // places is enough to run any of them.
  struct CallEdge {
    Rule rule;
    Node to;
    std::int32_t bound = -1;  // index, -1: does not count
  };
  struct Bound {
    std::int32_t least;
    std::int32_t most;  // kNoMost: no limit
  };
  static constexpr std::int32_t kNoMost = 0x7fffffff;
  struct NodeEdges {
    std::vector<ByteEdge> bytes;
    std::vector<CallEdge> calls;
    std::vector<Node> free;  // taken without reading
    bool ends_rule = false;
  };
  struct RuleEnds {
    Node start;
    Node end;
  };

  std::vector<NodeEdges> nodes;
  std::vector<RuleEnds> rules;
  std::vector<Bound> bounds;
  Rule root = 0;

  Node add_node();
  Rule add_rule();  // with a start and an end that are not connected yet
  void free(Node from, Node to) { nodes[static_cast<std::size_t>(from)].free.push_back(to); }
  void bytes(Node from, std::uint8_t low, std::uint8_t high, Node to);
  void call(Node from, Rule rule, Node to);
  void call_counted(Node from, Rule rule, Bound bound, Node to);
  Node literal(Node from, std::string_view text);  // returns where it ends
  RuleEnds ends(Rule rule) const { return rules[static_cast<std::size_t>(rule)]; }

  // Why the grammar cannot be run: no finite text satisfies it, or a rule begins with itself.
  std::optional<std::string> defect() const;
};

}  // namespace tessera
