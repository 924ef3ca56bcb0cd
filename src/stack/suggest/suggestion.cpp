#include "stack/suggest/suggestion.h"

#include <algorithm>

#include "stack/atom/glob.h"
#include "stack/object/printable.h"
#include "stack/plan/plan_editor.h"

namespace tessera::stack {

std::string slug_of(std::string_view sentence) {
  // Tags in brackets and a pull request's number in front and behind say nothing that a branch needs.
  while (sentence.starts_with('[')) {
    const std::size_t end = sentence.find(']');
    if (end == std::string_view::npos) break;
    sentence.remove_prefix(end + 1);
    while (sentence.starts_with(' ')) sentence.remove_prefix(1);
  }
  if (const std::size_t number = sentence.rfind(" (#");
      number != std::string_view::npos && sentence.ends_with(')'))
    sentence = sentence.substr(0, number);
  std::string out;
  for (const char c : sentence) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool fits = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (fits)
      out += lower;
    else if (!out.empty() && out.back() != '-')
      out += '-';
    if (out.size() >= 40 && out.back() == '-') break;
  }
  while (out.ends_with('-')) out.pop_back();
  return out.empty() ? "topic" : out;
}

std::string local_reason(std::string_view path) {
  struct Rule {
    std::string_view glob;
    std::string_view reason;
  };
  static constexpr Rule kRules[] = {
      {"**/*.bak*", "a backup file"},
      {"**/*.orig", "left by a merge"},
      {"**/*.rej", "left by a patch"},
      {"**/*~", "an editor's backup"},
      {"**/*.patch", "a patch file"},
      {"**/Dockerfile*", "builds an image"},
      {"**/*.dockerfile", "builds an image"},
      {"**/docker-compose*", "starts containers"},
      {"**/.env*", "settings of one machine"},
      {"**/launch*.sh", "a launch script"},
      {"**/run_*.sh", "a launch script"},
      {"**/serve*.sh", "a launch script"},
      {"**/*.egg-info/**", "made by the package build"},
      {"**/_version.py", "made by the package build"},
      {"*.sh", "a script in the root folder"},
  };
  for (const Rule& rule : kRules) {
    if (glob_matches(rule.glob, path)) return std::string(rule.reason);
  }
  return {};
}

std::string to_toml(const Suggestion& suggestion) {
  std::string out;
  for (const ProposedBucket& bucket : suggestion.buckets) {
    if (!out.empty()) out += '\n';
    if (!bucket.comment.empty()) out += "# suggested: " + printable(bucket.comment) + "\n";
    out += "[[bucket]]\nname   = " + toml_quoted(bucket.name) + "\nkind   = \"" +
           std::string(name_of(bucket.kind)) + "\"\nstatus = \"pending\"\n";
    if (!bucket.title.empty()) out += "title  = " + toml_quoted(printable(bucket.title)) + "\n";
    if (!bucket.why.empty()) out += "why    = " + toml_quoted(bucket.why) + "\n";
    if (!bucket.author.empty()) out += "author = " + toml_quoted(printable(bucket.author)) + "\n";
    out += "take   = [\n";
    for (const ProposedClaim& claim : bucket.take) {
      const bool is_table = claim.claim.starts_with('{');
      out += "  " + (is_table ? claim.claim : toml_quoted(claim.claim)) + "," +
             (claim.comment.empty() ? "" : "  # " + printable(claim.comment)) + "\n";
    }
    out += "]\n";
  }
  return out;
}

}  // namespace tessera::stack
