#include "stack/plan/toml_table.h"

#include <algorithm>
#include <numeric>

namespace tessera::stack {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string type_of(const toml::node& node) {
  std::ostringstream out;
  out << node.type();
  return out.str();
}

}  // namespace

std::optional<std::string> nearest_key(const std::string& key, const std::set<std::string>& known) {
  std::optional<std::string> best;
  std::size_t least = std::max<std::size_t>(2, key.size() / 3) + 1;
  if (key.size() > 64) return best;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(key, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

Result<void> TomlTable::text(const std::string& key, std::string& out) {
  const toml::node* node = get(key);
  if (node == nullptr) return {};
  const auto* value = node->as_string();
  if (value == nullptr)
    return error(*node, "'" + key + "' must be text in quotes, found " + type_of(*node) + ".");
  out = value->get();
  return {};
}

Result<void> TomlTable::required_text(const std::string& key, std::string& out) {
  TS_TRY(text(key, out));
  if (out.empty()) return error(table_, name_ + " needs a '" + key + "'.");
  return {};
}

Result<void> TomlTable::flag(const std::string& key, bool& out) {
  const toml::node* node = get(key);
  if (node == nullptr) return {};
  const auto* value = node->as_boolean();
  if (value == nullptr)
    return error(*node, "'" + key + "' must be true or false, found " + type_of(*node) + ".");
  out = value->get();
  return {};
}

Result<void> TomlTable::number(const std::string& key, std::int32_t& out) {
  const toml::node* node = get(key);
  if (node == nullptr) return {};
  const auto* value = node->as_integer();
  if (value == nullptr || value->get() < 0 || value->get() > 1'000'000'000) {
    return error(*node, "'" + key + "' must be a whole number from 0 to 1,000,000,000.");
  }
  out = static_cast<std::int32_t>(value->get());
  return {};
}

Result<void> TomlTable::texts(const std::string& key, std::vector<std::string>& out) {
  const toml::node* node = get(key);
  if (node == nullptr) return {};
  const auto* array = node->as_array();
  if (array == nullptr)
    return error(*node, "'" + key + "' must be a list of texts, found " + type_of(*node) + ".");
  for (const toml::node& item : *array) {
    const auto* value = item.as_string();
    if (value == nullptr)
      return error(item, "'" + key + "' may hold texts only, found " + type_of(item) + ".");
    out.push_back(value->get());
  }
  return {};
}

Result<std::vector<TomlTable>> TomlTable::tables(const std::string& key) {
  std::vector<TomlTable> found;
  const toml::node* node = get(key);
  if (node == nullptr) return found;
  const auto* array = node->as_array();
  if (array == nullptr || (!array->empty() && !array->is_homogeneous<toml::table>())) {
    return error(*node, "'" + key + "' is written as a list of tables, each under its own [[" + key + "]].");
  }
  for (const toml::node& item : *array) found.emplace_back(*item.as_table(), file_, "[[" + key + "]]");
  return found;
}

Result<std::optional<TomlTable>> TomlTable::table(const std::string& key) {
  const toml::node* node = get(key);
  if (node == nullptr) return std::optional<TomlTable>();
  const auto* value = node->as_table();
  if (value == nullptr) return error(*node, "'" + key + "' must be a table, written [" + key + "].");
  return std::optional<TomlTable>(TomlTable(*value, file_, "[" + key + "]"));
}

Result<void> TomlTable::refuse_unknown() const {
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (known_.contains(name)) continue;
    const auto suggestion = nearest_key(name, known_);
    return error(node, name_ + " has no key '" + name + "'" +
                           (suggestion ? "; did you mean '" + *suggestion + "'?" : "."));
  }
  return {};
}

}  // namespace tessera::stack
