// Prompts of real text with exactly so many tokens: a long text's token ids, cut where they are needed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/load/load_loop.h"

namespace tessera::bench {

using Tokenize = std::function<Result<std::vector<std::int32_t>>(std::string_view text)>;

// Through the server's own /tokenize.
Tokenize server_tokenizer(LoadLoop& loop, const std::string& model);

class PromptPool {
 public:
  // Tokenises `text` in pieces that end between lines.
  static Result<PromptPool> make(std::string_view text, const Tokenize& tokenize, std::uint64_t seed);

  // `length` ids, at least 1. Prompts of different serial numbers (and seeds) begin differently, so that no
  // prefix cache finds one in the other: some random words of the text, then the text from another place.
  std::vector<std::int32_t> prompt(std::uint64_t serial, std::int64_t length) const;
  // The same for a part that several prompts share, or that follows another part: no random words.
  std::vector<std::int32_t> passage(std::uint64_t serial, std::int64_t length) const;
  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }

 private:
  PromptPool(std::vector<std::int32_t> ids, std::uint64_t seed) : ids_(std::move(ids)), seed_(seed) {}

  std::vector<std::int32_t> ids_;
  std::uint64_t seed_;
};

}  // namespace tessera::bench
