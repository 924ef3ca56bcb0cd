#include "tokenizer/jinja/json_dump.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/jinja/numbers.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera::jinja {
namespace {

constexpr int kMaxParts = 5'000'000;  // a list may hold one list twice, which may do the same

class Dumper {
 public:
  explicit Dumper(const JsonStyle& style) : style_(style) {}

  Text dump(const Value& value) {
    put(value, 0);
    return {std::move(out_), any_foreign_};
  }

 private:
  void put(const Value& value, int depth) {
    if (++parts_ > kMaxParts) fail("A value has more than 5,000,000 parts.", ErrorKind::kTooLarge);
    if (value.is_string()) return string(value.text());
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.boolean() ? "true" : "false";
    } else if (value.is_int()) {
      out_ += int_text(value.integer());
    } else if (value.is_float()) {
      const double number = value.number();
      out_ += std::isnan(number)   ? "NaN"
              : std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity")
                                   : float_text(number);
    } else if (value.is_list()) {
      list(value.list(), depth);
    } else if (value.is_dict()) {
      dict(value.dict(), depth);
    } else if (value.is_undefined()) {
      fail("tojson: " + value.undefined().hint + ".");
    } else {
      fail("A " + value.type_name() + " cannot be written as JSON.");
    }
  }

  void list(const List& list, int depth) {
    if (list.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(depth + 1);
      put(list.items[i], depth + 1);
    }
    new_line(depth);
    out_ += ']';
  }

  void dict(const Dict& dict, int depth) {
    if (dict.items.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sorted) {
      std::ranges::stable_sort(items,
                               [](const auto* a, const auto* b) { return compare(a->first, b->first) < 0; });
    }
    out_ += '{';
    bool first = true;
    for (const auto* item : items) {
      if (!first) out_ += style_.item_separator;
      first = false;
      new_line(depth + 1);
      key(item->first);
      out_ += style_.key_separator;
      put(item->second, depth + 1);
    }
    new_line(depth);
    out_ += '}';
  }

  void key(const Value& key) {
    if (key.is_string()) return string(key.text());
    if (!key.is_number() && !key.is_none()) fail("A " + key.type_name() + " cannot be a key in JSON.");
    out_ += '"';
    put(key, 0);
    out_ += '"';
  }

  void new_line(int depth) {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth; ++i) out_ += *style_.indent;
  }

  void escape_unit(char32_t unit) {
    static constexpr std::string_view kHex = "0123456789abcdef";
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out_ += kHex[(unit >> shift) & 15];
  }

  void string(const Text& text) {
    any_foreign_ = any_foreign_ || text.any_foreign();
    out_ += '"';
    const std::string& bytes = text.bytes();
    for (std::size_t at = 0; at < bytes.size();) {
      const char c = bytes[at];
      static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
      const std::size_t simple = kFrom.find(c);
      const auto length = static_cast<std::size_t>(utf8_bytes_from_lead(c));
      if (simple != std::string_view::npos) {
        out_ += '\\';
        out_ += kTo[simple];
      } else if (static_cast<unsigned char>(c) < 0x20 || (c == 0x7F && style_.ascii)) {
        escape_unit(static_cast<unsigned char>(c));
      } else if (length > 1 && style_.ascii) {
        const char32_t point = read_utf8(std::string_view(bytes).substr(at)).point;
        if (point >= 0x10000) {
          escape_unit(0xD800 + ((point - 0x10000) >> 10));
          escape_unit(0xDC00 + ((point - 0x10000) & 0x3FF));
        } else {
          escape_unit(point);
        }
      } else {
        out_.append(bytes, at, length);
      }
      at += length;
    }
    out_ += '"';
  }

  const JsonStyle& style_;
  std::string out_;
  bool any_foreign_ = false;
  int parts_ = 0;
};

}  // namespace

Text dump_json(const Value& value, const JsonStyle& style) { return Dumper(style).dump(value); }

}  // namespace tessera::jinja
