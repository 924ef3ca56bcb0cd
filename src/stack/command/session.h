// What every verb of the command line shares: common options, where output goes, how results become exit
// codes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/progress.h"

namespace tessera::stack {

inline constexpr const char* kVersion = "0.1.0";

enum class Exit : std::int32_t {
  kTrue = 0,      // done, and the answer is yes
  kFalse = 1,     // done, and the answer is no: differences, unassigned atoms, failed expectations
  kUsage = 2,     // wrong flags
  kInput = 3,     // plan, archive or repository cannot be used
  kConflict = 4,  // there are conflicts to solve; nothing that somebody else did was overwritten
  kBug = 5,       // a promise of our own did not hold
};

// Shows on a terminal how far something is that takes more than a second after the start; silent before.
class ProgressLine {
 public:
  ProgressLine(std::ostream& err, std::function<double()> seconds);
  void show(std::string_view what, std::uint64_t done, std::uint64_t total);
  // Removes the line, so that something else can be printed.
  void clear();

 private:
  std::ostream& err_;
  std::function<double()> seconds_;
  double started_;
  double last_ = 0;
  bool is_shown_ = false;
};

struct Session {
  std::ostream& out;
  std::ostream& err;
  std::string plan;   // given with --plan; empty: stack.toml, looked for upward
  std::string verb;   // "plan check"
  std::string typed;  // the whole command line, ready to be pasted again
  bool json = false;
  bool dry_run = false;
  bool quiet = false;
  // Shared with whom `progress` goes to; null when stderr is no terminal, or with --quiet.
  std::shared_ptr<ProgressLine> progress_line{};
  std::function<std::string()> now{};  // ISO 8601, UTC
  std::function<void(double)> wait{};  // seconds
  std::string github_token{};          // never printed

  // The plan's path.
  Result<std::string> plan_path() const;
  // For whatever may take over a second.
  StageProgress progress() const;
  // A line for people: not with --json or --quiet.
  void say(std::string_view line) const;
  // A sentence that matters although the run goes on; on stderr, also with --quiet.
  void warn(std::string_view sentence) const;
  // The same sentence; its next command names the plan that was named for this run.
  std::string pasteable(std::string_view sentence) const;
  // An error among several that do not end the run.
  void complain(const Error& error) const;
  // The machine's answer; adds "schema" and "command" in front.
  void answer(std::string_view command, const nlohmann::ordered_json& body) const;
};

Exit exit_of(const Error& error);
// Prints the error (as JSON on stdout with --json) and gives its exit code. An error that names no next
// command gets one: the same again, when the world was in the way; the check of the plan, when that is at
// fault; else the verb's help.
Exit report(const Session& session, const Error& error);

// Columns for people: pads all but the last, escapes control characters.
std::string table(const std::vector<std::vector<std::string>>& rows);

// A path for JSON: as it is when UTF-8, else percent-encoded under another key.
void put_path(nlohmann::ordered_json& object, std::string_view path);

}  // namespace tessera::stack
