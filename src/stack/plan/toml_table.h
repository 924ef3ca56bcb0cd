// A table of a TOML document that is read key by key; what nobody asked for is an error with a suggestion.
// For .cpp files of this folder only (toml++ is heavy).
#pragma once

#include <toml++/toml.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::stack {

// The key among `known` that `key` was probably meant to be, or nothing.
std::optional<std::string> nearest_key(const std::string& key, const std::set<std::string>& known);

class TomlTable {
 public:
  TomlTable(const toml::table& table, std::string file, std::string name)
      : table_(table), file_(std::move(file)), name_(std::move(name)) {}

  std::int32_t line() const { return static_cast<std::int32_t>(table_.source().begin.line); }
  std::string where(const toml::node& node) const {
    return file_ + ":" + std::to_string(node.source().begin.line);
  }
  std::string where() const { return where(table_); }
  Error error(const toml::node& node, std::string what) const {
    return {ErrorKind::kInvalidArgument, where(node), std::move(what)};
  }

  const toml::node* get(const std::string& key) {
    known_.insert(key);
    return table_.get(key);
  }
  // Into `out`, which keeps its value when the key is absent.
  Result<void> text(const std::string& key, std::string& out);
  Result<void> required_text(const std::string& key, std::string& out);
  Result<void> flag(const std::string& key, bool& out);
  Result<void> number(const std::string& key, std::int32_t& out);
  Result<void> texts(const std::string& key, std::vector<std::string>& out);
  // The tables of `key`, which is an array of tables or absent.
  Result<std::vector<TomlTable>> tables(const std::string& key);
  Result<std::optional<TomlTable>> table(const std::string& key);
  // Call last.
  Result<void> refuse_unknown() const;

 private:
  const toml::table& table_;
  std::string file_;
  std::string name_;  // "[[bucket]]", for messages
  std::set<std::string> known_{};
};

}  // namespace tessera::stack
