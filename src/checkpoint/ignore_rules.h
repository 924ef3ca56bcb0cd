// A quantisation config's ignore list: which rule leaves which module alone.
//
// A rule is "re:PATTERN" (a Perl regular expression that must match from the start of the name, not to its
// end), a module's exact name, or the name of a parent module. Names are tried in both spellings: canonical
// ("model.layers.…") and as the files have it ("language_model.model.layers.…"). Case counts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera {

struct RuleMatch {
  std::string rule;
  std::int64_t modules = 0;  // that matched
  std::string example;       // the first of them; empty when there is none
};

class IgnoreRules {
 public:
  // A pattern that does not compile is an error at `where`.
  static Result<IgnoreRules> compile(const std::vector<std::string>& rules, std::string_view where);
  IgnoreRules(IgnoreRules&&) noexcept;
  IgnoreRules& operator=(IgnoreRules&&) noexcept;
  ~IgnoreRules();

  // Whether any rule matches the module; counts it for every rule that does.
  bool match(std::string_view canonical, std::string_view as_stored);
  std::vector<RuleMatch> report() const;

 private:
  struct Rule;
  IgnoreRules();
  std::vector<Rule> rules_;
};

}  // namespace tessera
