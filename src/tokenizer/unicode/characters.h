// Properties of characters, with Python's meaning where Python has one (str.isspace, str.isprintable,
// str.upper) and never that of the process's locale.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

bool is_python_space(char32_t point);      // str.isspace: also U+001C..U+001F
bool is_python_printable(char32_t point);  // str.isprintable: repr() shows it as it is
bool is_python_alpha(char32_t point);      // str.isalpha: general category L
bool is_python_digit(char32_t point);      // a decimal digit (category Nd)
bool is_word_character(char32_t point);    // \w of a regular expression: letter, mark, number, connector
bool has_case(char32_t point);

// Case mappings of UTF-8 text; one-to-many ones only for German sharp s.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);  // str.title: a capital after each character that has no case

// Unicode normal form C of valid UTF-8.
std::string to_nfc(std::string_view text);

}  // namespace tessera
