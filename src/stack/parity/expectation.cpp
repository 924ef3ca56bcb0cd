#include "stack/parity/expectation.h"

#include <algorithm>
#include <set>

#include "stack/object/digest.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

constexpr std::size_t kShownBytes = 160;
constexpr std::size_t kGram = 3;  // characters that two lines share in a row

std::string shown(std::size_t number, std::string_view line) {
  const std::size_t first = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(first);
  return std::to_string(number) + ": " + printable(line.substr(0, kShownBytes));
}

std::set<std::string_view> grams(std::string_view text) {
  std::set<std::string_view> out;
  for (std::size_t i = 0; i + kGram <= text.size(); ++i) out.insert(text.substr(i, kGram));
  return out;
}

// The line that shares the most runs of characters with `wanted`; empty when none shares any.
std::string nearest_line(std::string_view text, std::string_view wanted) {
  const std::set<std::string_view> looked_for = grams(wanted);
  std::string best;
  std::size_t best_score = 0;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    std::size_t score = 0;
    for (const std::string_view gram : grams(line)) score += looked_for.count(gram);
    if (score > best_score) {
      best_score = score;
      best = shown(number, line);
    }
  }
  return best;
}

std::string line_at(std::string_view text, std::size_t offset) {
  const std::size_t number = 1 + static_cast<std::size_t>(std::count(
                                     text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
  const std::size_t begin = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;
  return shown(number, text.substr(begin, text.find('\n', offset) - begin));
}

void check(const Expectation& expected, const Tree& tree, const BlobStore& blobs, ExpectationResult& result) {
  const TreeEntry* entry = tree.find(expected.path);
  if (expected.absent) {
    if (entry != nullptr) result.reason = "The path exists and should not.";
    return;
  }
  if (entry == nullptr) {
    result.reason = "The path does not exist.";
    return;
  }
  if (expected.has.empty() && expected.lacks.empty() && expected.sha256.empty()) return;
  const auto bytes = entry->unreadable
                         ? Result<std::string>(Error{ErrorKind::kNotFound, "", *entry->unreadable})
                         : blobs.read(entry->oid);
  if (!bytes) {
    result.reason = "Its bytes cannot be read: " + printable(bytes.error().message());
    return;
  }
  if (!expected.has.empty() && bytes->find(expected.has) == std::string::npos) {
    result.reason = "No line has \"" + printable(expected.has) + "\".";
    result.nearest = nearest_line(*bytes, expected.has);
    return;
  }
  if (!expected.lacks.empty()) {
    if (const std::size_t at = bytes->find(expected.lacks); at != std::string::npos) {
      result.reason = "It has \"" + printable(expected.lacks) + "\" and should not.";
      result.nearest = line_at(*bytes, at);
      return;
    }
  }
  if (!expected.sha256.empty()) {
    const std::string found = sha256_digest(*bytes);
    const std::string wanted =
        expected.sha256.starts_with("sha256:") ? expected.sha256 : "sha256:" + expected.sha256;
    if (found != wanted) result.reason = "Its digest is " + found + ", expected " + printable(wanted) + ".";
  }
}

}  // namespace

std::vector<ExpectationResult> check_expectations(const std::vector<Expectation>& expectations,
                                                  const Tree& tree, const BlobStore& blobs) {
  std::vector<ExpectationResult> out;
  for (const Expectation& expected : expectations) {
    ExpectationResult result{.path = expected.path, .why = expected.why, .where = expected.where};
    check(expected, tree, blobs, result);
    result.holds = result.reason.empty();
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace tessera::stack
