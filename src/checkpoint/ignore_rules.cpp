#include "checkpoint/ignore_rules.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace tessera {
namespace {

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchFree {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct ContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// A config is foreign: a pattern must not be able to hang the loader. Names have some 60 characters, so an
// honest pattern needs a few hundred steps.
constexpr std::uint32_t kMostSteps = 100'000;

PCRE2_SPTR text_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct IgnoreRules::Rule {
  RuleMatch report;
  std::unique_ptr<pcre2_code, CodeFree> pattern;  // null: a plain name
  std::unique_ptr<pcre2_match_data, MatchFree> match;
  std::unique_ptr<pcre2_match_context, ContextFree> limits;

  bool matches(std::string_view name) const {
    if (pattern) {
      return pcre2_match(pattern.get(), text_of(name), name.size(), 0, 0, match.get(), limits.get()) >= 0;
    }
    const std::string& rule = report.rule;  // the module, or one that holds it
    return name.starts_with(rule) && (name.size() == rule.size() || name[rule.size()] == '.');
  }
};

IgnoreRules::IgnoreRules() = default;
IgnoreRules::IgnoreRules(IgnoreRules&&) noexcept = default;
IgnoreRules& IgnoreRules::operator=(IgnoreRules&&) noexcept = default;
IgnoreRules::~IgnoreRules() = default;

Result<IgnoreRules> IgnoreRules::compile(const std::vector<std::string>& rules, std::string_view where) {
  IgnoreRules compiled;
  for (const std::string& text : rules) {
    Rule rule;
    rule.report.rule = text;
    if (text.starts_with("re:")) {
      const std::string_view pattern = std::string_view(text).substr(3);
      int code = 0;
      PCRE2_SIZE at = 0;
      rule.pattern.reset(
          pcre2_compile(text_of(pattern), pattern.size(), PCRE2_ANCHORED, &code, &at, nullptr));
      if (!rule.pattern) {
        PCRE2_UCHAR message[128] = {};
        pcre2_get_error_message(code, message, sizeof message);
        return Error{ErrorKind::kInvalidArgument, std::string(where),
                     "The ignore rule \"" + text +
                         "\" is no regular expression: " + reinterpret_cast<const char*>(message) +
                         " at character " + std::to_string(at + 3) + "."};
      }
      (void)pcre2_jit_compile(rule.pattern.get(), PCRE2_JIT_COMPLETE);  // slower without, but right
      rule.match.reset(pcre2_match_data_create_from_pattern(rule.pattern.get(), nullptr));
      rule.limits.reset(pcre2_match_context_create(nullptr));
      pcre2_set_match_limit(rule.limits.get(), kMostSteps);
    }
    compiled.rules_.push_back(std::move(rule));
  }
  return compiled;
}

bool IgnoreRules::match(std::string_view canonical, std::string_view as_stored) {
  bool any = false;
  for (Rule& rule : rules_) {
    if (!rule.matches(canonical) && (canonical == as_stored || !rule.matches(as_stored))) continue;
    any = true;
    if (rule.report.modules++ == 0) rule.report.example = canonical;
  }
  return any;
}

std::vector<RuleMatch> IgnoreRules::report() const {
  std::vector<RuleMatch> matches;
  for (const Rule& rule : rules_) matches.push_back(rule.report);
  return matches;
}

}  // namespace tessera
