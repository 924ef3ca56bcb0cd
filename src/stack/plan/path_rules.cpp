#include "stack/plan/path_rules.h"

#include <algorithm>

#include "stack/atom/glob.h"
#include "stack/object/printable.h"
#include "stack/object/tree_digest.h"

namespace tessera::stack {
namespace {

const IgnoreRule* ignoring(const Plan& plan, const std::string& path) {
  const auto rule =
      std::ranges::find_if(plan.ignore, [&](const IgnoreRule& r) { return glob_matches(r.glob, path); });
  return rule == plan.ignore.end() ? nullptr : &*rule;
}

}  // namespace

Result<RuledTree> apply_rules(const Plan& plan, const Tree& base, const Tree& tree) {
  RuledTree out;
  for (const IgnoreRule& rule : plan.ignore)
    out.uses.push_back({"ignore " + rule.glob, rule.reason, rule.line});
  for (const SubsetRule& rule : plan.subset)
    out.uses.push_back({"subset " + rule.keep, rule.reason, rule.line});
  const auto use_of = [&](const IgnoreRule* rule) -> RuleUse& {
    return out.uses[static_cast<std::size_t>(rule - plan.ignore.data())];
  };
  const auto keeps = [&](const std::string& path) {
    return std::ranges::any_of(plan.subset, [&](const SubsetRule& r) { return glob_matches(r.keep, path); });
  };

  for (const TreeEntry& entry : tree.entries) {
    const IgnoreRule* rule = ignoring(plan, entry.path);
    if (rule == nullptr) {
      out.tree.entries.push_back(entry);
      continue;
    }
    ++use_of(rule).paths;
    out.ignored.push_back(entry.path);
    const TreeEntry* before = base.find(entry.path);
    if (before == nullptr) continue;
    const bool is_changed = before->oid != entry.oid || before->mode != entry.mode;
    if (is_changed && !rule->even_if_changed) {
      return Error{
          ErrorKind::kMismatch, "plan:" + std::to_string(rule->line),
          "The ignore rule '" + rule->glob + "' hides " + printable(entry.path) +
              ", which the base has and the tree changed; narrow the rule, or write even_if_changed = true."};
    }
    out.tree.entries.push_back(*before);
  }
  for (const TreeEntry& entry : base.entries) {
    if (tree.find(entry.path) != nullptr) continue;
    const bool outside = !plan.subset.empty() && !keeps(entry.path);
    const IgnoreRule* rule = ignoring(plan, entry.path);
    if (!outside && rule == nullptr) continue;
    if (outside) {
      for (std::size_t i = plan.ignore.size(); i < out.uses.size(); ++i) ++out.uses[i].paths;
    } else {
      if (!rule->even_if_changed) {
        return Error{ErrorKind::kMismatch, "plan:" + std::to_string(rule->line),
                     "The ignore rule '" + rule->glob + "' hides that " + printable(entry.path) +
                         ", which the base has, is missing in the tree; a subset rule says what is "
                         "installed, even_if_changed = true "
                         "hides it knowingly."};
      }
      ++use_of(rule).paths;
    }
    out.ignored.push_back(entry.path);
    out.tree.entries.push_back(entry);
  }
  sort_entries(out.tree.entries);
  out.tree.digest = tree_digest(out.tree.entries);
  out.tree.image = tree.image;
  out.tree.layers = tree.layers;
  out.tree.notes = tree.notes;
  std::ranges::sort(out.ignored);
  return out;
}

}  // namespace tessera::stack
