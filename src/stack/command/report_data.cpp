#include "stack/command/report_data.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "stack/atom/glob.h"
#include "stack/atom/rename_view.h"
#include "stack/command/atom_view.h"
#include "stack/command/checkout.h"
#include "stack/command/target_ground.h"
#include "stack/command/topic_difference.h"
#include "stack/compose/operation.h"
#include "stack/move/upstream.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

std::string short_of(const Oid& oid) { return to_hex(oid).substr(0, 12); }

bool is_test(std::string_view path) { return path.find("test") != std::string_view::npos; }

// The class of one atom: the tree's file against the same file without it.
std::string class_of(const Listing& listing, const Atom& atom) {
  if (atom.kind != AtomKind::kText) return std::string(name_of(atom.kind));
  const FileChange& file = listing.file_of(atom);
  std::string without;
  const auto& lines = file.new_text.lines;
  for (std::int32_t i = 0; i < atom.at.new_begin; ++i) without += lines[static_cast<std::size_t>(i)];
  for (const std::string_view line : listing.removed(atom)) without += line;
  for (std::size_t i = static_cast<std::size_t>(atom.at.new_begin + atom.at.new_count); i < lines.size(); ++i)
    without += lines[i];
  return std::string(name_of(classify_texts(file.path, without, *file.new_text.bytes)));
}

class Collector {
 public:
  Collector(const StackState& state, bool with_checks)
      : state_(state),
        with_checks_(with_checks),
        workspace_(state.workspace),
        plan_(state.workspace.plan()),
        listing_(state.workspace.listing) {}

  Result<Report> collect() {
    report_.plan = plan_.name;
    TS_TRY(operations_, read_operations(workspace_.repository, plan_));
    inputs();
    report_.parity = state_.verification.parity;
    report_.unassigned = state_.verification.unassigned;
    report_.atoms = state_.verification.atoms;
    for (std::size_t i = 0; i < listing_.atoms.size(); ++i) {
      if (workspace_.claims.ownership.atoms[i].owners().front() == kUnassigned)
        report_.unassigned_atoms.push_back(named(static_cast<std::int32_t>(i)));
    }
    std::vector<std::int32_t> order = state_.graph.order;
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      if (plan_.buckets[b].kind == BucketKind::kDrop) order.push_back(static_cast<std::int32_t>(b));
    }
    {
      Stage stage(workspace_.progress, "topics of the report", order.size());
      for (const std::int32_t bucket : order) {
        stage.step();
        TS_TRY(add_bucket(bucket));
      }
    }
    report_.map.target = short_of(workspace_.target.id);
    report_.map.integration =
        state_.composition.integration ? short_of(*state_.composition.integration) : "integration";
    add_paths();
    add_origins();
    for (const MovedText& moved : find_moves(listing_, workspace_.repository, plan_.rename_view))
      report_.moves.push_back(sentence_of(moved, listing_));
    for (const RuleUse& use : workspace_.ruled.uses)
      report_.rules.emplace_back(use.rule + (use.reason.empty() ? "" : ": " + use.reason), use.paths);
    report_.expectations = state_.verification.on_integration;
    for (const ExpectationResult& result : state_.verification.on_tree) {
      if (!result.holds) report_.expectations.push_back(result);
    }
    for (const Edge& edge : state_.graph.refuted)
      report_.refuted.push_back(bucket_name(edge.from) + " " + edge.witness);
    for (const Edit& edit : plan_.edits)
      report_.edits.push_back(edit.bucket + ": " + edit.path + " from " + edit.file +
                              (edit.why.empty() ? "" : ": " + edit.why));
    for (std::size_t f = 0; f < listing_.files.size(); ++f) {
      for (const Placement& placement : state_.ground.files[f].placements) {
        if (placement.kind == PlacementKind::kRemembered && !placement.adapted.empty())
          report_.resolutions.push_back(placement.conflict + " in " + listing_.files[f].path);
      }
    }
    TS_TRY(add_upstream());
    TS_TRY(add_benchmarks());
    for (const Decision& decision : plan_.decisions)
      report_.decisions.push_back({decision.ask, decision.options, decision.owner, decision.answer});
    report_.notes = workspace_.raw_tree.notes;
    for (const Unreadable& gone : listing_.unreadable)
      report_.notes.push_back("Unreadable: " + gone.path + ": " + gone.why);
    return std::move(report_);
  }

 private:
  std::string named(std::int32_t at) const {
    const Atom& atom = listing_.atoms[static_cast<std::size_t>(at)];
    return "h:" + listing_.short_id(atom) + " " + place_of(listing_, atom);
  }
  std::string bucket_name(std::int32_t at) const {
    return at == kUnassigned ? "(unassigned)" : plan_.buckets[static_cast<std::size_t>(at)].name;
  }

  void inputs() {
    const auto commit = [](const Commit& c) {
      return to_hex(c.id) + " " + c.message.substr(0, c.message.find('\n'));
    };
    report_.inputs = {{"tool", std::string("tessera-stack ") + kVersion},
                      {"base", commit(workspace_.base)},
                      {"target", commit(workspace_.target)},
                      {"tree", plan_.source},
                      {"tree digest", state_.verification.tree.digest}};
    if (!workspace_.raw_tree.image.empty()) report_.inputs.emplace_back("image", workspace_.raw_tree.image);
    if (!workspace_.raw_tree.layers.empty())
      report_.inputs.emplace_back("layers", std::to_string(workspace_.raw_tree.layers.size()));
    for (const auto& [key, value] : workspace_.raw_tree.labels)
      report_.inputs.emplace_back("label " + key, value);
    report_.inputs.emplace_back("integration", to_hex(state_.verification.integration_commit));
    report_.inputs.emplace_back("reproduce",
                                "tessera-stack split && tessera-stack integrate && tessera-stack verify");
  }

  Result<void> add_bucket(std::int32_t at) {
    const Bucket& bucket = plan_.buckets[static_cast<std::size_t>(at)];
    ReportBucket out{.name = bucket.name,
                     .kind = std::string(name_of(bucket.kind)),
                     .status = bucket.status,
                     .link = bucket.link,
                     .title = bucket.title,
                     .why = bucket.why};
    for (const std::int32_t need : state_.graph.needs[static_cast<std::size_t>(at)])
      out.needs.push_back(bucket_name(need));
    for (const Edge& edge : state_.graph.edges) {
      if (edge.from == at && is_order(edge.kind))
        out.reasons.push_back("needs " + bucket_name(edge.to) + ": " + edge.witness);
    }
    std::set<std::string> files;
    std::vector<std::pair<std::int64_t, std::int32_t>> largest;
    bool has_tests = false;
    for (std::size_t i = 0; i < listing_.atoms.size(); ++i) {
      const AtomOwner& owner = workspace_.claims.ownership.atoms[i];
      const Atom& atom = listing_.atoms[i];
      const std::vector<std::int32_t> owners = owner.owners();
      if (std::ranges::find(owners, at) == owners.end()) continue;
      const std::int64_t added = owner.is_cut ? std::ranges::count(owner.added, at) : atom.at.new_count;
      const std::int64_t removed = owner.is_cut ? std::ranges::count(owner.removed, at) : atom.at.old_count;
      const std::string& path = listing_.file_of(atom).path;
      ++out.atoms;
      out.added += added;
      out.removed += removed;
      files.insert(path);
      has_tests |= is_test(path);
      largest.emplace_back(added + removed, static_cast<std::int32_t>(i));
      const bool is_excluded = std::ranges::any_of(
          plan_.max_lines_exclude, [&](const std::string& glob) { return glob_matches(glob, path); });
      if (!is_excluded) out.counted_lines += added + removed;
      const FileChange& file = listing_.file_of(atom);
      const PlacementKind placed = state_.ground.files[static_cast<std::size_t>(atom.file)]
                                       .placements[i - static_cast<std::size_t>(file.first_atom)]
                                       .kind;
      if (placed == PlacementKind::kMerged || placed == PlacementKind::kRemembered)
        out.look_first.push_back(named(static_cast<std::int32_t>(i)) + ", adapted to the target");
    }
    out.files.assign(files.begin(), files.end());
    out.line_limit = plan_.max_lines;
    std::ranges::stable_sort(largest, std::greater<>(), &std::pair<std::int64_t, std::int32_t>::first);
    for (std::size_t i = 0; i < largest.size() && i < 3; ++i) {
      const Atom& atom = listing_.atoms[static_cast<std::size_t>(largest[i].second)];
      out.look_first.push_back(named(largest[i].second) + ", +" + std::to_string(atom.at.new_count) + " -" +
                               std::to_string(atom.at.old_count));
    }
    for (const Edit& edit : plan_.edits) {
      if (edit.bucket == bucket.name) out.look_first.push_back(edit.path + ", text from nobody's tree");
    }
    if (bucket.kind == BucketKind::kUpstream && !has_tests)
      out.questions.push_back("No test is touched. Which one shows that this works?");
    if (bucket.kind != BucketKind::kUpstream && bucket.why.empty())
      out.questions.push_back("Why is this not for upstream?");
    std::string caption = std::to_string(files.size()) + (files.size() == 1 ? " file, +" : " files, +") +
                          std::to_string(out.added) + " -" + std::to_string(out.removed);
    for (const Topic& topic : state_.composition.topics) {
      if (topic.bucket != at) continue;
      out.branch = topic.ref.substr(11);
      if (topic.conflicts.empty() && !topic.is_empty) out.commit = to_hex(topic.commit);
      TS_TRY(out.last_change, last_change_of(topic.ref));
      report_.map.topics.push_back({bucket.name, out.kind, caption, out.needs});
      if (with_checks_ && !out.commit.empty() && !bucket.check.empty()) {
        TS_TRY(const std::vector<CheckResult> results,
               run_checks(workspace_.repository, topic.tree, bucket.check));
        for (const CheckResult& result : results)
          out.checks.push_back({result.command, result.status, result.last_line});
      }
    }
    if (out.checks.empty()) {
      for (const std::string& command : bucket.check) out.checks.push_back({command});
    }
    report_.buckets.push_back(std::move(out));
    return {};
  }

  // Of the newest operation that moved the branch.
  Result<std::optional<ReportRangeDiff>> last_change_of(const std::string& ref) const {
    for (auto at = operations_.rbegin(); at != operations_.rend(); ++at) {
      const auto change = std::ranges::find(at->refs, ref, &RefChange::name);
      if (change == at->refs.end() || !change->wanted) continue;
      TS_TRY(TopicDifference difference,
             compare_versions(workspace_.repository, change->expected, change->wanted));
      return std::optional(
          ReportRangeDiff{at->verb + " of " + at->when, difference.mark, std::move(difference.text)});
    }
    return std::optional<ReportRangeDiff>();
  }

  void add_paths() {
    for (const PathParity& parity : state_.verification.parity.paths) {
      ReportPath path{.parity = parity};
      if (const FileChange* file = listing_.find_file(parity.path)) {
        for (const Atom& atom : listing_.atoms_of(*file))
          path.atoms.push_back({listing_.short_id(atom), class_of(listing_, atom)});
      }
      std::tie(path.layer, path.created_by) = layer_of(parity.layer);
      report_.paths.push_back(std::move(path));
    }
  }

  // How a layer is named, and its build step; both empty for -1.
  std::pair<std::string, std::string> layer_of(std::int32_t at) const {
    const std::vector<Layer>& layers = workspace_.raw_tree.layers;
    if (at < 0 || static_cast<std::size_t>(at) >= layers.size()) return {};
    const Layer& layer = layers[static_cast<std::size_t>(at)];
    return {"layer " + std::to_string(at + 1) + " of " + std::to_string(layers.size()) + ", " + layer.digest,
            layer.created_by};
  }

  void add_origins() {
    for (const FileChange& file : listing_.files) {
      const TreeEntry* entry = workspace_.raw_tree.find(file.path);
      if (entry == nullptr) continue;
      auto [layer, created_by] = layer_of(entry->layer);
      if (!layer.empty()) report_.origins.push_back({file.path, std::move(layer), std::move(created_by)});
    }
  }

  Result<void> add_upstream() {
    if (workspace_.target.id == workspace_.base.id) return {};
    TS_TRY(const std::vector<UpstreamFinding> found, find_upstream(workspace_, workspace_.target));
    for (const UpstreamFinding& finding : found) {
      report_.upstream.push_back({named(finding.atom), std::string(name_of(finding.level)),
                                  finding.commit ? to_hex(*finding.commit) : ""});
    }
    return {};
  }

  Result<void> add_benchmarks() {
    for (const Benchmark& benchmark : plan_.benchmarks) {
      TS_TRY(const std::string text, load_text(workspace_.file.beside(benchmark.file)));
      TS_TRY(std::vector<BenchRow> rows, read_bench_rows(text, benchmark.file, benchmark.image));
      std::ranges::move(rows, std::back_inserter(report_.benchmarks));
    }
    return {};
  }

  const StackState& state_;
  const bool with_checks_;
  const Workspace& workspace_;
  const Plan& plan_;
  const Listing& listing_;
  std::vector<Operation> operations_;
  Report report_;
};

}  // namespace

Result<StackState> open_state(const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(Workspace workspace, open_workspace(path, session.progress()));
  if (!workspace.claims.errors.empty()) return workspace.claims.errors.front();
  Graph graph = graph_of(workspace);
  if (!graph.errors.empty()) return graph.errors.front();
  TS_TRY(check_identity(workspace, graph));
  TS_TRY(Ground ground, target_ground(workspace));
  TS_TRY(Composition composition, compose_topics(workspace, graph, ground));
  TS_TRY(Verification verification, verify_workspace(workspace, graph, ground, "", session));
  return StackState{std::move(workspace), std::move(graph), std::move(ground), std::move(composition),
                    std::move(verification)};
}

Result<Report> collect_report(const StackState& state, bool with_checks) {
  return Collector(state, with_checks).collect();
}

}  // namespace tessera::stack
