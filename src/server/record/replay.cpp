#include "server/record/replay.h"

#include <algorithm>

#include "server/record/answer_text.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera {
namespace {

// Some characters of `text` from byte `at` on, on one line.
std::string excerpt(const std::string& text, std::size_t at) {
  constexpr std::size_t kBytes = 40;
  std::string out = repair_utf8(std::string_view(text).substr(std::min(at, text.size()), kBytes));
  std::ranges::replace_if(
      out, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return "\"" + out + "\"";
}

// The first difference in words; empty: none.
std::string difference(const std::string& recorded, const std::string& now, bool only_beginning) {
  const auto [a, b] = std::ranges::mismatch(recorded, now);
  if (a == recorded.end() && (only_beginning || b == now.end())) return {};
  std::size_t at = static_cast<std::size_t>(a - recorded.begin());
  while (at > 0 && at < recorded.size() && (static_cast<unsigned char>(recorded[at]) & 0xC0U) == 0x80U) --at;
  return "differs at byte " + std::to_string(at) + ": recorded " + excerpt(recorded, at) + ", now " +
         excerpt(now, at);
}

}  // namespace

Replayed judge(const RecordedRequest& record, const Result<ReplayAnswer>& answer, double total_ms) {
  Replayed out{.total_ms = total_ms};
  const auto say = [&](ReplayOutcome outcome, std::string finding) {
    out.outcome = outcome;
    out.finding = std::move(finding);
    return out;
  };
  if (!answer) return say(ReplayOutcome::kNoAnswer, "no answer: " + answer.error().message());
  const bool was_whole = record.ended == "complete" && record.answer_is_whole;
  if (record.status != 0 && answer->status != record.status) {
    const auto texts = texts_of_answer(answer->body);
    return say(ReplayOutcome::kOtherStatus, "status " + std::to_string(record.status) + " became " +
                                                std::to_string(answer->status) +
                                                (texts.empty() ? "" : ": " + excerpt(texts.front(), 0)));
  }
  // Half a JSON document says nothing; of half a stream the events do.
  const bool is_readable = record.answer_is_whole || record.answer.starts_with("data: ");
  const auto recorded = is_readable ? texts_of_answer(record.answer) : std::vector<std::string>();
  const auto now = texts_of_answer(answer->body);
  std::string found;
  if (record.status != 0 && was_whole && recorded.size() != now.size()) {
    found = std::to_string(recorded.size()) + " texts became " + std::to_string(now.size());
  }
  for (std::size_t i = 0; record.status != 0 && i < std::min(recorded.size(), now.size()) && found.empty();
       ++i) {
    found = difference(recorded[i], now[i], !was_whole);
    if (!found.empty() && recorded.size() > 1) found = "text " + std::to_string(i) + " " + found;
  }
  if (found.empty()) return say(ReplayOutcome::kSame, was_whole ? "same" : "same as far as was recorded");
  const bool is_completion = record.status == 200 && record.path.ends_with("/completions");
  if (is_completion && !is_repeatable(record.body)) {
    return say(ReplayOutcome::kMayDiffer, "another text, as it may be without a seed and with a temperature");
  }
  return say(ReplayOutcome::kOtherText, found);
}

}  // namespace tessera
