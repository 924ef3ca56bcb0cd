// Changes a plan's text in place: comments, order and layout of everything else stay. toml++ says where
// things stand; bytes are cut and pasted here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::stack {

// Each edit is read again and compared with the change that was meant; a layout that cannot be edited in
// place (inline tables for buckets, dotted keys) is refused and the text stays.
class PlanEditor {
 public:
  explicit PlanEditor(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }

  // Sets a text value of a table, e.g. ("base", "target", "…"); a key that is missing is put below the
  // table's header.
  Result<void> set(std::string_view table, std::string_view key, std::string_view value);
  // Adds texts to a list of a bucket ("take", "pins", "needs"); a list that is missing is made. Items that
  // begin with "{ " are inline tables and stand as they are.
  Result<void> add_to_list(std::string_view bucket, std::string_view key,
                           const std::vector<std::string>& items);
  // Removes those items of a bucket's list that are texts equal to one of `items`; the list stays, maybe
  // empty.
  Result<void> remove_from_list(std::string_view bucket, std::string_view key,
                                const std::vector<std::string>& items);
  // Removes a key of a bucket, with its line; absent is fine.
  Result<void> remove_key(std::string_view bucket, std::string_view key);
  // Puts text behind everything else, after an empty line.
  void append(std::string_view block);

 private:
  // `expected` is a toml::table, which this header does not show.
  Result<void> accept(std::string edited, const void* expected);

  std::string text_;
};

// A TOML basic string with its quotes.
std::string toml_quoted(std::string_view bytes);

}  // namespace tessera::stack
