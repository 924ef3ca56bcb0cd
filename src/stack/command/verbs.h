// One function a verb. Each takes what its flags say and the session, prints its answer, and gives the exit
// code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/command/session.h"

namespace tessera::stack {

struct InitOptions {
  std::string repository;
  std::string base;
  std::string tree;      // source spec
  std::string name;      // of the plan; empty: the folder's
  std::string prefix;    // of the branches; empty: tessera/<name>
  bool refresh = false;  // read the plan's tree again instead of writing a plan
  bool force = false;    // overwrite a plan that exists
};
Result<Exit> run_init(const InitOptions& options, const Session& session);

struct ListOptions {
  std::vector<std::string> paths;  // globs; empty: all
  std::string bucket;
  bool unassigned = false;
};
Result<Exit> run_list(const ListOptions& options, const Session& session);

struct ShowOptions {
  std::vector<std::string> ids;
  std::int32_t context = 3;
};
Result<Exit> run_show(const ShowOptions& options, const Session& session);

struct SuggestOptions {
  std::string from_commits;  // "A..B"; empty: by files
  bool print = false;        // do not write the plan
};
Result<Exit> run_suggest(const SuggestOptions& options, const Session& session);

Result<Exit> run_plan_check(const Session& session);
Result<Exit> run_plan_pin(const Session& session);
Result<Exit> run_plan_loosen(const Session& session);
Result<Exit> run_plan_graph(const std::string& format, const Session& session);  // text, dot or json

struct SplitOptions {
  bool force = false;
  bool check = false;  // run the buckets' check commands in temporary checkouts
};
Result<Exit> run_split(const SplitOptions& options, const Session& session);
Result<Exit> run_integrate(const SplitOptions& options, const Session& session);

struct VerifyOptions {
  std::string tree;                // source spec; empty: the frozen tree
  std::vector<std::string> allow;  // mild classes that pass
};
Result<Exit> run_verify(const VerifyOptions& options, const Session& session);

struct RebaseOptions {
  std::string onto;
  bool resolve = false;
  bool force = false;
};
Result<Exit> run_rebase(const RebaseOptions& options, const Session& session);

struct UpstreamOptions {
  std::string at;
  std::string from_commits;  // "A..B": the fork's own commits, looked for as commits; empty: buckets only
};
Result<Exit> run_upstream(const UpstreamOptions& options, const Session& session);

struct AbsorbOptions {
  std::string tree;  // source spec
  bool print = false;
};
Result<Exit> run_absorb(const AbsorbOptions& options, const Session& session);

struct DoctorOptions {
  std::string repository;  // without a plan: both of these
  std::string tree;
  std::vector<std::string> branches;  // whose history is searched for a base; empty: all
  bool every_commit = false;          // of them, not samples
};
Result<Exit> run_doctor(const DoctorOptions& options, const Session& session);

struct ReportOptions {
  bool html = false;
  bool check = false;  // run the buckets' check commands
  std::string output;  // empty: stdout
};
Result<Exit> run_report(const ReportOptions& options, const Session& session);

struct PullRequestOptions {
  std::string bucket;                // empty: all upstream ones
  std::string output;                // folder; empty: pr/ beside the plan
  std::string mode = "independent";  // or "cumulative", "consolidated"
  std::string title;                 // of the consolidated one; empty: made from the plan's name
  bool check = false;                // run the buckets' check commands
  bool force = false;                // overwrite the consolidated branch when somebody else moved it
  bool send = false;
  std::string to;             // OWNER/NAME of the target repository
  std::string fork;           // owner of the fork that holds the branches
  std::string onto = "main";  // a branch of the target repository
  std::string api;            // another address than GitHub's own
};
Result<Exit> run_pull_requests(const PullRequestOptions& options, const Session& session);

struct ExportOptions {
  std::string format = "mail";  // mail, quilt or bundle
  std::string output;           // folder, or file for a bundle
};
Result<Exit> run_export(const ExportOptions& options, const Session& session);

Result<Exit> run_show_patches(const std::vector<std::string>& patches, const Session& session);

Result<Exit> run_log(const Session& session);
Result<Exit> run_undo(bool force, const Session& session);

}  // namespace tessera::stack
