#include "stack/command/atom_view.h"

#include <nlohmann/json.hpp>

#include "stack/command/session.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"
#include "stack/object/tree_digest.h"

namespace tessera::stack {

std::string bucket_names(const Plan& plan, const AtomOwner& owner) {
  std::string out;
  for (const std::int32_t at : owner.owners()) {
    out += (out.empty() ? "" : "+") +
           (at == kUnassigned ? std::string("-") : plan.buckets[static_cast<std::size_t>(at)].name);
  }
  return out;
}

std::string place_of(const Listing& listing, const Atom& atom) {
  const std::string& path = listing.file_of(atom).path;
  return atom.kind == AtomKind::kText ? path + ":" + std::to_string(atom.at.new_begin + 1) : path;
}

std::string first_line(const Listing& listing, const Atom& atom) {
  const FileChange& file = listing.file_of(atom);
  switch (atom.kind) {
    case AtomKind::kCreate:
      return "created, mode " + mode_text(file.after->mode);
    case AtomKind::kDelete:
      return "deleted";
    case AtomKind::kType:
      return mode_text(file.before->mode) + " -> " + mode_text(file.after->mode);
    case AtomKind::kMode:
      return mode_text(file.before->mode) + " -> " + mode_text(file.after->mode);
    case AtomKind::kBinary:
      return to_hex(file.before->oid).substr(0, 12) + " -> " + to_hex(file.after->oid).substr(0, 12);
    case AtomKind::kText:
      break;
  }
  const auto lines = listing.added(atom).empty() ? listing.removed(atom) : listing.added(atom);
  for (std::string_view line : lines) {
    const std::size_t begin = line.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) continue;
    line = line.substr(begin);
    line = line.substr(0, line.find_last_not_of(" \t\r\n") + 1);
    return (listing.added(atom).empty() ? "- " : "+ ") + std::string(line.substr(0, 60));
  }
  return listing.added(atom).empty() ? "- (blank)" : "+ (blank)";
}

nlohmann::ordered_json atom_json(const Workspace& workspace, std::int32_t at) {
  const Listing& listing = workspace.listing;
  const Atom& atom = listing.atoms[static_cast<std::size_t>(at)];
  const AtomOwner& owner = workspace.claims.ownership.atoms[static_cast<std::size_t>(at)];
  nlohmann::ordered_json out{
      {"id", atom.id}, {"short", listing.short_id(atom)}, {"kind", name_of(atom.kind)}};
  put_path(out, listing.file_of(atom).path);
  if (atom.kind == AtomKind::kText) {
    out["old"] = {{"line", atom.at.old_begin + 1}, {"count", atom.at.old_count}};
    out["new"] = {{"line", atom.at.new_begin + 1}, {"count", atom.at.new_count}};
    out["reindent"] = atom.is_reindent;
    nlohmann::ordered_json sections = nlohmann::ordered_json::array();
    for (const Section& section : atom.sections)
      sections.push_back(section.kind + ":" + printable(section.name));
    out["sections"] = sections;
  }
  out["ordinal"] = atom.ordinal;
  nlohmann::ordered_json buckets = nlohmann::ordered_json::array();
  for (const std::int32_t bucket : owner.owners()) {
    buckets.push_back(
        bucket == kUnassigned
            ? nlohmann::ordered_json(nullptr)
            : nlohmann::ordered_json(workspace.plan().buckets[static_cast<std::size_t>(bucket)].name));
  }
  out["buckets"] = buckets;
  out["first_line"] = printable(first_line(listing, atom));
  return out;
}

Result<std::int32_t> find_atom(const Listing& listing, std::string_view written) {
  const std::string_view id = written.starts_with("h:") ? written.substr(2) : written;
  const std::vector<std::int32_t> found = listing.find(id);
  if (id.size() >= 4 && found.size() == 1) return found[0];
  if (found.empty())
    return Error{ErrorKind::kNotFound, std::string(written),
                 with_next("No atom has this id", "tessera-stack list")};
  std::string candidates;
  for (std::size_t i = 0; i < found.size() && i < 8; ++i) {
    const Atom& atom = listing.atoms[static_cast<std::size_t>(found[i])];
    candidates +=
        (i == 0 ? "" : ", ") + ("h:" + listing.short_id(atom)) + " (" + place_of(listing, atom) + ")";
  }
  return Error{ErrorKind::kInvalidArgument, std::string(written),
               with_next("This id is too short; it could be " + candidates,
                         "tessera-stack show h:" +
                             listing.short_id(listing.atoms[static_cast<std::size_t>(found.front())]))};
}

}  // namespace tessera::stack
