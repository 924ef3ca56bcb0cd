#include "tokenizer/tool_typescript.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tokenizer/jinja/json_dump.h"
#include "tokenizer/jinja/value.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kIndent = "  ";

Error no_form(const std::string& what) { return {ErrorKind::kUnsupported, "tools", what}; }

// Python's str() of a JSON value.
std::string python_text(const Json& value) { return jinja::to_text(jinja::from_json(value)).bytes(); }

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// As Python's `if value`.
bool is_truthy(const Json& value) { return jinja::from_json(value).truth(); }

std::string as_comment(const std::string& description, const std::string& indent) {
  std::string text;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = std::min(description.find('\n', begin), description.size());
    if (end > begin) text += indent + "// " + description.substr(begin, end - begin);
    if (end == description.size()) return text;
    text += '\n';
    begin = end + 1;
  }
}

// A function's schemas, with the definitions met so far.
class FunctionWriter {
 public:
  // The type of `schema`, for a place indented by `indent`.
  Result<std::string> type(const Json& schema, const std::string& indent) {
    if (schema.is_boolean()) return std::string(schema.get<bool>() ? "any" : "null");
    if (!schema.is_object()) return no_form("A schema is neither an object nor a boolean.");
    if (const Json* ref = find(schema, "$ref")) return reference(*ref);
    if (const Json* any_of = find(schema, "anyOf")) {
      if (!any_of->is_array()) return no_form("anyOf is not an array.");
      std::string joined;
      for (const Json& option : *any_of) {
        TS_TRY(const std::string one, type(option, indent));
        joined += (joined.empty() ? "" : " | ") + one;
      }
      return joined;
    }
    if (const Json* values = find(schema, "enum")) return enumeration(*values, find(schema, "type"));
    const Json* kind = find(schema, "type");
    if (kind == nullptr) {
      if (schema.empty()) return std::string("any");
      return no_form("A schema has none of $ref, anyOf, enum and type.");
    }
    if (kind->is_array()) return type_list(*kind);
    if (!kind->is_string()) return no_form("A type is neither a string nor an array.");
    if (*kind == "object") return object(schema, indent);
    if (*kind == "array") return array(schema, indent);
    return *kind == "integer" ? std::string("number") : kind->get<std::string>();
  }

  Result<std::string> object(const Json& schema, const std::string& indent) {
    if (schema.empty()) return std::string("{}");
    TS_TRY(register_definitions(schema));
    std::vector<std::string> fields;
    if (const Json* properties = find(schema, "properties")) {
      if (!properties->is_object()) return no_form("properties is not an object.");
      for (const bool optional : {false, true}) {
        TS_TRY(auto some, fields_of(*properties, find(schema, "required"), indent + kIndent, optional));
        fields.insert(fields.end(), some.begin(), some.end());
      }
    }
    if (const Json* additional = find(schema, "additionalProperties");
        additional != nullptr && !additional->is_null()) {
      std::string value_type = "any";
      if (additional->is_boolean()) {
        value_type = additional->get<bool>() ? "any" : "never";
      } else if (additional->is_object()) {
        TS_TRY(value_type, type(*additional, indent + kIndent));
      } else {
        return no_form("additionalProperties is neither an object nor a boolean.");
      }
      fields.push_back(indent + kIndent + "[k: string]: " + value_type);
    }
    if (fields.empty()) return std::string("{}");
    return "{\n" + joined(fields) + "\n" + indent + "}";
  }

  Result<std::string> function(const Json& declaration) {
    const Json* given = find(declaration, "parameters");
    const Json parameters = given == nullptr || !is_truthy(*given) ? Json::object() : *given;
    if (!parameters.is_object()) return no_form("parameters is not an object.");
    TS_TRY(std::string parameter_type, object(parameters, ""));
    std::string text;
    if (refers_to_root_) {
      TS_TRY(const auto fields, fields_of(parameters.value("properties", Json::object()),
                                          find(parameters, "required"), kIndent, std::nullopt));
      text +=
          "interface parameters {" + (fields.empty() ? std::string() : "\n" + joined(fields) + "\n") + "}\n";
      parameter_type = "parameters";
    }
    // Only those met in the parameters: definitions inside of definitions can be referred to, but are not
    // written.
    const std::vector<std::pair<std::string, const Json*>> met = definitions_;
    for (const auto& [name, schema] : met) {
      TS_TRY(const std::string definition, type(*schema, ""));
      const Json* description = find(*schema, "description");
      if (description != nullptr && is_truthy(*description)) {
        TS_TRY(const std::string comment, comment_of(*description, ""));
        text += comment + "\n";
      }
      text += "interface " + name + " " + definition + "\n";
    }
    if (const Json* description = find(declaration, "description");
        description != nullptr && is_truthy(*description)) {
      TS_TRY(const std::string comment, comment_of(*description, ""));
      if (!comment.empty()) text += comment + "\n";
    }
    const Json* name = find(declaration, "name");
    return text + "type " + (name == nullptr ? "function" : python_text(*name)) + " = (_: " + parameter_type +
           ") => any;";
  }

 private:
  static std::string joined(const std::vector<std::string>& fields) {
    std::string text;
    for (const std::string& field : fields) text += (text.empty() ? "" : ",\n") + field;
    return text;
  }

  static Result<std::string> comment_of(const Json& description, const std::string& indent) {
    if (!description.is_string()) return no_form("A description is not a string.");
    return as_comment(description.get<std::string>(), indent);
  }

  Result<void> register_definitions(const Json& schema) {
    const Json* definitions = find(schema, "$defs");
    if (definitions == nullptr || !is_truthy(*definitions)) return {};
    if (!definitions->is_object()) return no_form("$defs is not an object.");
    for (const auto& [name, definition] : definitions->items()) {
      const auto known = std::ranges::find(definitions_, name, &std::pair<std::string, const Json*>::first);
      if (known != definitions_.end()) {
        known->second = &definition;
      } else {
        definitions_.emplace_back(name, &definition);
      }
    }
    return {};
  }

  Result<std::string> reference(const Json& ref) {
    if (!ref.is_string()) return no_form("$ref is not a string.");
    const auto target = ref.get<std::string>();
    if (target == "#") {
      refers_to_root_ = true;
      return std::string("parameters");
    }
    if (!target.starts_with("#/$defs/"))
      return no_form("The reference " + target + " is not of the form #/$defs/NAME.");
    const std::string name = target.substr(target.rfind('/') + 1);
    const auto known = std::ranges::find(definitions_, name, &std::pair<std::string, const Json*>::first);
    if (known == definitions_.end()) return no_form("The reference " + target + " leads nowhere.");
    if (!known->second->is_object()) return no_form("The definition " + name + " is not an object.");
    return name;
  }

  // `optional`: only the fields that are, or are not; absent: all, in their order. Properties come sorted.
  Result<std::vector<std::string>> fields_of(const Json& properties, const Json* required,
                                             const std::string& indent, std::optional<bool> optional) {
    std::vector<std::string> fields;
    for (const auto& [name, schema] : properties.items()) {
      bool is_required = false;
      if (required != nullptr && required->is_array()) {
        is_required = std::ranges::find(*required, Json(name)) != required->end();
      } else if (required != nullptr) {
        return no_form("required is not an array.");
      }
      if (optional && *optional == is_required) continue;
      TS_TRY(const std::string field_type, type(schema, indent));
      TS_TRY(std::string text, comments(schema, indent));
      if (const Json* fallback = find(schema, "default"); fallback != nullptr && !fallback->is_null()) {
        const bool plain = fallback->is_number() || fallback->is_boolean();
        text += indent + "// Default: " +
                (plain ? python_text(*fallback) : jinja::dump_json(jinja::from_json(*fallback), {}).bytes()) +
                "\n";
      }
      fields.push_back(text + indent + name + (is_required ? "" : "?") + ": " + field_type);
    }
    return fields;
  }

  // Description and constraints, a line each; empty when there are none.
  static Result<std::string> comments(const Json& schema, const std::string& indent) {
    if (!schema.is_object()) return std::string();
    std::string text;
    if (const Json* description = find(schema, "description");
        description != nullptr && is_truthy(*description)) {
      TS_TRY(const std::string comment, comment_of(*description, indent));
      text += comment + "\n";
    }
    const Json* kind = find(schema, "type");
    const bool composite = find(schema, "$ref") != nullptr || find(schema, "anyOf") != nullptr ||
                           find(schema, "enum") != nullptr;
    if (composite || kind == nullptr || !kind->is_string()) return text;
    std::vector<const char*> keys;  // sorted
    if (*kind == "string") keys = {"maxLength", "minLength", "pattern"};
    if (*kind == "number" || *kind == "integer") keys = {"maximum", "minimum"};
    if (*kind == "array") keys = {"maxItems", "minItems"};
    std::string constraints;
    for (const char* key : keys) {
      if (const Json* value = find(schema, key)) {
        constraints += (constraints.empty() ? "" : ", ") + std::string(key) + ": " + python_text(*value);
      }
    }
    if (!constraints.empty()) text += indent + "// " + constraints + "\n";
    return text;
  }

  Result<std::string> array(const Json& schema, const std::string& indent) {
    const Json* items = find(schema, "items");
    if (items == nullptr || !is_truthy(*items)) return std::string("Array<any>");
    const std::string inner = indent + kIndent;
    TS_TRY(const std::string item_comments, comments(*items, inner));
    if (item_comments.empty()) {
      TS_TRY(const std::string item, type(*items, indent));
      return "Array<" + item + ">";
    }
    TS_TRY(const std::string item, type(*items, inner));
    return "Array<\n" + item_comments + inner + item + "\n" + indent + ">";
  }

  static Result<std::string> type_list(const Json& kinds) {
    static const std::map<std::string, std::string> kNames = {
        {"string", "string"}, {"number", "number"}, {"integer", "number"},  {"boolean", "boolean"},
        {"null", "null"},     {"object", "{}"},     {"array", "Array<any>"}};
    std::string joined;
    for (const Json& kind : kinds) {
      const auto name = kind.is_string() ? kNames.find(kind.get<std::string>()) : kNames.end();
      if (name == kNames.end())
        return no_form("A list of types holds " + kind.dump(-1, ' ', false, Json::error_handler_t::replace) +
                       ".");
      joined += (joined.empty() ? "" : " | ") + name->second;
    }
    return joined;
  }

  static Result<std::string> enumeration(const Json& values, const Json* kind) {
    if (!values.is_array()) return no_form("enum is not an array.");
    std::string type_name = kind != nullptr && kind->is_string() ? kind->get<std::string>() : "";
    if (kind != nullptr && kind->is_array()) {
      if (kind->size() == 2 && std::ranges::find(*kind, Json("null")) == kind->end())
        return no_form("An enum of two types.");
      if (kind->empty() || kind->size() > 2) return no_form("An enum of several types.");
      const Json& one = kind->size() == 2 && kind->at(0) == "null" ? kind->at(1) : kind->at(0);
      type_name = one.is_string() ? one.get<std::string>() : "";
    }
    std::string joined;
    for (const Json& value : values) {
      if (!value.is_null()) {
        const bool fits = (type_name == "string" && value.is_string()) ||
                          (type_name == "number" && (value.is_number() || value.is_boolean())) ||
                          (type_name == "integer" && (value.is_number_integer() || value.is_boolean())) ||
                          (type_name == "boolean" && value.is_boolean());
        const bool checked = type_name == "string" || type_name == "number" || type_name == "integer" ||
                             type_name == "boolean";
        if (checked && !fits)
          return no_form("An enum of type " + type_name + " holds a value of another type.");
      }
      joined += (joined.empty() ? "" : " | ") +
                (value.is_string() ? '"' + value.get<std::string>() + '"' : python_text(value));
    }
    return joined;
  }

  std::vector<std::pair<std::string, const Json*>>
      definitions_;  // in the order met; a later one of a name replaces it
  bool refers_to_root_ = false;
};

}  // namespace

nlohmann::ordered_json with_sorted_keys(const nlohmann::ordered_json& json) {
  if (json.is_array()) {
    Json sorted = Json::array();
    for (const Json& item : json) sorted.push_back(with_sorted_keys(item));
    return sorted;
  }
  if (!json.is_object()) return json;
  std::vector<std::pair<std::string, const Json*>> items;
  for (const auto& [key, value] : json.items()) items.emplace_back(key, &value);
  std::ranges::sort(items);
  Json::object_t sorted;  // appended to, since assigning by key would be quadratic in their number
  for (const auto& [key, value] : items) sorted.emplace_back(key, with_sorted_keys(*value));
  return sorted;
}

Result<std::string> tools_as_typescript(const nlohmann::ordered_json& tools) {
  if (!tools.is_array()) return no_form("tools is not an array.");
  const Json sorted = with_sorted_keys(tools);
  std::string functions;
  try {
    for (const Json& tool : sorted) {
      if (!tool.is_object()) return no_form("A tool is not an object.");
      const Json* kind = find(tool, "type");
      if (kind == nullptr || *kind != "function") continue;
      const Json* declaration = find(tool, "function");
      if (declaration == nullptr || !is_truthy(*declaration)) continue;
      if (!declaration->is_object()) return no_form("A function is not an object.");
      TS_TRY(const std::string text, FunctionWriter().function(*declaration));
      functions += text + "\n";
    }
  } catch (const jinja::Failure& failure) {
    return Error{failure.kind, "tools", failure.what};
  }
  if (functions.empty()) return std::string();
  return "# Tools\n\n## functions\nnamespace functions {\n" + functions + "}\n";
}

}  // namespace tessera
