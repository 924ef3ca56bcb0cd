#include "stack/parity/parity.h"

#include <algorithm>

#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/object/tree_digest.h"

namespace tessera::stack {
namespace {

constexpr std::array<std::string_view, kParityClasses> kNames = {
    "exact",   "ignored",   "dropped", "ahead",   "mode",  "eol",       "blank",
    "comment", "directive", "real",    "missing", "extra", "unreadable"};

ParityClass of_text(TextClass value) {
  switch (value) {
    case TextClass::kSame:
      return ParityClass::kExact;
    case TextClass::kEol:
      return ParityClass::kEol;
    case TextClass::kBlank:
      return ParityClass::kBlank;
    case TextClass::kComment:
      return ParityClass::kComment;
    case TextClass::kDirective:
      return ParityClass::kDirective;
    case TextClass::kReal:
      return ParityClass::kReal;
  }
  return ParityClass::kReal;
}

bool is_file(const TreeEntry& entry) {
  return entry.mode == FileMode::kFile || entry.mode == FileMode::kExecutable;
}

bool is_same(const TreeEntry* a, const TreeEntry* b) {
  if (a == nullptr || b == nullptr) return a == b;
  // Equal ids are equal bytes, also where a mirror lacks them; only a path without a known id stays unknown.
  return a->mode == b->mode && a->oid == b->oid && (a->oid != Oid{} || (!a->unreadable && !b->unreadable));
}

std::string kind_of(const TreeEntry& entry) {
  switch (entry.mode) {
    case FileMode::kSymlink:
      return "a symlink";
    case FileMode::kGitlink:
      return "a submodule";
    case FileMode::kFile:
    case FileMode::kExecutable:
      return "a file";
  }
  return "unknown";
}

class Comparison {
 public:
  explicit Comparison(const ParityInput& input) : input_(input) { out_.rule_hits.resize(input.rules.size()); }

  Parity run() {
    auto ours = input_.integration.entries.begin();
    auto theirs = input_.tree.entries.begin();
    const auto ours_end = input_.integration.entries.end();
    const auto theirs_end = input_.tree.entries.end();
    Stage stage(input_.progress, "comparing paths", input_.integration.entries.size());
    while (ours != ours_end || theirs != theirs_end) {
      if (ours != ours_end) stage.step();
      if (theirs == theirs_end || (ours != ours_end && ours->path < theirs->path)) {
        take(nullptr, &*ours++);
      } else if (ours == ours_end || theirs->path < ours->path) {
        take(&*theirs++, nullptr);
      } else {
        take(&*theirs++, &*ours++);
      }
    }
    return std::move(out_);
  }

 private:
  void take(const TreeEntry* tree, const TreeEntry* integration) {
    PathParity path{.path = tree != nullptr ? tree->path : integration->path,
                    .layer = tree != nullptr ? tree->layer : -1};
    if (is_same(tree, integration)) {
      count(ParityClass::kExact);
      return;
    }
    path.value = classify(path, tree, integration);
    count(path.value);
    out_.paths.push_back(std::move(path));
  }

  void count(ParityClass value) { ++out_.counts[static_cast<std::size_t>(value)]; }

  ParityClass classify(PathParity& path, const TreeEntry* tree, const TreeEntry* integration) {
    for (std::size_t i = 0; i < input_.rules.size(); ++i) {
      const ParityRule& rule = input_.rules[i];
      if (rule.only_missing_from_tree && tree != nullptr) continue;
      if (!rule.matches(path.path)) continue;
      ++out_.rule_hits[i];
      path.rule = static_cast<std::int32_t>(i);
      path.detail = rule.label;
      if (!rule.even_if_changed && !rule.only_missing_from_tree && changed_since_base(path.path, tree)) {
        out_.hidden.push_back(path.path);
      }
      return ParityClass::kIgnored;
    }
    if (input_.is_ahead && input_.is_ahead(path.path)) return ParityClass::kAhead;
    if (input_.with_dropped != nullptr && input_.planned != nullptr &&
        is_same(tree, input_.with_dropped->find(path.path)) &&
        is_same(integration, input_.planned->find(path.path)))
      return ParityClass::kDropped;
    if (tree == nullptr) return ParityClass::kExtra;
    if (tree->unreadable) {
      path.detail = *tree->unreadable;
      return ParityClass::kUnreadable;
    }
    if (integration == nullptr) return ParityClass::kMissing;
    if (integration->unreadable) {
      path.detail = *integration->unreadable;
      return ParityClass::kUnreadable;
    }
    return differing(path, *tree, *integration);
  }

  bool changed_since_base(const std::string& path, const TreeEntry* tree) const {
    if (input_.base == nullptr || tree == nullptr)
      return false;  // an absent file is what images are: compiled away, not installed
    const TreeEntry* base = input_.base->find(path);
    return base != nullptr && !is_same(base, tree);
  }

  ParityClass differing(PathParity& path, const TreeEntry& tree, const TreeEntry& integration) const {
    if (is_file(tree) != is_file(integration) || (!is_file(tree) && tree.mode != integration.mode)) {
      path.detail = kind_of(tree) + " in the tree, " + kind_of(integration) + " in the integration";
      return ParityClass::kReal;
    }
    const bool modes_differ = tree.mode != integration.mode;
    if (modes_differ) {
      path.detail =
          mode_text(tree.mode) + " in the tree, " + mode_text(integration.mode) + " in the integration";
    }
    if (tree.oid == integration.oid) return ParityClass::kMode;
    if (!is_file(tree)) return ParityClass::kReal;
    const auto tree_bytes = input_.tree_blobs.read(tree.oid);
    const auto our_bytes = input_.integration_blobs.read(integration.oid);
    if (!tree_bytes || !our_bytes) {
      // Different ids are different bytes; only how they differ cannot be told.
      path.detail = printable((tree_bytes ? our_bytes : tree_bytes).error().message());
      return ParityClass::kUnreadable;
    }
    const ParityClass value = of_text(classify_texts(path.path, *our_bytes, *tree_bytes));
    // Two differences at once are no mild one.
    return modes_differ ? ParityClass::kReal : value;
  }

  const ParityInput& input_;
  Parity out_;
};

}  // namespace

std::string_view name_of(ParityClass value) { return kNames[static_cast<std::size_t>(value)]; }

std::optional<ParityClass> parity_class_from(std::string_view name) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ParityClass>(found - kNames.begin());
}

Parity compare_trees(const ParityInput& input) { return Comparison(input).run(); }

bool is_accepted(const Parity& parity, const std::vector<ParityClass>& allowed) {
  if (!parity.hidden.empty()) return false;
  for (int i = static_cast<int>(ParityClass::kMode); i < kParityClasses; ++i) {
    const auto value = static_cast<ParityClass>(i);
    if (parity.count(value) > 0 && std::find(allowed.begin(), allowed.end(), value) == allowed.end())
      return false;
  }
  return true;
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string verdict_line(const Parity& parity) {
  std::int64_t different = 0;
  std::string parts;
  for (int i = static_cast<int>(ParityClass::kMode); i < kParityClasses; ++i) {
    const std::int64_t count = parity.counts[static_cast<std::size_t>(i)];
    different += count;
    if (count > 0)
      parts += (parts.empty() ? "" : ", ") + with_commas(count) + ' ' +
               std::string(kNames[static_cast<std::size_t>(i)]);
  }
  std::string out = with_commas(parity.count(ParityClass::kExact)) + " exact, " +
                    with_commas(parity.count(ParityClass::kIgnored)) + " ignored, " +
                    with_commas(parity.count(ParityClass::kDropped)) + " dropped, " + with_commas(different) +
                    " different";
  if (!parts.empty()) out += " (" + parts + ")";
  if (parity.count(ParityClass::kAhead) > 0)
    out += ", " + with_commas(parity.count(ParityClass::kAhead)) + " ahead of the tree";
  return out;
}

}  // namespace tessera::stack
