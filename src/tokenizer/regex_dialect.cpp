#include "tokenizer/regex_dialect.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tessera {
namespace {

// Every character has exactly one of these, so the complement of a union of categories is the union of the
// others.
constexpr std::array<std::string_view, 30> kCategories = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

bool is_category(std::string_view name) {
  return std::ranges::any_of(kCategories, [&](std::string_view category) {
    return category == name || (name.size() == 1 && category[0] == name[0]);
  });
}

bool compiles(const std::string& pattern) {
  int code = 0;
  std::size_t offset = 0;
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                       PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr);
  pcre2_code_free(compiled);
  return compiled != nullptr;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (at_ < in_.size()) {
      if (in_[at_] == '\\') {
        TS_TRY(const std::string item, escape(false));
        out_ += item;
      } else if (in_[at_] == '[') {
        TS_TRY(const std::string set, set_at_bracket());
        out_ += set;
      } else {
        out_ += in_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  Error unsupported(const std::string& what) const {
    return {ErrorKind::kUnsupported, "pattern " + std::string(in_) + ", byte " + std::to_string(at_), what};
  }

  // At a backslash. Inside a class the result is a list of class items.
  Result<std::string> escape(bool in_class) {
    if (at_ + 1 >= in_.size()) return unsupported("The pattern ends in a single backslash.");
    const char kind = in_[at_ + 1];
    switch (kind) {
      case 'p':
      case 'P':
        return property();
      case 's':
        at_ += 2;
        return std::string("\\p{White_Space}");
      case 'S':
        at_ += 2;
        return std::string("\\P{White_Space}");
      case 'w':
        at_ += 2;
        return std::string(in_class ? "\\p{L}\\p{M}\\p{N}\\p{Pc}" : "[\\p{L}\\p{M}\\p{N}\\p{Pc}]");
      case 'W':
        if (in_class) return unsupported("\\W inside a class is not supported.");
        at_ += 2;
        return std::string("[^\\p{L}\\p{M}\\p{N}\\p{Pc}]");
      case 'u': {
        const std::string_view digits = in_.substr(std::min(at_ + 2, in_.size()), 4);
        if (digits.size() < 4 ||
            digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
          return unsupported("\\u wants four hexadecimal digits.");
        }
        at_ += 6;
        return "\\x{" + std::string(digits) + "}";
      }
      case 'h':
      case 'H':
      case 'R':
      case 'X':
      case 'G':
      case 'K':
        return unsupported(std::string("\\") + kind + " means different things to different engines.");
      default:
        at_ += 2;
        return std::string(in_.substr(at_ - 2, 2));
    }
  }

  Result<std::string> property() {
    const std::string sign(in_.substr(at_, 2));
    if (at_ + 2 >= in_.size()) return unsupported("A property without a name.");
    if (in_[at_ + 2] != '{') {
      at_ += 3;
      return sign + "{" + in_[at_ - 1] + "}";
    }
    const std::size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) return unsupported("A property without a closing brace.");
    const std::string name(in_.substr(at_ + 3, end - at_ - 3));
    at_ = end + 1;
    if (is_category(name)) return sign + "{" + name + "}";
    const std::string as_script = sign + "{sc:" + name + "}";
    return compiles(as_script) ? as_script : sign + "{" + name + "}";
  }

  struct Items {
    bool negated = false;
    std::string text;                     // PCRE2 class items
    std::vector<std::string> categories;  // the items, if all are \p{general category}
    bool only_categories = true;
  };

  // After "[" or "[^": items up to "]" or "&&".
  Result<Items> items() {
    Items items;
    if (at_ < in_.size() && in_[at_] == '^') {
      items.negated = true;
      ++at_;
    }
    bool first = true;
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == ']' && !first) return items;
      if (in_.substr(at_, 2) == "&&") return items;
      first = false;
      if (c == '\\') {
        TS_TRY(const std::string item, escape(true));
        items.text += item;
        const bool category = item.starts_with("\\p{") && is_category(item.substr(3, item.size() - 4));
        if (category) {
          items.categories.push_back(item.substr(3, item.size() - 4));
        } else {
          items.only_categories = false;
        }
        continue;
      }
      items.only_categories = false;
      if (c == '[') {
        const std::size_t end = in_.find(":]", at_);
        if (in_.substr(at_, 2) != "[:" || end == std::string_view::npos) {
          return unsupported("A class inside a class is supported only in the form [...&&[^...]].");
        }
        items.text += in_.substr(at_, end + 2 - at_);
        at_ = end + 2;
        continue;
      }
      items.text += c;
      ++at_;
    }
    return unsupported("A class without a closing bracket.");
  }

  Result<std::string> set_at_bracket() {
    ++at_;
    TS_TRY(const Items wanted, items());
    if (in_[at_] == ']') {
      ++at_;
      return (wanted.negated ? "[^" : "[") + wanted.text + "]";
    }
    at_ += 2;  // &&
    if (in_.substr(at_, 2) != "[^" || wanted.negated || !wanted.only_categories) {
      return unsupported("Class intersection is supported only as [categories&&[^...]].");
    }
    ++at_;
    TS_TRY(const Items unwanted, items());
    if (in_.substr(at_, 2) != "]]") return unsupported("Expected ]] at the end of a class intersection.");
    at_ += 2;
    std::string others;
    for (const std::string_view category : kCategories) {
      const bool is_wanted = std::ranges::any_of(wanted.categories, [&](const std::string& name) {
        return category.substr(0, name.size()) == name;
      });
      if (!is_wanted) others += "\\p{" + std::string(category) + "}";
    }
    return "[^" + shortened(std::move(others)) + unwanted.text + "]";
  }

  // \p{Nd}\p{Nl}\p{No} -> \p{N}: fewer tests a character.
  static std::string shortened(std::string categories) {
    for (const char group : std::string_view("LMNPSZC")) {
      std::string all;
      for (const std::string_view category : kCategories) {
        if (category[0] == group) all += "\\p{" + std::string(category) + "}";
      }
      const std::size_t at = categories.find(all);
      if (at != std::string::npos) categories.replace(at, all.size(), std::string("\\p{") + group + "}");
    }
    return categories;
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> translate_to_pcre2(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace tessera
