#define PCRE2_CODE_UNIT_WIDTH 8
#include "stack/atom/pattern.h"

#include <pcre2.h>

namespace tessera::stack {

struct Pattern::State {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  ~State() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

Result<Pattern> Pattern::compile(std::string_view expression) {
  auto state = std::make_shared<State>();
  int status = 0;
  PCRE2_SIZE at = 0;
  state->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                              PCRE2_NEVER_BACKSLASH_C, &status, &at, nullptr);
  if (state->code == nullptr) {
    unsigned char text[200];
    pcre2_get_error_message(status, text, sizeof text);
    return Error{ErrorKind::kInvalidArgument, "/" + std::string(expression) + "/",
                 "At offset " + std::to_string(at) +
                     " this is no regular expression: " + reinterpret_cast<char*>(text) + "."};
  }
  state->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(state->limits, 100'000);
  pcre2_set_depth_limit(state->limits, 1'000);
  return Pattern(std::move(state));
}

bool Pattern::found_in(std::string_view line) const {
  pcre2_match_data* data = pcre2_match_data_create_from_pattern(state_->code, nullptr);
  const int status = pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(line.data()), line.size(), 0, 0,
                                 data, state_->limits);
  pcre2_match_data_free(data);
  return status >= 0;
}

}  // namespace tessera::stack
