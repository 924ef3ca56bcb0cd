// The tracker document: what the stack consists of, whether it equals what runs, and what is left to decide.
// Data in, document out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stack/parity/expectation.h"
#include "stack/parity/parity.h"
#include "stack/publish/bench_rows.h"
#include "stack/publish/branch_map.h"
#include "stack/publish/document.h"

namespace tessera::stack {

struct ReportCheck {
  std::string command;
  std::optional<int> status{};  // of its exit; nothing: it was not run
  std::string last_line{};

  bool has_failed() const { return status && *status != 0; }
};

// What became of a topic's branch in the newest operation that changed it.
struct ReportRangeDiff {
  std::string operation;  // "rebase of 2026-01-02T03:04:05Z"
  std::string mark;       // "=": says the same, "!": changed, ">": new
  std::string text{};     // with "!": the difference of the differences
};

struct ReportBucket {
  std::string name;
  std::string kind;  // "upstream", "local" or "drop"
  std::string status{};
  std::string link{};
  std::string title{};
  std::string why{};
  std::vector<std::string> needs{};    // names, computed and declared
  std::vector<std::string> reasons{};  // the witness of each need, one sentence
  std::vector<std::string> files{};
  std::int64_t atoms = 0;
  std::int64_t added = 0;
  std::int64_t removed = 0;
  std::int64_t counted_lines = 0;  // against the upstream's limit
  std::int64_t line_limit = 0;     // 0: none
  std::string branch{};
  std::string commit{};  // empty: none yet
  std::vector<ReportCheck> checks{};
  std::vector<std::string> look_first{};  // "path:12 (h:3fa9), +120": largest atoms, edits, adapted places
  std::optional<ReportRangeDiff> last_change{};
  std::vector<std::string> questions{};  // "No test is touched.", as questions, never as verdicts
};

struct ReportAtom {
  std::string id;
  std::string text_class;  // "real", "comment", …
};

struct ReportPath {
  PathParity parity;
  std::vector<ReportAtom> atoms{};
  std::string layer{};       // "layer 7 of 12", digest
  std::string created_by{};  // build step
};

// Which layer of the image last wrote a file that differs from the base.
struct ReportOrigin {
  std::string path;
  std::string layer;       // "layer 7 of 12, sha256:…"
  std::string created_by;  // build step
};

struct ReportUpstream {
  std::string what;  // "path (h:3fa9)" or a bucket
  std::string level;
  std::string commit;
};

struct ReportDecision {
  std::string ask;
  std::vector<std::string> options{};
  std::string owner{};
  std::string answer{};
};

struct Report {
  std::string plan;
  std::vector<std::pair<std::string, std::string>>
      inputs{};  // name, value: base, target, tree digest, image, tool, command
  Parity parity{};
  std::int64_t unassigned = 0;
  std::int64_t atoms = 0;
  std::vector<std::string> unassigned_atoms{};  // "h:3fa9 path:12"
  BranchMap map{};
  std::vector<ReportBucket> buckets{};  // in line order, dropped ones last
  std::vector<ReportPath> paths{};      // not exact
  std::vector<std::pair<std::string, std::int64_t>>
      rules{};  // ignore and subset rules, and how many paths each swallowed
  std::vector<ExpectationResult> expectations{};
  std::vector<ReportOrigin> origins{};     // of an image: files that differ from the base
  std::vector<std::string> moves{};        // deleted files whose text stands elsewhere
  std::vector<std::string> refuted{};      // needs that the plan refutes, with its reason
  std::vector<std::string> edits{};        // text from nobody's tree
  std::vector<std::string> resolutions{};  // remembered ones that were used
  std::vector<ReportUpstream> upstream{};
  std::vector<BenchRow> benchmarks{};
  std::vector<ReportDecision> decisions{};
  std::vector<std::string> notes{};  // of reading the tree: copies of the package, odd entries
};

// "4,152 exact, … ; 0 unassigned of 693 atoms".
std::string verdict_of(const Report& report);
// An empty difference is said in one line.
Document report_document(const Report& report);

}  // namespace tessera::stack
