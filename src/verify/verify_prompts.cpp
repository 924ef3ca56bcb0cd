#include "verify/verify_prompts.h"

#include <algorithm>
#include <fstream>

namespace tessera {
namespace {

constexpr const char* kText =
    "The ship lay two days off the island before the wind came round. The captain stood upon the deck and "
    "counted "
    "the men as they came back over the side, one by one, wet and laughing, each with a story of his own. "
    "Nobody "
    "had found water. In the evening the cook gave out what bread there was, and somebody sang. Later, when "
    "the "
    "lamps were out, the boy asked how far it was to the mainland, and the mate told him the truth. ";
constexpr const char* kDigits = "4f1c9a07be52d83360e7a1945bd2c8f06e39b7154ac08d2f97e6310b5cda8247";
constexpr std::int32_t kCopyTokens = 900;  // of the long prompt, room permitting

}  // namespace

Result<std::vector<VerifyPrompt>> default_prompts(const Encode& encode, std::int32_t room) {
  TS_TRY(const std::vector<std::int32_t> once, encode(kText));
  std::string long_text;
  for (std::size_t tokens = 0; tokens < 320 + static_cast<std::size_t>(kCopyTokens); tokens += once.size())
    long_text += kText;
  TS_TRY(const std::vector<std::int32_t> text, encode(long_text));
  std::vector<VerifyPrompt> prompts;
  // Each begins elsewhere, so that no prompt is the beginning of another and finds its blocks in the cache.
  std::ptrdiff_t begin = 0;
  for (const std::int32_t size : {1, 2, 63, 64, 65, 127, 128, 129, 300}) {
    if (size > room) continue;
    const auto first = text.begin() + begin++;
    prompts.push_back({std::to_string(size) + (size == 1 ? " token" : " tokens"), {first, first + size}});
  }
  const std::string head = std::string("The key is ") + kDigits + ". ";
  const std::string tail = std::string(" Repeat the key exactly. The key is ");
  TS_TRY(std::vector<std::int32_t> copy, encode(head));
  TS_TRY(const std::vector<std::int32_t> question, encode(tail));
  const std::int32_t size = std::min(kCopyTokens, room);
  const auto filler = size - static_cast<std::int32_t>(copy.size() + question.size());
  if (filler > 0) {
    copy.insert(copy.end(), text.begin(), text.begin() + filler);
    copy.insert(copy.end(), question.begin(), question.end());
    prompts.push_back({"copy of 64 digits", std::move(copy)});
  }
  return prompts;
}

Result<std::vector<VerifyPrompt>> read_prompt_file(const std::string& path, const Encode& encode,
                                                   std::int32_t room) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorKind::kNotFound, path, "cannot be read."};
  std::vector<VerifyPrompt> prompts;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    const std::string where = path + ":" + std::to_string(number);
    TS_TRY(std::vector<std::int32_t> tokens, encode(line));
    if (tokens.empty()) continue;
    if (static_cast<std::int32_t>(tokens.size()) > room) {
      return Error{ErrorKind::kTooLarge, where,
                   "The prompt has " + std::to_string(tokens.size()) + " tokens; " + std::to_string(room) +
                       " leave room for the answer."};
    }
    prompts.push_back({"line " + std::to_string(number), std::move(tokens)});
  }
  if (prompts.empty()) return Error{ErrorKind::kInvalidArgument, path, "holds no prompt."};
  return prompts;
}

}  // namespace tessera
