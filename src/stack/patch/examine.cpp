#include "stack/patch/examine.h"

#include <algorithm>
#include <map>

#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/patch/patch_reader.h"

namespace tessera::stack {
namespace {

bool is_absent_id(std::string_view id) { return id.find_first_not_of('0') == std::string_view::npos; }

class Examination {
 public:
  explicit Examination(const ExamineInput& input) : input_(input) {}

  FileFinding examine(const FilePatch& patch) const {
    FileFinding out{.path = patch.path(),
                    .is_creation = patch.old_path.empty(),
                    .preimage_id = patch.old_id,
                    .postimage_id = patch.new_id};
    for (const Hunk& hunk : patch.hunks) out.hunk_lines.push_back(hunk.patch_line);
    std::optional<std::string> preimage, postimage;
    if (const auto oid = find_blob(patch.old_id)) {
      out.preimage = to_hex(*oid);
      preimage = bytes_of(*oid);
    }
    if (const auto oid = find_blob(patch.new_id)) {
      out.postimage = to_hex(*oid);
      postimage = bytes_of(*oid);
    }
    const std::string& where = patch.old_path.empty() ? patch.new_path : patch.old_path;
    const TreeEntry* entry = input_.tree.find(where);
    // After a rename the content stands under the new name.
    const TreeEntry* renamed = patch.is_rename ? input_.tree.find(patch.new_path) : nullptr;
    if (patch.new_path.empty()) {
      examine_deletion(patch, entry, out);
      return out;
    }
    if (entry == nullptr && renamed != nullptr) entry = renamed;
    const std::optional<std::string> content = entry == nullptr ? std::nullopt : bytes_of(entry->oid);
    if (entry != nullptr && !content) {
      out.verdict = PatchVerdict::kBytesUnknown;
      return out;
    }
    if (patch.old_path.empty()) {
      examine_creation(patch, content, out);
      return out;
    }
    if (!content) {
      out.verdict = PatchVerdict::kNoSuchFile;
      return out;
    }
    if (patch.is_binary) {
      examine_binary(patch, *content, out);
      return out;
    }
    examine_text(patch, *content, preimage, postimage, out);
    return out;
  }

 private:
  std::optional<std::string> bytes_of(const Oid& oid) const {
    auto bytes = input_.blobs.read(oid);
    if (!bytes) return std::nullopt;
    return *std::move(bytes);
  }

  // The one blob of the known trees whose id begins so; nothing when several do.
  std::optional<Oid> find_blob(const std::string& id) const {
    if (id.size() < 7 || is_absent_id(id)) return std::nullopt;
    if (const auto whole = oid_from_hex(id)) {
      if (input_.blobs.contains(*whole)) return whole;
      return std::nullopt;
    }
    std::optional<Oid> found;
    const auto search = [&](const Tree& tree) {
      for (const TreeEntry& entry : tree.entries) {
        if (entry.mode == FileMode::kGitlink || !to_hex(entry.oid).starts_with(id)) continue;
        if (found && *found != entry.oid) return false;
        found = entry.oid;
      }
      return true;
    };
    bool unique = search(input_.tree);
    for (const Tree* tree : input_.other_trees) unique = unique && search(*tree);
    return unique ? found : std::nullopt;
  }

  static void examine_deletion(const FilePatch& patch, const TreeEntry* entry, FileFinding& out) {
    if (entry == nullptr) {
      out.verdict = PatchVerdict::kAlreadyThere;
    } else {
      const bool same = !patch.old_id.empty() && to_hex(entry->oid).starts_with(patch.old_id);
      out.verdict = same ? PatchVerdict::kFits : PatchVerdict::kDoesNotFit;
    }
    return;
  }

  static void examine_creation(const FilePatch& patch, const std::optional<std::string>& content,
                               FileFinding& out) {
    const auto created = apply_exactly(patch, "");
    if (!created) {
      out.verdict = PatchVerdict::kBytesUnknown;
      return;
    }
    out.result = blob_oid(*created);
    out.verdict = !content               ? PatchVerdict::kFits
                  : *content == *created ? PatchVerdict::kAlreadyThere
                                         : PatchVerdict::kFileExists;
    return;
  }

  static void examine_binary(const FilePatch& patch, const std::string& content, FileFinding& out) {
    const std::string id = to_hex(blob_oid(content));
    if (!patch.new_id.empty() && id.starts_with(patch.new_id)) {
      out.verdict = PatchVerdict::kAlreadyThere;
    } else if (!patch.old_id.empty() && id.starts_with(patch.old_id)) {
      const auto changed = apply_exactly(patch, content);
      out.verdict = changed ? PatchVerdict::kFits : PatchVerdict::kBytesUnknown;
      if (changed) out.result = blob_oid(*changed);
    } else {
      out.verdict = PatchVerdict::kDoesNotFit;
    }
    return;
  }

  static void examine_text(const FilePatch& patch, const std::string& content,
                           const std::optional<std::string>& preimage,
                           const std::optional<std::string>& postimage, FileFinding& out) {
    if (patch.hunks.empty()) {  // a mode, or a pure rename
      out.verdict = PatchVerdict::kFits;
      return;
    }
    out.placement = place_hunks(patch, content, preimage);
    FilePlacement backward = place_hunks(reversed(patch), content, postimage);
    // Undoing is the stronger claim when it works at full context: the lines that the patch adds are there.
    const bool undoes = backward.result && backward.weakest() <= Rung::kUnique;
    if (undoes && !(out.placement.result && out.placement.weakest() <= Rung::kExact)) {
      out.verdict = PatchVerdict::kAlreadyThere;
      out.placement = std::move(backward);
      out.result = blob_oid(*out.placement.result);
      return;
    }
    const auto placed = std::count_if(out.placement.hunks.begin(), out.placement.hunks.end(),
                                      [](const HunkPlacement& hunk) { return hunk.is_placed(); });
    if (out.placement.result) {
      const bool moved = std::any_of(
          out.placement.hunks.begin(), out.placement.hunks.end(),
          [](const HunkPlacement& hunk) { return hunk.offset != 0 || hunk.rung == Rung::kReduced; });
      out.verdict = moved ? PatchVerdict::kFitsMoved : PatchVerdict::kFits;
      out.result = blob_oid(*out.placement.result);
    } else {
      out.verdict = placed > 0 ? PatchVerdict::kPartly : PatchVerdict::kDoesNotFit;
    }
    return;
  }

  const ExamineInput& input_;
};

std::string describe_hunk(const HunkPlacement& hunk, std::int32_t patch_line) {
  std::string out = "    hunk at patch line " + std::to_string(patch_line) + ": ";
  switch (hunk.rung) {
    case Rung::kNowhere:
      return out + "fits nowhere\n";
    case Rung::kAmbiguous: {
      out += hunk.candidates.empty() ? "has no context that would tell where it belongs"
                                     : "fits in " + std::to_string(hunk.candidate_count) + " places, lines";
      for (const std::int64_t line : hunk.candidates) out += ' ' + std::to_string(line);
      return out + '\n';
    }
    case Rung::kMapped:
    case Rung::kExact:
    case Rung::kUnique:
    case Rung::kReduced:
      break;
  }
  out += "line " + std::to_string(hunk.line) + ", " + std::string(name_of(hunk.rung));
  if (hunk.offset != 0) out += ", offset " + std::to_string(hunk.offset);
  if (hunk.context_dropped > 0)
    out += ", " + std::to_string(hunk.context_dropped) + " context lines not looked at";
  return out + '\n';
}

}  // namespace

std::string_view name_of(PatchVerdict verdict) {
  switch (verdict) {
    case PatchVerdict::kFits:
      return "fits";
    case PatchVerdict::kFitsMoved:
      return "fits elsewhere";
    case PatchVerdict::kAlreadyThere:
      return "already there";
    case PatchVerdict::kPartly:
      return "fits in part";
    case PatchVerdict::kDoesNotFit:
      return "does not fit";
    case PatchVerdict::kNoSuchFile:
      return "no such file";
    case PatchVerdict::kFileExists:
      return "file exists";
    case PatchVerdict::kBytesUnknown:
      return "bytes unknown";
  }
  return "unknown";
}

std::vector<PatchFinding> examine_patches(const std::vector<NamedText>& patches, const ExamineInput& input) {
  const Examination examination(input);
  std::vector<PatchFinding> out;
  for (const NamedText& named : patches) {
    PatchFinding finding{.name = named.name};
    auto patch = read_patch(named.text, printable(named.name));
    if (!patch) {
      finding.unreadable = patch.error().message();
    } else {
      finding.warnings = patch->warnings;
      for (const FilePatch& file : patch->files) finding.files.push_back(examination.examine(file));
    }
    out.push_back(std::move(finding));
  }
  return out;
}

std::vector<std::string> compare_findings(const std::vector<PatchFinding>& findings) {
  struct Seen {
    std::string patch;
    std::string preimage;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Seen>> by_result;  // path, postimage
  std::vector<std::string> out;
  for (const PatchFinding& finding : findings) {
    for (const FileFinding& file : finding.files) {
      if (file.postimage_id.empty() || is_absent_id(file.postimage_id)) continue;
      auto& seen = by_result[{file.path, file.postimage_id}];
      for (const Seen& other : seen) {
        const std::string pair = printable(other.patch) + " and " + printable(finding.name);
        if (other.preimage == file.preimage_id) {
          out.push_back(pair + " change " + printable(file.path) + " in the same way.");
        } else {
          out.push_back(pair + " lead to one text of " + printable(file.path) + " (" + file.postimage_id +
                        ") from two bases (" + other.preimage + ", " + file.preimage_id + ").");
        }
      }
      seen.push_back({finding.name, file.preimage_id});
    }
  }
  return out;
}

std::string describe(const PatchFinding& finding) {
  if (!finding.unreadable.empty()) return finding.unreadable + '\n';
  std::string out = printable(finding.name) + "\n";
  for (const FileFinding& file : finding.files) {
    out += "  " + printable(file.path) + ": " + std::string(name_of(file.verdict)) + '\n';
    if (!file.preimage_id.empty() && !is_absent_id(file.preimage_id)) {
      out += "    made against " + file.preimage_id +
             (file.preimage ? ", which is known" : ", which is nowhere in the known trees") + '\n';
    }
    if (!file.postimage_id.empty() && !is_absent_id(file.postimage_id)) {
      out += "    leads to " + file.postimage_id +
             (file.postimage ? ", which is known" : ", which is nowhere in the known trees") + '\n';
    }
    for (std::size_t i = 0; i < file.placement.hunks.size(); ++i) {
      out += describe_hunk(file.placement.hunks[i], file.hunk_lines[i]);
    }
    if (file.is_creation && file.verdict == PatchVerdict::kAlreadyThere) {
      out += "    is absent without it\n";
    } else if (file.result) {
      out += std::string("    gives ") + (file.verdict == PatchVerdict::kAlreadyThere ? "without it " : "") +
             to_hex(*file.result).substr(0, 12) + '\n';
    }
  }
  for (const std::string& warning : finding.warnings) out += "  " + warning + '\n';
  return out;
}

}  // namespace tessera::stack
