// Typed reading of one JSON object of a config: every value has a range, and the first one that is missing or
// out of range becomes the error. Only for .cpp files (nlohmann/json.hpp is slow to compile).
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera {

struct IntegerRange {
  std::int64_t least = 1;
  std::int64_t most = std::int64_t{1} << 24;
};
struct NumberRange {
  double least = 0;
  double most = 1e30;
};

// Reads go on after a failure and give the fallback, or the least value in range; callers look at error()
// before they use anything. A key that is null counts as absent, as Hugging Face has it.
class ConfigReader {
 public:
  using Json = nlohmann::json;

  ConfigReader(const Json& object, std::string where)
      : object_(&object), where_(std::move(where)), error_(std::make_shared<std::optional<Error>>()) {}

  // Part of the same file, whose failures are this reader's; `key` must hold an object.
  ConfigReader inside(const std::string& key) const {
    ConfigReader part = *this;
    part.object_ = &(*object_)[key];
    part.path_ += key + ".";
    return part;
  }

  const std::optional<Error>& error() const { return *error_; }
  const std::string& where() const { return where_; }
  const Json* find(const std::string& key) const {
    const auto at = object_->find(key);
    return at == object_->end() || at->is_null() ? nullptr : &*at;
  }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  bool has_object(const std::string& key) const { return has(key) && find(key)->is_object(); }

  std::int64_t integer(const std::string& key, IntegerRange range = {},
                       std::optional<std::int64_t> fallback = std::nullopt) {
    const Json* value = find(key);
    if (value == nullptr) {
      if (!fallback) missing(key);
      return fallback.value_or(range.least);
    }
    std::optional<std::int64_t> number;
    if (value->is_number_unsigned() && value->get<std::uint64_t>() <= std::uint64_t{1} << 62) {
      number = value->get<std::int64_t>();
    } else if (value->is_number_integer() && !value->is_number_unsigned()) {
      number = value->get<std::int64_t>();
    }
    if (number && *number >= range.least && *number <= range.most) return *number;
    found(key, *value,
          "a whole number from " + std::to_string(range.least) + " to " + std::to_string(range.most));
    return range.least;
  }

  double number(const std::string& key, NumberRange range = {},
                std::optional<double> fallback = std::nullopt) {
    const Json* value = find(key);
    if (value == nullptr) {
      if (!fallback) missing(key);
      return fallback.value_or(range.least);
    }
    if (value->is_number()) {
      const double number = value->get<double>();
      if (number >= range.least && number <= range.most) return number;
    }
    found(key, *value, "a number from " + Json(range.least).dump() + " to " + Json(range.most).dump());
    return range.least;
  }

  bool flag(const std::string& key, bool fallback) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_boolean()) return value->get<bool>();
    found(key, *value, "true or false");
    return fallback;
  }

  std::string text(const std::string& key, std::string fallback) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_string()) return value->get<std::string>();
    found(key, *value, "a string");
    return fallback;
  }

  std::vector<std::string> texts(const std::string& key) {
    std::vector<std::string> list;
    const Json* value = find(key);
    if (value == nullptr) return list;
    if (value->is_array()) {
      for (const Json& item : *value) {
        if (item.is_string()) list.push_back(item.get<std::string>());
      }
      if (list.size() == value->size()) return list;
    }
    found(key, *value, "a list of strings");
    return {};
  }

  std::vector<std::int64_t> integers(const std::string& key, IntegerRange range) {
    std::vector<std::int64_t> list;
    const Json* value = find(key);
    if (value == nullptr) return list;
    if (value->is_array()) {
      for (const Json& item : *value) {
        if (!item.is_number_integer()) continue;
        const auto number = item.get<std::int64_t>();
        if (number >= range.least && number <= range.most) list.push_back(number);
      }
      if (list.size() == value->size()) return list;
    }
    found(
        key, *value,
        "a list of whole numbers from " + std::to_string(range.least) + " to " + std::to_string(range.most));
    return {};
  }

  // Refuses a well-formed value that we cannot compute with.
  void unsupported(const std::string& key, const std::string& supported) {
    const Json* value = find(key);
    fail(ErrorKind::kUnsupported,
         path_ + key + " is " + (value ? shown(*value) : "absent") + "; supported: " + supported + ".");
  }
  void fail(ErrorKind kind, std::string what) {
    if (!error_->has_value()) *error_ = Error{kind, where_, std::move(what)};
  }

  // A value as a message shows it: one line, not too long, whatever bytes it holds.
  static std::string shown(const Json& value) {
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 80) text = text.substr(0, 77) + "...";
    return text;
  }

 private:
  void missing(const std::string& key) { fail(ErrorKind::kInvalidArgument, path_ + key + " is missing."); }
  void found(const std::string& key, const Json& value, const std::string& expected) {
    fail(ErrorKind::kInvalidArgument, path_ + key + " is " + shown(value) + "; expected " + expected + ".");
  }

  const Json* object_;
  std::string where_;
  std::string path_;  // "text_config.", for messages
  std::shared_ptr<std::optional<Error>>
      error_;  // shared with the readers of parts: one file, one first error
};

}  // namespace tessera
