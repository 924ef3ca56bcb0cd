// Real prose for prompts: Jane Austen, Emma (1815), public domain. Some 200,000 tokens, so that a prompt of
// 128k repeats nothing.
#pragma once

#include <string_view>

namespace tessera::bench {

std::string_view default_text();
inline constexpr std::string_view kDefaultTextName = "Jane Austen, Emma";

}  // namespace tessera::bench
