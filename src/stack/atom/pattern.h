// A regular expression (PCRE2) of a plan, matched against single lines with bounded effort.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::stack {

class Pattern {
 public:
  static Result<Pattern> compile(std::string_view expression);

  // Found anywhere in `line`. A line that exceeds the match limit counts as no match.
  bool found_in(std::string_view line) const;

 private:
  struct State;
  explicit Pattern(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State>
      state_;  // shared: compiled code is immutable, and claims that hold patterns are copied
};

}  // namespace tessera::stack
