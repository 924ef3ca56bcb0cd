// The proof: integration against tree, path by path, each in the first class that fits, nothing hidden.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/parity/classify.h"
#include "stack/progress.h"
#include "stack/tree.h"

namespace tessera::stack {

// In the order of the report, mildest first.
enum class ParityClass {
  kExact,       // same mode, same bytes
  kIgnored,     // matched an ignore or subset rule
  kDropped,     // differs only by atoms that the plan drops
  kAhead,       // integration holds a reviewer's commit that the tree lacks, by the plan's own record
  kMode,        // bytes equal, mode not
  kEol,         // CRLF against LF, or the final newline
  kBlank,       // white space without meaning
  kComment,     // comments
  kDirective,   // comments that tools read
  kReal,        // anything else
  kMissing,     // only in the tree
  kExtra,       // only in the integration
  kUnreadable,  // object missing, permission, damaged layer
};
inline constexpr int kParityClasses = static_cast<int>(ParityClass::kUnreadable) + 1;
std::string_view name_of(ParityClass value);
// The inverse, for --allow; nothing for a word that is none.
std::optional<ParityClass> parity_class_from(std::string_view name);

// An ignore rule (or a subset rule, which hides what is absent from the tree), as far as parity needs it.
struct ParityRule {
  std::string label;  // "ignore **/__pycache__/**", as it is printed
  std::function<bool(std::string_view path)> matches;
  bool only_missing_from_tree = false;  // a subset rule: "only what is under vllm/ is installed"
  bool even_if_changed = false;
};

struct ParityInput {
  const Tree& tree;
  const Tree& integration;
  const BlobStore& tree_blobs;
  const BlobStore& integration_blobs;
  const Tree* base = nullptr;  // to notice rules that hide a changed file of the base
  // What the plan composes without the buckets of kind drop, and with them. A path is dropped when the
  // integration has the one and the tree the other; a branch that somebody changed has neither.
  const Tree* planned = nullptr;
  const Tree* with_dropped = nullptr;
  std::vector<ParityRule> rules{};
  std::function<bool(std::string_view path)>
      is_ahead{};  // paths that differ by recorded commits, which the tree lacks, and by nothing else
  StageProgress progress{};
};

struct PathParity {
  std::string path;
  ParityClass value = ParityClass::kExact;
  std::string detail{};  // "100644 in the tree, 100755 in the integration", the reason why it is unreadable;
                         // printable
  std::int32_t layer = -1;  // of the tree's entry
  std::int32_t rule = -1;   // that swallowed it
};

struct Parity {
  std::vector<PathParity> paths{};  // all that are not exact, sorted by path
  std::array<std::int64_t, kParityClasses> counts{};
  std::vector<std::int64_t> rule_hits{};  // per rule
  std::vector<std::string> hidden{};  // paths of the base that changed and that a rule swallowed: an error
  std::int64_t count(ParityClass value) const { return counts[static_cast<std::size_t>(value)]; }
};

// Reads blobs only of paths whose ids differ. A blob that cannot be read makes its path kUnreadable, never
// the whole fail.
Parity compare_trees(const ParityInput& input);

// Whether this parity is good enough: only exact, ignored, dropped and ahead, and the classes named in
// `allowed`.
bool is_accepted(const Parity& parity, const std::vector<ParityClass>& allowed);
// "4,152 exact, 31 ignored, 2 dropped, 0 different": always these four, then what else there is.
std::string verdict_line(const Parity& parity);
// 4152 as "4,152".
std::string with_commas(std::int64_t value);

}  // namespace tessera::stack
