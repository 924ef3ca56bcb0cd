#include "bench/load/prompt_pool.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "base/check.h"

namespace tessera::bench {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;  // below every server's limit for a body
constexpr std::int64_t kRandomWords = 8;        // enough that no two prompts of a run begin alike

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

Tokenize server_tokenizer(LoadLoop& loop, const std::string& model) {
  return [&loop, model](std::string_view text) -> Result<std::vector<std::int32_t>> {
    const nlohmann::json body = {{"model", model}, {"prompt", text}, {"add_special_tokens", false}};
    TS_TRY(const std::string answer, loop.fetch_ok("POST", "/tokenize", body.dump()));
    const auto json = nlohmann::json::parse(answer, nullptr, false);
    if (!json.is_object() || !json.contains("tokens") || !json["tokens"].is_array())
      return Error{ErrorKind::kCorrupt, "/tokenize", "The answer has no list of tokens."};
    std::vector<std::int32_t> ids;
    for (const auto& id : json["tokens"]) {
      if (!id.is_number_integer()) return Error{ErrorKind::kCorrupt, "/tokenize", "A token is no number."};
      ids.push_back(id.get<std::int32_t>());
    }
    return ids;
  };
}

Result<PromptPool> PromptPool::make(std::string_view text, const Tokenize& tokenize, std::uint64_t seed) {
  std::vector<std::int32_t> ids;
  while (!text.empty()) {
    std::size_t end = std::min(kPieceBytes, text.size());
    if (end < text.size()) {
      const std::size_t line = text.rfind('\n', end);
      if (line != std::string_view::npos && line > 0) end = line;
    }
    TS_TRY(const std::vector<std::int32_t> piece, tokenize(text.substr(0, end)));
    ids.insert(ids.end(), piece.begin(), piece.end());
    text.remove_prefix(end);
  }
  if (static_cast<std::int64_t>(ids.size()) < 64) {
    return Error{ErrorKind::kInvalidArgument, "--text",
                 "has " + std::to_string(ids.size()) + " tokens; prompts need a text of at least 64."};
  }
  return PromptPool(std::move(ids), seed);
}

std::vector<std::int32_t> PromptPool::prompt(std::uint64_t serial, std::int64_t length) const {
  TS_CHECK(length >= 1, length);
  std::vector<std::int32_t> out;
  const std::int64_t words = std::min(kRandomWords, length);
  for (std::int64_t i = 0; i < words; ++i) {
    const std::uint64_t drawn = mixed(seed_ + mixed(serial * 64 + static_cast<std::uint64_t>(i)));
    out.push_back(ids_[static_cast<std::size_t>(drawn % ids_.size())]);
  }
  const auto rest = passage(serial, length - words);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

std::vector<std::int32_t> PromptPool::passage(std::uint64_t serial, std::int64_t length) const {
  std::vector<std::int32_t> out(static_cast<std::size_t>(std::max<std::int64_t>(length, 0)));
  const std::uint64_t from = mixed(serial ^ 0x5DEECE66DULL);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = ids_[static_cast<std::size_t>((from + i) % ids_.size())];
  return out;
}

}  // namespace tessera::bench
