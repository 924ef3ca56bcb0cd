#include "server/http/failure.h"

#include <algorithm>
#include <exception>
#include <string_view>

namespace tessera::http {

std::string describe_failure() {
  try {
    throw;
  } catch (const std::exception& failure) {
    std::string_view text = failure.what();
    // nlohmann::json writes "[json.exception.NAME.NUMBER] …" and then what it read.
    if (text.starts_with("[json.exception.")) text = text.substr(0, text.find(']') + 1);
    // What others quote may be a prompt as well: the sentence up to there says what went wrong.
    const std::size_t quote = std::min(text.find_first_of("'\"`"), text.size());
    std::string out(text.substr(0, std::min<std::size_t>(quote, 300)));
    if (quote < text.size() && quote <= 300) out += "(left out)";
    std::ranges::replace_if(
        out, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    return out;
  } catch (...) {
    return "something that is not a std::exception";
  }
}

}  // namespace tessera::http
