// Reads JSON from left to right where it lies, without building anything: for the two kinds of file that list
// hundreds of thousands of tensors. Not for configs; these go through nlohmann/json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// Every take_… skips white space first, and either takes what it is named for or returns nothing, sets
// problem() and makes every later take_… fail too, so that callers may look once at the end of a step.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  struct String {
    std::string_view raw;  // between the quotes
    bool escaped = false;  // holds backslashes: go through json_unescaped()
  };

  bool take(char token, const char* expected);  // one of { } [ ] : ,
  bool take_if(char token);                     // no problem when it is another
  std::optional<String> take_string(const char* expected);
  std::optional<std::int64_t> take_integer(const char* expected);  // 0 to 2^63 - 1, no sign, no fraction
  bool skip_value(int depth = 0);  // any value; numbers and words are not looked at closely
  bool at_end();                   // only white space is left
  bool fail(std::string problem);

  bool failed() const { return !problem_.empty(); }
  // "byte 131: expected ':' after a tensor's name, found '}'"
  const std::string& problem() const { return problem_; }

 private:
  void skip_space();

  std::string_view text_;
  std::size_t at_ = 0;
  std::string problem_;
};

}  // namespace tessera
