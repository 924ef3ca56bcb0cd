// Numbers as Python writes and reads them, whatever the locale.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/jinja/value.h"

namespace tessera::jinja {

std::string int_text(Int value, int base = 10);
std::string float_text(double value);  // repr(): shortest that reads back, "1.0", "1e-05", "inf"
// "%.3f", "%.2e", "%g": `kind` is f, e or g.
std::string fixed_text(double value, char kind, int precision);

std::optional<Int> parse_int(std::string_view text,
                             int base = 10);  // int(): blanks around and single "_" inside allowed
std::optional<double> parse_float(std::string_view text);  // float()
// Python's round(value, digits): to even on exact halves.
double round_half_even(double value, int digits);

}  // namespace tessera::jinja
