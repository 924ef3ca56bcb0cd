#include "server/protocol/fields.h"

#include <cmath>

#include "server/protocol/json_writer.h"

namespace tessera {

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      if (text.size() > 40) return "a string of " + std::to_string(text.size()) + " bytes";
      std::string out = "the string ";
      append_json_string(out, text);
      return out;
    }
    default:
      return "the number " + value.dump();
  }
}

Fields::Fields(const Json& object, ErrorSlot& slot, std::string path)
    : object_(object), slot_(slot), path_(std::move(path)) {
  if (!object.is_object()) {
    slot_.set(bad_request(path_,
                          (path_.empty() ? std::string("The body") : "'" + path_ + "'") +
                              " must be an object, not " + describe(object) + ".",
                          "invalid_type"));
  }
}

const Json* Fields::find(std::string_view name) const {
  if (!object_.is_object()) return nullptr;
  for (const auto& [key, value] : object_.get_ref<const Json::object_t&>()) {
    if (key == name) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

void Fields::refuse(std::string_view name, std::string message, std::string code) {
  slot_.set(bad_request(path_of(name), std::move(message), std::move(code)));
}

void Fields::refuse_type(std::string_view name, std::string_view wanted, const Json& found) {
  refuse(name, "'" + path_of(name) + "' must be " + std::string(wanted) + ", not " + describe(found) + ".",
         "invalid_type");
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    refuse_type(name, "true or false", *value);
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto out_of_range = [&] {
    refuse(name,
           "'" + path_of(name) + "' must be from " + std::to_string(low) + " to " + std::to_string(high) +
               ", not " + value->dump() + ".",
           "invalid_value");
    return std::nullopt;
  };
  std::int64_t out = 0;
  if (value->is_number_unsigned()) {
    if (value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) return out_of_range();
    out = value->get<std::int64_t>();
  } else if (value->is_number_integer()) {
    out = value->get<std::int64_t>();
  } else if (value->is_number_float()) {  // 5.0 is what some languages write for 5
    const double exact = value->get<double>();
    if (!(std::abs(exact) < 9e15)) return out_of_range();
    if (exact != std::floor(exact)) {
      refuse_type(name, "an integer", *value);
      return std::nullopt;
    }
    out = static_cast<std::int64_t>(exact);
  } else {
    refuse_type(name, "an integer", *value);
    return std::nullopt;
  }
  if (out < low || out > high) return out_of_range();
  return out;
}

std::optional<double> Fields::number(std::string_view name, double low, double high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    refuse_type(name, "a number", *value);
    return std::nullopt;
  }
  const double out = value->get<double>();
  if (!(out >= low && out <= high)) {
    std::string message = "'" + path_of(name) + "' must be from ";
    append_json_number(message, low);
    message += " to ";
    append_json_number(message, high);
    refuse(name, message + ", not " + value->dump() + ".", "invalid_value");
    return std::nullopt;
  }
  return out;
}

std::optional<std::string> Fields::string(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    refuse_type(name, "a string", *value);
    return std::nullopt;
  }
  return value->get<std::string>();
}

const Json* Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) {
    refuse_type(name, "an object", *value);
    return nullptr;
  }
  return value;
}

const Json* Fields::array(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) {
    refuse_type(name, "an array", *value);
    return nullptr;
  }
  return value;
}

}  // namespace tessera
