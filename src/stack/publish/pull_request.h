// The text of a pull request for one topic, and how a later version of it is merged into what people have
// edited since.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stack/publish/report.h"

namespace tessera::stack {

inline constexpr std::string_view kStackBegin = "<!-- stack:begin -->";
inline constexpr std::string_view kStackEnd = "<!-- stack:end -->";
inline constexpr std::size_t kBodyLimit = 65'536;    // GitHub's, in characters
inline constexpr std::size_t kBodyCareful = 30'000;  // gateways have failed with 502 above this

struct StackRow {
  std::string name;
  std::string title{};
  std::string link{};  // of its pull request, when there is one
  std::string status{};
  bool is_this = false;
};

enum class PullRequestMode {
  kIndependent,   // only topics without unmerged needs; the default
  kCumulative,    // the commits below come along; only the last one is to be reviewed
  kConsolidated,  // one pull request with all topics
};

struct PullRequestInput {
  ReportBucket bucket;
  std::string topic_id;  // "<plan>/<bucket>"
  PullRequestMode mode = PullRequestMode::kIndependent;
  std::vector<StackRow> stack{};
  std::vector<std::string> unmerged_needs{};
  std::vector<std::string> title_tags{};  // allowed ones, without brackets; empty: not checked
  std::string body_template{};  // with {{purpose}}, {{test_plan}}, {{test_result}}; empty: the built-in one
  std::string compare_link{};   // of the last commit in the fork, for cumulative ones
  std::string sign_off{};       // "Name <mail>"; empty: none
  std::vector<std::string> co_authors{};
  std::vector<BenchRow> benchmarks{};
  bool touches_tests = false;
  std::vector<std::string> edits{};
};

struct PullRequestText {
  std::string title;
  std::string body;                     // below kBodyLimit
  std::vector<std::string> warnings{};  // also on top of the body, as a comment
};

PullRequestText write_pull_request(const PullRequestInput& input);

// Only what stands between our markers is replaced; without them our part is appended. Everything else is
// people's.
std::string merge_body(std::string_view existing, std::string_view fresh);

}  // namespace tessera::stack
