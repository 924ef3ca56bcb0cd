#include "server/grammar/json_rules.h"

#include <array>
#include <functional>

namespace tessera {
namespace {

using Node = ByteGrammar::Node;
using Rule = ByteGrammar::Rule;

void add_hex(ByteGrammar& g, Node from, std::string_view ranges, Node to) {
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) {
    g.bytes(from, static_cast<std::uint8_t>(ranges[i]), static_cast<std::uint8_t>(ranges[i + 1]), to);
  }
}
constexpr std::string_view kHex = "09afAF";

// \" \\ \/ \b … and \uXXXX; a surrogate only as the first half of a pair, since parsers refuse it alone.
void add_escape(ByteGrammar& g, Node from, Node to) {
  const Node escape = g.literal(from, "\\");
  for (const char c : std::string_view("\"\\/bfnrt")) {
    g.bytes(escape, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
  }
  const Node u = g.literal(escape, "u");
  const std::array<Node, 4> after = {g.add_node(), g.add_node(), g.add_node(), g.add_node()};
  add_hex(g, u, "09acACefEF", after[0]);  // any but d
  add_hex(g, after[0], kHex, after[1]);
  add_hex(g, after[1], kHex, after[2]);
  add_hex(g, after[2], kHex, to);
  const Node d = g.add_node();
  add_hex(g, u, "ddDD", d);
  add_hex(g, d, "07", after[1]);  // d000 to d7ff
  const std::array<Node, 3> high = {g.add_node(), g.add_node(), g.add_node()};
  add_hex(g, d, "89abAB", high[0]);
  add_hex(g, high[0], kHex, high[1]);
  add_hex(g, high[1], kHex, high[2]);
  const Node low_u = g.literal(high[2], "\\u");
  const std::array<Node, 3> low = {g.add_node(), g.add_node(), g.add_node()};
  add_hex(g, low_u, "ddDD", low[0]);
  add_hex(g, low[0], "cfCF", low[1]);
  add_hex(g, low[1], kHex, low[2]);
  add_hex(g, low[2], kHex, to);
}

// From `from`, through 1 to `most` digits, to the node that is returned.
Node digits(ByteGrammar& g, Node from, int most) {
  const Node end = g.add_node();
  for (int i = 0; i < most; ++i) {
    const Node next = g.add_node();
    g.bytes(from, '0', '9', next);
    g.free(next, end);
    from = next;
  }
  return end;
}

Node integer_part(ByteGrammar& g, Node from) {
  const Node sign = g.literal(from, "-");
  g.free(from, sign);
  const Node end = g.add_node();
  g.bytes(sign, '0', '0', end);
  const Node first = g.add_node();
  g.bytes(sign, '1', '9', first);
  g.free(first, end);
  g.free(digits(g, first, kMostIntegerDigits - 1), end);
  return end;
}

// Items between brackets, with commas between them and blanks where JSON takes them. `item` adds what reads
// one.
void separated_list(ByteGrammar& g, ByteGrammar::RuleEnds ends, std::string_view brackets, Rule blank,
                    const std::function<void(Node from, Node to)>& item) {
  const Node inside = g.add_node();
  g.call(g.literal(ends.start, brackets.substr(0, 1)), blank, inside);
  const Node after = g.add_node();
  item(inside, after);
  const Node again = g.add_node();
  g.call(g.literal(after, ","), blank, again);
  item(again, after);
  const Node closing = g.add_node();
  g.call(after, blank, closing);
  const auto close = static_cast<std::uint8_t>(brackets[1]);
  for (const Node node : {inside, closing}) g.bytes(node, close, close, ends.end);
}

}  // namespace

void add_plain_character(ByteGrammar& g, Node from, Node to) {
  g.bytes(from, 0x20, 0x21, to);
  g.bytes(from, 0x23, 0x5b, to);
  g.bytes(from, 0x5d, 0x7e, to);
  const Node last = g.add_node();    // one more byte
  const Node second = g.add_node();  // two more
  g.bytes(last, 0x80, 0xbf, to);
  g.bytes(second, 0x80, 0xbf, last);
  g.bytes(from, 0xc2, 0xdf, last);
  const auto lead = [&](std::uint8_t low, std::uint8_t high, std::uint8_t next_low, std::uint8_t next_high,
                        Node then) {
    const Node after = g.add_node();
    g.bytes(from, low, high, after);
    g.bytes(after, next_low, next_high, then);
  };
  lead(0xe0, 0xe0, 0xa0, 0xbf, last);
  lead(0xe1, 0xec, 0x80, 0xbf, last);
  lead(0xed, 0xed, 0x80, 0x9f, last);  // no surrogates
  lead(0xee, 0xef, 0x80, 0xbf, last);
  lead(0xf0, 0xf0, 0x90, 0xbf, second);
  lead(0xf1, 0xf3, 0x80, 0xbf, second);
  lead(0xf4, 0xf4, 0x80, 0x8f, second);
}

JsonRules add_json_rules(ByteGrammar& g) {
  JsonRules rules{};
  const auto between = [&g](Rule rule) { return g.ends(rule); };

  rules.blank = g.add_rule();
  {
    const auto [start, end] = between(rules.blank);
    g.free(start, end);
    g.bytes(start, ' ', ' ', end);
    Node at = g.literal(start, "\n");
    g.free(at, end);
    for (int i = 0; i < kMostIndent; ++i) {
      at = g.literal(at, " ");
      g.free(at, end);
    }
  }
  rules.string_body = g.add_rule();
  {
    const auto [start, end] = between(rules.string_body);
    add_plain_character(g, start, start);
    add_escape(g, start, start);
    g.bytes(start, '"', '"', end);
  }
  rules.string = g.add_rule();
  {
    const auto [start, end] = between(rules.string);
    const Node body = g.literal(start, "\"");
    add_plain_character(g, body, body);
    add_escape(g, body, body);
    g.bytes(body, '"', '"', end);
  }
  rules.integer = g.add_rule();
  g.free(integer_part(g, between(rules.integer).start), between(rules.integer).end);
  rules.number = g.add_rule();
  {
    const auto [start, end] = between(rules.number);
    const Node whole = integer_part(g, start);
    const Node fraction = digits(g, g.literal(whole, "."), kMostFractionDigits);
    g.free(whole, fraction);
    g.free(fraction, end);
    const Node e = g.add_node();
    add_hex(g, fraction, "eeEE", e);
    const Node sign = g.add_node();
    g.free(e, sign);
    add_hex(g, e, "++--", sign);
    g.free(digits(g, sign, 2), end);
  }

  rules.object = g.add_rule();
  rules.array = g.add_rule();
  rules.value = g.add_rule();
  {
    const auto [start, end] = between(rules.value);
    for (const Rule rule : {rules.string, rules.number, rules.object, rules.array}) g.call(start, rule, end);
    for (const char* word : {"true", "false", "null"}) g.free(g.literal(start, word), end);
  }
  separated_list(g, between(rules.array), "[]", rules.blank,
                 [&](Node from, Node to) { g.call(from, rules.value, to); });
  separated_list(g, between(rules.object), "{}", rules.blank, [&](Node from, Node to) {
    const Node key = g.add_node();
    g.call(from, rules.string, key);
    const Node value = g.add_node();
    g.call(g.literal(key, ":"), rules.blank, value);
    g.call(value, rules.value, to);
  });
  return rules;
}

}  // namespace tessera
