// Cuts text into the pieces that BPE sees one by one: words with their blank, numbers, runs of punctuation.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/regex.h"

namespace tessera {

// What becomes of a match (Hugging Face's names).
enum class SplitBehavior {
  kIsolated,            // matches are pieces, and what lies between them too
  kRemoved,             // matches vanish
  kMergedWithPrevious,  // a match ends the piece before it
  kMergedWithNext,      // a match begins the piece after it
  kContiguous,          // as isolated, but neighbouring matches are one piece
};

struct SplitRule {
  Regex pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what lies between the matches is the match
};

struct PreTokenizer {
  std::vector<SplitRule> rules;  // each cuts the pieces that the one before it left

  // Appends the pieces of `text` (valid UTF-8) to `pieces`; they point into `text`.
  Result<void> split(std::string_view text, std::vector<std::string_view>& pieces) const;
};

// The pattern of GPT-2, which Hugging Face's ByteLevel step uses by itself.
extern const char* const kGpt2Pattern;
// The pattern of Kimi's tokenizer, whose class intersections are Rust syntax.
extern const char* const kKimiPattern;

// Byte offsets at which Kimi's tokenizer cuts a text before anything else: every 400,000 characters, and
// within those wherever more than 25,000 characters in a row are all blank or all not. Empty for ordinary
// texts.
std::vector<std::size_t> kimi_cuts(std::string_view text);

}  // namespace tessera
