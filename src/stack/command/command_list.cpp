// list: all atoms, one a line. show: single atoms as differences with their evidence.
#include <nlohmann/json.hpp>

#include "stack/atom/glob.h"
#include "stack/command/atom_view.h"
#include "stack/command/verbs.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

bool path_wanted(const std::vector<std::string>& paths, const std::string& path) {
  if (paths.empty()) return true;
  for (const std::string& wanted : paths) {
    if (path == wanted || path.starts_with(wanted + "/") || glob_matches(wanted, path)) return true;
  }
  return false;
}

}  // namespace

Result<Exit> run_list(const ListOptions& options, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const Workspace workspace, open_workspace(path, session.progress()));
  const Listing& listing = workspace.listing;
  std::optional<std::int32_t> bucket;
  if (!options.bucket.empty()) {
    bucket = workspace.plan().find_bucket(options.bucket);
    if (!bucket)
      return Error{ErrorKind::kNotFound, path,
                   with_next("No bucket is called '" + options.bucket + "'", "tessera-stack plan graph")};
  }
  if (options.unassigned) bucket = kUnassigned;
  for (const std::string& wanted : options.paths) {
    const bool is_there = std::ranges::any_of(
        listing.files, [&](const FileChange& file) { return path_wanted({wanted}, file.path); });
    if (is_there) continue;
    TS_TRY(check_glob(wanted));
  }
  std::vector<std::vector<std::string>> rows;
  nlohmann::ordered_json atoms = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < listing.atoms.size(); ++i) {
    const Atom& atom = listing.atoms[i];
    const AtomOwner& owner = workspace.claims.ownership.atoms[i];
    const std::vector<std::int32_t> owners = owner.owners();
    if (bucket && std::ranges::find(owners, *bucket) == owners.end()) continue;
    if (!path_wanted(options.paths, listing.file_of(atom).path)) continue;
    if (session.json) {
      atoms.push_back(atom_json(workspace, static_cast<std::int32_t>(i)));
    } else {
      rows.push_back({"h:" + listing.short_id(atom), "+" + std::to_string(atom.at.new_count),
                      "-" + std::to_string(atom.at.old_count), std::string(name_of(atom.kind)),
                      bucket_names(workspace.plan(), owner), place_of(listing, atom),
                      first_line(listing, atom)});
    }
  }
  if (!rows.empty()) session.out << table(rows);
  const std::int64_t unassigned = workspace.claims.ownership.unassigned();
  session.say(std::to_string(rows.size()) + " of " + std::to_string(listing.atoms.size()) + " atoms; " +
              std::to_string(unassigned) + " unassigned in all");
  for (const Unreadable& gone : listing.unreadable)
    session.warn("unreadable: " + gone.path + ": " + gone.why);
  nlohmann::ordered_json unreadable = nlohmann::ordered_json::array();
  for (const Unreadable& gone : listing.unreadable) {
    nlohmann::ordered_json entry;
    put_path(entry, gone.path);
    entry["why"] = gone.why;
    unreadable.push_back(entry);
  }
  session.answer("list", {{"listing", listing.fingerprint},
                          {"total", listing.atoms.size()},
                          {"unassigned", unassigned},
                          {"atoms", atoms},
                          {"unreadable", unreadable}});
  return Exit::kTrue;
}

Result<Exit> run_show(const ShowOptions& options, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const Workspace workspace, open_workspace(path, session.progress()));
  const Listing& listing = workspace.listing;
  if (options.ids.empty())
    return Error{ErrorKind::kInvalidArgument, "show",
                 with_next("Name atoms, or give --patch FILE", "tessera-stack list")};
  nlohmann::ordered_json atoms = nlohmann::ordered_json::array();
  for (const std::string& written : options.ids) {
    TS_TRY(const std::int32_t at, find_atom(listing, written));
    const Atom& atom = listing.atoms[static_cast<std::size_t>(at)];
    const AtomOwner& owner = workspace.claims.ownership.atoms[static_cast<std::size_t>(at)];
    const FileChange& file = listing.file_of(atom);
    nlohmann::ordered_json json = atom_json(workspace, at);
    const TreeEntry* entry = workspace.raw_tree.find(file.path);
    std::string head = "h:" + atom.id + "  " + std::string(name_of(atom.kind)) + "  " + printable(file.path);
    session.say(head);
    session.say("bucket: " + bucket_names(workspace.plan(), owner) +
                (atom.ordinal > 0 ? "   equal atoms before it: " + std::to_string(atom.ordinal) : ""));
    if (atom.is_reindent) session.say("reindent: removed and added lines differ in leading white space only");
    if (entry != nullptr && entry->layer >= 0) {
      const Layer& layer = workspace.raw_tree.layers[static_cast<std::size_t>(entry->layer)];
      session.say("layer: " + layer.digest + "  " + printable(layer.created_by));
    }
    if (atom.kind != AtomKind::kText) {
      session.say(first_line(listing, atom));
      atoms.push_back(json);
      continue;
    }
    std::string sections;
    for (const Section& section : atom.sections) sections += " " + printable(section.line);
    const auto& lines = file.old_text.lines;
    const std::int32_t begin = std::max(0, atom.at.old_begin - options.context);
    const std::int32_t end = std::min(static_cast<std::int32_t>(lines.size()),
                                      atom.at.old_begin + atom.at.old_count + options.context);
    const auto shown = [&](char sign, std::string_view line, const std::string& mark) {
      const bool ended = line.ends_with('\n');
      std::string text = printable(line.substr(0, line.size() - (ended ? 1 : 0)));
      session.say(std::string(1, sign) + text + (ended ? "" : "  \\ no newline at the end of the file") +
                  mark);
    };
    session.say("@@ -" + std::to_string(begin + 1) + "," + std::to_string(end - begin) + " @@" + sections);
    const auto mark = [&](const std::vector<std::int32_t>& owners, std::size_t i, char sign) {
      if (!owner.is_cut) return std::string();
      const std::int32_t who = owners[i];
      return "    <" + std::string(1, sign) + std::to_string(i + 1) + " " +
             (who == kUnassigned ? std::string("-")
                                 : workspace.plan().buckets[static_cast<std::size_t>(who)].name) +
             ">";
    };
    for (std::int32_t i = begin; i < atom.at.old_begin; ++i)
      shown(' ', lines[static_cast<std::size_t>(i)], "");
    const auto removed = listing.removed(atom);
    const auto added = listing.added(atom);
    for (std::size_t i = 0; i < removed.size(); ++i) shown('-', removed[i], mark(owner.removed, i, '-'));
    for (std::size_t i = 0; i < added.size(); ++i) shown('+', added[i], mark(owner.added, i, '+'));
    for (std::int32_t i = atom.at.old_begin + atom.at.old_count; i < end; ++i)
      shown(' ', lines[static_cast<std::size_t>(i)], "");
    const auto texts = [](std::span<const std::string_view> span) {
      nlohmann::ordered_json out = nlohmann::ordered_json::array();
      for (const std::string_view line : span) out.push_back(std::string(line));
      return out;
    };
    json["removed"] = texts(removed);
    json["added"] = texts(added);
    atoms.push_back(json);
  }
  session.answer("show", {{"atoms", atoms}});
  return Exit::kTrue;
}

}  // namespace tessera::stack
