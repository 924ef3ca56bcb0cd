#include "server/protocol/json_body.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// Builds the tree itself: the stock builder looks for an equal key before each insertion, which makes an
// object of a million keys quadratic.
class TreeBuilder {
 public:
  explicit TreeBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not in JSON text
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Level& level = open_.back();
    if (level.keys.size() >= limits_.keys_per_object) {
      return refuse("An object has more than " + std::to_string(limits_.keys_per_object) + " fields.");
    }
    if (!level.keys.insert(name).second) {
      error = bad_request(name, "The field '" + name + "' is given twice in one object.", "duplicate_field");
      return false;
    }
    level.key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception& reason) {
    std::string text = reason.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while …"
    if (const auto at = text.find("parse error"); at != std::string::npos) text.erase(0, at);
    return refuse("The body is not valid JSON, at byte " + std::to_string(position) + ": " +
                  text.substr(0, 300) + ".");
  }

  Json root;
  std::optional<ApiError> error;

 private:
  struct Level {
    Json* value;
    std::string key;  // of the value that comes next
    std::unordered_set<std::string> keys;
  };

  bool refuse(std::string message) {
    error = bad_request("", std::move(message), "invalid_json");
    return false;
  }

  // Children are appended to the innermost open container only, so pointers to open ones stay valid.
  Json* place(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    Level& level = open_.back();
    if (level.value->is_array()) {
      auto& items = level.value->get_ref<Json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    auto& fields = level.value->get_ref<Json::object_t&>();
    fields.push_back(Json::object_t::value_type(std::move(level.key), std::move(value)));
    return &fields.back().second;
  }
  bool add(Json value) {
    if (++values_ > limits_.values) {
      return refuse("The body holds more than " + std::to_string(limits_.values) + " values.");
    }
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= static_cast<std::size_t>(limits_.depth)) {
      return refuse("The body nests objects and arrays deeper than " + std::to_string(limits_.depth) +
                    " levels.");
    }
    if (++values_ > limits_.values) {
      return refuse("The body holds more than " + std::to_string(limits_.values) + " values.");
    }
    Json* placed = place(std::move(value));
    open_.push_back(Level{placed, {}, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  std::vector<Level> open_;
  std::size_t values_ = 0;
};

}  // namespace

ApiResult<Json> parse_json_body(std::string_view text, const JsonLimits& limits) {
  TreeBuilder builder(limits);
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root);
  if (!builder.error) builder.error = bad_request("", "The body is not valid JSON.", "invalid_json");
  return *std::move(builder.error);
}

}  // namespace tessera
