#include "server/grammar/schema_compiler.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "server/grammar/json_rules.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Node = ByteGrammar::Node;
using Rule = ByteGrammar::Rule;

constexpr std::size_t kMostNodes = 300'000;
constexpr std::size_t kMostRules = 2'000;        // defect() looks at each several times
constexpr std::int64_t kMostRepeats = 10'000;    // minItems, maxItems: each is a part of the grammar
constexpr std::int64_t kMostLength = 1'000'000;  // minLength, maxLength
constexpr int kMostDepth = 64;

constexpr std::array<std::string_view, 15> kAnnotations = {
    "title", "description", "default",    "examples", "$schema",
    "$id",   "$comment",    "deprecated", "readOnly", "writeOnly",
    "$defs", "definitions", "format",     "$anchor",  "contentMediaType"};

bool is_annotation(std::string_view key) {
  return std::ranges::find(kAnnotations, key) != kAnnotations.end();
}

class Compiler {
 public:
  explicit Compiler(const Json& root) : root_(root) { json_ = add_json_rules(grammar_); }

  Result<ByteGrammar> run() {
    TS_TRY(grammar_.root, rule_of(root_, ""));
    if (const auto defect = grammar_.defect()) {
      return Error{ErrorKind::kInvalidArgument, "", "The schema cannot be used: " + *defect + "."};
    }
    return std::move(grammar_);
  }

 private:
  static Error refuse(const std::string& path, std::string what) {
    return {ErrorKind::kUnsupported, path.empty() ? "(root)" : path, std::move(what)};
  }

  // A rule for the schema, made once a place: schemas that refer to themselves become rules that call
  // themselves.
  Result<Rule> rule_of(const Json& schema, const std::string& path) {
    if (const auto known = rules_.find(&schema); known != rules_.end()) return known->second;
    const Rule rule = grammar_.add_rule();
    rules_.emplace(&schema, rule);
    const auto [start, end] = grammar_.ends(rule);
    TS_TRY(const Node to, add(schema, start, path));
    grammar_.free(to, end);
    return rule;
  }

  // Adds what reads a value of the schema, from `from` to the node that is returned.
  Result<Node> add(const Json& schema, Node from, const std::string& path) {
    if (grammar_.nodes.size() > kMostNodes || grammar_.rules.size() > kMostRules) {
      return refuse(path, "The schema is too large.");
    }
    if (depth_ >= kMostDepth) {
      return refuse(path, "The schema nests deeper than " + std::to_string(kMostDepth) + " levels.");
    }
    ++depth_;
    auto out = add_checked(schema, from, path);
    --depth_;
    return out;
  }

  Result<Node> add_checked(const Json& schema, Node from, const std::string& path) {
    if (schema == true) return call(from, json_.value);
    if (!schema.is_object()) {
      return Error{ErrorKind::kInvalidArgument, path.empty() ? "(root)" : path,
                   "A schema must be an object or true."};
    }
    if (schema.contains("$ref")) return add_ref(schema, from, path);
    if (schema.contains("allOf")) return add_all_of(schema, from, path);
    if (schema.contains("anyOf")) return add_any_of(schema, from, path);
    if (schema.contains("const")) {
      TS_TRY(allow_only(schema, {"const", "type", "enum"}, path));
      return add_values(Json::array({schema["const"]}), schema, from, path + "/const");
    }
    if (schema.contains("enum")) {
      TS_TRY(allow_only(schema, {"enum", "type"}, path));
      return add_values(schema["enum"], schema, from, path + "/enum");
    }
    return add_typed(schema, from, path);
  }

  Result<void> allow_only(const Json& schema, std::initializer_list<std::string_view> keys,
                          const std::string& path) {
    for (const auto& [key, value] : schema.items()) {
      if (is_annotation(key) || std::ranges::find(keys, key) != keys.end()) continue;
      return refuse(path + "/" + key, "The keyword '" + key + "' is not supported here.");
    }
    return {};
  }

  Result<Node> add_ref(const Json& schema, Node from, const std::string& path) {
    TS_TRY(allow_only(schema, {"$ref"}, path));
    if (!schema["$ref"].is_string()) return refuse(path + "/$ref", "'$ref' must be a string.");
    const auto text = schema["$ref"].get<std::string>();
    if (!text.starts_with('#'))
      return refuse(path + "/$ref", "Only references within the schema (#/…) are followed.");
    try {
      const Json::json_pointer pointer(text.substr(1));
      if (!root_.contains(pointer)) {
        return Error{ErrorKind::kInvalidArgument, path + "/$ref",
                     "There is nothing at '" + text.substr(0, 100) + "'."};
      }
      TS_TRY(const Rule rule, rule_of(root_.at(pointer), text.substr(1)));
      return call(from, rule);
    } catch (const Json::exception&) {
      return Error{ErrorKind::kInvalidArgument, path + "/$ref",
                   "'" + text.substr(0, 100) + "' is not a JSON pointer into the schema."};
    }
  }

  Result<Node> add_all_of(const Json& schema, Node from, const std::string& path) {
    TS_TRY(allow_only(schema, {"allOf"}, path));
    const Json& list = schema["allOf"];
    if (!list.is_array() || list.size() != 1)
      return refuse(path + "/allOf", "'allOf' is supported with one schema.");
    return add(list[0], from, path + "/allOf/0");
  }

  Result<Node> add_any_of(const Json& schema, Node from, const std::string& path) {
    TS_TRY(allow_only(schema, {"anyOf"}, path));
    const Json& list = schema["anyOf"];
    if (!list.is_array() || list.empty()) {
      return Error{ErrorKind::kInvalidArgument, path + "/anyOf",
                   "'anyOf' must be an array that is not empty."};
    }
    const Node end = grammar_.add_node();
    for (std::size_t i = 0; i < list.size(); ++i) {
      TS_TRY(const Node to, add(list[i], from, path + "/anyOf/" + std::to_string(i)));
      grammar_.free(to, end);
    }
    return end;
  }

  static bool has_type(const Json& value, std::string_view type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "number") return value.is_number();
    return type == "integer" && value.is_number_integer();
  }

  Result<Node> add_values(const Json& list, const Json& schema, Node from, const std::string& path) {
    if (!list.is_array()) return Error{ErrorKind::kInvalidArgument, path, "'enum' must be an array."};
    TS_TRY(const std::vector<std::string> types, types_of(schema, path));
    const Node end = grammar_.add_node();
    bool any = false;
    for (const Json& value : list) {
      const auto fits = [&](const std::string& type) { return has_type(value, type); };
      if (!types.empty() && std::ranges::none_of(types, fits)) continue;
      grammar_.free(grammar_.literal(from, value.dump()), end);
      any = true;
    }
    if (!any) return Error{ErrorKind::kInvalidArgument, path, "None of the values fits the schema."};
    return end;
  }

  static Result<std::vector<std::string>> types_of(const Json& schema, const std::string& path) {
    std::vector<std::string> out;
    if (!schema.contains("type")) return out;
    const Json& type = schema["type"];
    const Json list = type.is_array() ? type : Json::array({type});
    for (const Json& one : list) {
      constexpr std::array<std::string_view, 7> kTypes = {"object",  "array",   "string", "number",
                                                          "integer", "boolean", "null"};
      const std::string name = one.is_string() ? one.get<std::string>() : one.dump();
      if (std::ranges::find(kTypes, name) == kTypes.end()) {
        return Error{ErrorKind::kInvalidArgument, path + "/type",
                     "The type '" + name.substr(0, 60) + "' is not known."};
      }
      out.push_back(name);
    }
    if (out.empty()) return Error{ErrorKind::kInvalidArgument, path + "/type", "'type' is an empty list."};
    return out;
  }

  Result<Node> add_typed(const Json& schema, Node from, const std::string& path) {
    TS_TRY(allow_only(schema,
                      {"type", "properties", "required", "additionalProperties", "items", "minItems",
                       "maxItems", "minLength", "maxLength"},
                      path));
    TS_TRY(std::vector<std::string> types, types_of(schema, path));
    if (types.empty()) {  // keywords without a type hint at one
      if (schema.contains("properties") || schema.contains("required") ||
          schema.contains("additionalProperties")) {
        types = {"object"};
      } else if (schema.contains("items") || schema.contains("minItems") || schema.contains("maxItems")) {
        types = {"array"};
      } else if (schema.contains("minLength") || schema.contains("maxLength")) {
        types = {"string"};
      } else {
        return call(from, json_.value);
      }
    }
    const Node end = grammar_.add_node();
    for (const std::string& type : types) {
      TS_TRY(const Node to, add_type(type, schema, from, path));
      grammar_.free(to, end);
    }
    return end;
  }

  Result<Node> add_type(const std::string& type, const Json& schema, Node from, const std::string& path) {
    if (type == "object") return add_object(schema, from, path);
    if (type == "array") return add_array(schema, from, path);
    if (type == "string") return add_string(schema, from, path);
    if (type == "integer") return call(from, json_.integer);
    if (type == "number") return call(from, json_.number);
    const Node end = grammar_.add_node();
    if (type == "null") {
      grammar_.free(grammar_.literal(from, "null"), end);
    } else {
      grammar_.free(grammar_.literal(from, "true"), end);
      grammar_.free(grammar_.literal(from, "false"), end);
    }
    return end;
  }

  struct Bounds {
    std::int64_t least = 0;
    std::optional<std::int64_t> most;
  };
  Result<Bounds> bounds(const Json& schema, const char* least, const char* most, std::int64_t limit,
                        const std::string& path) {
    Bounds out;
    for (const char* key : {least, most}) {
      if (!schema.contains(key)) continue;
      const Json& value = schema[key];
      if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > limit) {
        return refuse(path + "/" + key, std::string("'") + key + "' must be an integer from 0 to " +
                                            std::to_string(limit) + ".");
      }
      (key == least ? out.least : out.most.emplace()) = value.get<std::int64_t>();
    }
    if (out.most && *out.most < out.least) {
      return Error{ErrorKind::kInvalidArgument, path,
                   std::string("'") + most + "' is below '" + least + "'."};
    }
    return out;
  }

  Result<Node> add_string(const Json& schema, Node from, const std::string& path) {
    if (!schema.contains("minLength") && !schema.contains("maxLength")) return call(from, json_.string);
    TS_TRY(const Bounds limit, bounds(schema, "minLength", "maxLength", kMostLength, path));
    const ByteGrammar::Bound bound{static_cast<std::int32_t>(limit.least),
                                   static_cast<std::int32_t>(limit.most.value_or(ByteGrammar::kNoMost))};
    const Node to = grammar_.add_node();
    grammar_.call_counted(grammar_.literal(from, "\""), json_.string_body, bound, to);
    return to;
  }

  Result<Node> add_array(const Json& schema, Node from, const std::string& path) {
    TS_TRY(const Bounds limit, bounds(schema, "minItems", "maxItems", kMostRepeats, path));
    Rule item = json_.value;
    if (schema.contains("items")) {
      TS_TRY(item, rule_of(schema["items"], path + "/items"));
    }
    const Node inside = call(grammar_.literal(from, "["), json_.blank);
    const Node closing = grammar_.add_node();
    if (limit.least == 0) grammar_.free(inside, closing);
    if (limit.most != 0) {
      // before[i]: i items are read, the next one begins here.
      Node before = inside;
      const std::int64_t counted = limit.most ? *limit.most : std::max<std::int64_t>(limit.least, 1);
      for (std::int64_t i = 1; i <= counted; ++i) {
        const Node after = call(before, item);
        if (i >= limit.least) grammar_.call(after, json_.blank, closing);
        const bool is_last = i == counted;
        if (is_last && limit.most) break;
        const Node next = call(grammar_.literal(after, ","), json_.blank);
        if (is_last) {
          grammar_.call(next, item, after);
        } else {
          before = next;
        }
      }
    }
    return grammar_.literal(closing, "]");
  }

  Result<Node> add_object(const Json& schema, Node from, const std::string& path) {
    const Json none = Json::object();
    const Json& properties = schema.contains("properties") ? schema["properties"] : none;
    if (!properties.is_object()) {
      return Error{ErrorKind::kInvalidArgument, path + "/properties", "'properties' must be an object."};
    }
    std::set<std::string> required;
    if (schema.contains("required")) {
      if (!schema["required"].is_array()) {
        return Error{ErrorKind::kInvalidArgument, path + "/required",
                     "'required' must be an array of strings."};
      }
      for (const Json& name : schema["required"]) {
        if (!name.is_string()) {
          return Error{ErrorKind::kInvalidArgument, path + "/required",
                       "'required' must be an array of strings."};
        }
        if (!properties.contains(name.get<std::string>())) {
          return refuse(path + "/required", "'" + name.get<std::string>().substr(0, 60) +
                                                "' is required, but 'properties' does not declare it.");
        }
        required.insert(name.get<std::string>());
      }
    }
    std::optional<Rule> extra;  // what other properties hold
    if (schema.contains("additionalProperties")) {
      const Json& more = schema["additionalProperties"];
      if (more != false) {
        TS_TRY(extra, rule_of(more, path + "/additionalProperties"));
      }
    } else if (properties.empty()) {
      return call(from, json_.object);
    }

    // Two tracks through the properties: `first` while none is written yet, `later` when a comma is due.
    Node first = call(grammar_.literal(from, "{"), json_.blank);
    Node later = grammar_.add_node();
    for (const auto& [name, property] : properties.items()) {
      const Node written = grammar_.add_node();
      const Node key = grammar_.add_node();
      grammar_.free(first, key);
      grammar_.free(call(grammar_.literal(later, ","), json_.blank), key);
      const Node value = call(grammar_.literal(key, Json(name).dump() + ":"), json_.blank);
      TS_TRY(const Node to, add(property, value, path + "/properties/" + name));
      grammar_.free(to, written);
      if (!required.contains(name)) {
        grammar_.free(later, written);
      } else {
        first = grammar_.add_node();  // unreachable from here on
      }
      later = written;
    }
    if (extra) {
      const Node key = grammar_.add_node();
      grammar_.free(first, key);
      grammar_.free(call(grammar_.literal(later, ","), json_.blank), key);
      const Node colon = grammar_.add_node();
      add_other_key(properties, key, colon);
      const Node value = call(grammar_.literal(colon, ":"), json_.blank);
      grammar_.call(value, *extra, later);
    }
    const Node closing = call(later, json_.blank);
    grammar_.free(first, closing);
    return grammar_.literal(closing, "}");
  }

  // A key that is none of the declared ones, written without escapes (which could spell a declared one).
  void add_other_key(const Json& properties, Node from, Node to) {
    struct Branch {
      Node node;
      std::map<std::uint8_t, std::size_t> next;
      bool is_name = false;
    };
    std::vector<Branch> tree;
    tree.push_back({grammar_.literal(from, "\""), {}});
    for (const auto& [name, property] : properties.items()) {
      std::size_t at = 0;
      for (const char c : name) {
        const auto byte = static_cast<std::uint8_t>(c);
        if (byte < 0x20 || byte == '"' || byte == '\\') {
          at = SIZE_MAX;  // cannot be spelled without escapes
          break;
        }
        if (!tree[at].next.contains(byte)) {
          const std::size_t fresh = tree.size();
          tree.push_back({grammar_.add_node(), {}});
          tree[at].next[byte] = fresh;
        }
        at = tree[at].next[byte];
      }
      if (at != SIZE_MAX) tree[at].is_name = true;
    }
    const Node free_text = grammar_.add_node();
    add_plain_character(grammar_, free_text, free_text);
    grammar_.bytes(free_text, '"', '"', to);
    for (const Branch& branch : tree) {
      if (!branch.is_name) grammar_.bytes(branch.node, '"', '"', to);
      // Only ASCII leaves the tree: it may be in the middle of a character, which must not be broken off.
      int low = 0x20;
      const auto leave = [&](int high) {
        if (low <= high) {
          grammar_.bytes(branch.node, static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high),
                         free_text);
        }
      };
      for (int byte = 0x20; byte < 0x7f; ++byte) {
        if (byte != '"' && byte != '\\' && !branch.next.contains(static_cast<std::uint8_t>(byte))) continue;
        leave(byte - 1);
        low = byte + 1;
      }
      leave(0x7e);
      for (const auto& [byte, next] : branch.next) grammar_.bytes(branch.node, byte, byte, tree[next].node);
    }
  }

  Node call(Node from, Rule rule) {
    const Node to = grammar_.add_node();
    grammar_.call(from, rule, to);
    return to;
  }

  const Json& root_;
  ByteGrammar grammar_;
  JsonRules json_;
  std::map<const Json*, Rule> rules_;  // by place in the schema, which does not move
  int depth_ = 0;
};

}  // namespace

Result<ByteGrammar> compile_schema(const Json& schema) { return Compiler(schema).run(); }

ByteGrammar any_json_object() {
  ByteGrammar grammar;
  grammar.root = add_json_rules(grammar).object;
  return grammar;
}

}  // namespace tessera
