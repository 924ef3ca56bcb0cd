// The plan: which tree, against which base, cut into which buckets. Plain data, read from one TOML file by
// plan_reader.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/atom/pattern.h"
#include "stack/git/line_diff.h"

namespace tessera::stack {

// How exactly a claim names its atoms. A more exact claim wins over a less exact one, so that plans can be
// short.
enum class ClaimKind { kGlob, kPath, kSection, kText, kLines, kAtom, kPiece };
std::string_view name_of(ClaimKind kind);

// What `plan pin` writes beside the id of an atom that others of its file equal: should their number change,
// the ordinals in ids shift, and the neighbourhood tells them apart.
struct PinEvidence {
  std::int32_t equals = 1;  // atoms of the file with these bytes when the pin was written
  std::string section{};    // digests, of 8 hex digits: of the enclosing sections,
  std::string above{};      // of the line above,
  std::string below{};      // and of the line below
  friend bool operator==(const PinEvidence&, const PinEvidence&) = default;
};

struct Claim {
  ClaimKind kind = ClaimKind::kPath;
  std::string path{};                     // literal; a glob for kGlob and kText; empty for kAtom and kPiece
  std::string section_kind{};             // kSection: "fn", "class", or empty for either
  std::string section{};                  // kSection: the name
  std::int32_t first_line = 0;            // kLines: of the tree, from 1
  std::int32_t last_line = 0;             // kLines: inclusive
  std::string id{};                       // kAtom, kPiece: hex digits, at least 4
  std::string pick{};                     // kPiece: what stands between the brackets
  std::optional<PinEvidence> evidence{};  // kAtom, when equals were there
  std::string renamed_to{};               // kPath: `path` was deleted, this one created, and both are meant
  std::optional<Pattern> pattern{};       // kText
  bool is_optional = false;               // may match nothing
  bool is_pin = false;                    // written by `plan pin`
  std::int32_t line = 0;                  // of the plan
  std::string written{};                  // as in the plan, for messages
};

enum class BucketKind { kUpstream, kLocal, kDrop };
std::string_view name_of(BucketKind kind);

struct Refutation {
  std::string use;  // the identifier whose use makes no dependency
  std::string reason;
};

struct Bucket {
  std::string name;
  BucketKind kind = BucketKind::kUpstream;
  std::string status;  // pending, submitted, merged, declined, superseded, backport
  std::string link;
  std::string title;
  std::string why;
  std::vector<std::string> needs;  // names of buckets, declared
  std::vector<Refutation> refute;
  std::vector<std::string> check;  // shell commands for a checkout of the topic
  std::string author;              // "Name <mail>"; empty: the plan's
  std::vector<std::string> co_authors;
  std::vector<Claim> take;
  std::vector<Claim> leave;
  std::vector<Claim> pins;
  std::int32_t line = 0;  // of the plan
};

struct IgnoreRule {
  std::string glob;
  std::string reason;
  bool even_if_changed = false;  // may hide a path that the base has and the tree changed
  std::int32_t line = 0;
};

struct SubsetRule {
  std::string keep;  // a glob; base paths outside every keep are not missing when the tree lacks them
  std::string reason;
  std::int32_t line = 0;
};

// Text that is in neither base nor tree: a region of a file as it shall be after one topic.
struct Edit {
  std::string bucket;
  std::string path;
  std::vector<std::string> covers;  // atom ids that the region spans
  std::string file;                 // relative to the plan
  std::string why;
  std::int32_t line = 0;
};

struct Resolution {
  std::string conflict;  // "c:…"
  std::string file;      // relative to the plan
  std::int32_t line = 0;
};

// A reviewer's commit on a topic's branch that the tree lacks. The topic keeps it, and so does all that
// stands on it; the paths that it touches are ahead of the tree.
struct Ahead {
  std::string bucket;
  std::string commit;  // full id
  std::string why;
  std::int32_t line = 0;
};

struct Expect {
  std::string path;
  std::string has;
  std::string lacks;
  std::string sha256;
  std::optional<bool> exists;  // `exists = true`, `absent = true`
  std::string why;
  std::int32_t line = 0;
};

struct Benchmark {
  std::string file;  // relative to the plan
  std::vector<std::string> about;
  std::string image;
  std::int32_t line = 0;
};

struct Decision {
  std::string ask;
  std::vector<std::string> options;
  std::string owner;
  std::string answer;
  std::int32_t line = 0;
};

enum class BranchShape { kMerges, kLinear };

struct Plan {
  std::string name;

  std::string repository;  // path, relative to the plan
  std::string base;        // full commit id
  std::string target;      // full commit id where topics stand

  std::string source;   // where the tree is read from, e.g. "dir:/opt/vllm"
  std::string digest;   // of that tree; another one is refused
  std::string image;    // provenance
  std::string listing;  // fingerprint of all atoms
  DiffAlgorithm algorithm = DiffAlgorithm::kMyers;
  std::int32_t rename_view = 60;  // percent

  std::string prefix;  // branches are refs/heads/<prefix>/<bucket>
  BranchShape shape = BranchShape::kMerges;
  bool linearise = false;  // a topic with two needs stands on both in a line instead of on a merge
  std::string author;      // "Name <mail>"
  std::int64_t date = 0;   // seconds since 1970 of every commit that we write

  std::vector<std::string> title_tags;
  std::int32_t max_lines = 0;  // 0: no limit
  std::vector<std::string> max_lines_exclude;
  bool sign_off = false;
  std::string pr_template;  // relative to the plan

  std::vector<IgnoreRule> ignore;
  std::vector<SubsetRule> subset;
  std::vector<Bucket> buckets;
  std::vector<Edit> edits;
  std::vector<Resolution> resolutions;
  std::vector<Ahead> ahead;  // in the order in which they are put on
  std::vector<Expect> expects;
  std::vector<Benchmark> benchmarks;
  std::vector<Decision> decisions;

  std::optional<std::int32_t> find_bucket(std::string_view bucket_name) const;
};

// Branches beside the topics that we make ourselves, so no bucket may be called so.
inline constexpr std::string_view kIntegrationBranch = "integration";
inline constexpr std::string_view kConsolidatedBranch = "consolidated";
inline bool is_reserved(std::string_view bucket_name) {
  return bucket_name == kIntegrationBranch || bucket_name == kConsolidatedBranch;
}

}  // namespace tessera::stack
