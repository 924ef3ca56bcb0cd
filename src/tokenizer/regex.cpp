#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>

#include "tokenizer/regex_dialect.h"

namespace tessera {
namespace {

// How often the engine may step within one match. The patterns of real tokenizers need a few steps a
// character, and the longest honest match is one run of equal characters.
constexpr std::uint32_t kMatchLimit = 100'000'000;
constexpr std::size_t kJitStackBytes =
    32U * 1024 * 1024;  // address space; pages are touched only when needed

std::string text_of(int code) {
  unsigned char buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  pcre2_code* compiled = nullptr;
  ~Code() { pcre2_code_free(compiled); }
};

struct Regex::Scratch {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;  // made when the 32 KiB on our own stack were not enough
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

void Regex::Freed::operator()(Code* code) const { delete code; }
void Regex::Freed::operator()(Scratch* scratch) const { delete scratch; }

Result<Regex> Regex::compile(const std::string& pattern) {
  TS_TRY(const std::string translated, translate_to_pcre2(pattern));
  return compile_translated(translated, pattern);
}

Result<Regex> Regex::compile_literal(const std::string& literal) {
  std::string escaped;
  for (const char c : literal) {
    if (static_cast<unsigned char>(c) < 0x80 &&
        std::string_view("\\^$.[]|()?*+{}-#").find(c) != std::string_view::npos) {
      escaped += '\\';
    }
    escaped += c;
  }
  return compile_translated(escaped, literal);
}

Result<Regex> Regex::compile_translated(const std::string& translated, const std::string& shown) {
  int code = 0;
  std::size_t offset = 0;
  Regex regex;
  regex.code_.reset(new Code);
  regex.code_->compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  if (regex.code_->compiled == nullptr) {
    return Error{ErrorKind::kUnsupported, "pattern " + shown,
                 text_of(code) + " (at byte " + std::to_string(offset) + " of the translated pattern " +
                     translated + ")."};
  }
  // Without a just-in-time compiler (refused by the kernel, unknown processor) the interpreter runs, only
  // slower.
  (void)pcre2_jit_compile(regex.code_->compiled, PCRE2_JIT_COMPLETE);
  return regex;
}

Regex::Matcher Regex::start(std::string_view) const {
  Matcher scratch(new Scratch);
  scratch->data = pcre2_match_data_create(1, nullptr);
  scratch->context = pcre2_match_context_create(nullptr);
  TS_CHECK(scratch->data != nullptr && scratch->context != nullptr);
  pcre2_set_match_limit(scratch->context, kMatchLimit);
  return scratch;
}

Result<Regex::Span> Regex::next(const Matcher& scratch, std::string_view text, std::size_t from) const {
  std::uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  for (;;) {
    const int code = pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                 from, options, scratch->data, scratch->context);
    if (code == PCRE2_ERROR_NOMATCH) return Span{};
    if (code == PCRE2_ERROR_JIT_STACKLIMIT && scratch->stack == nullptr) {
      scratch->stack = pcre2_jit_stack_create(32U * 1024, kJitStackBytes, nullptr);
      TS_CHECK(scratch->stack != nullptr);
      pcre2_jit_stack_assign(scratch->context, nullptr, scratch->stack);
      continue;
    }
    if (code < 0) {
      return Error{ErrorKind::kTooLarge, "byte " + std::to_string(from),
                   "The tokenizer's pattern cannot be matched against this text: " + text_of(code) + "."};
    }
    const std::size_t* ends = pcre2_get_ovector_pointer(scratch->data);
    return Span{ends[0], ends[1]};
  }
}

}  // namespace tessera
