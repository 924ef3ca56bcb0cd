// What a patch file is to a tree: does it fit, where, is it there already, and are the texts known that it
// speaks of?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/patch/patch.h"
#include "stack/patch/placement.h"

namespace tessera::stack {

enum class PatchVerdict {
  kFits,          // every hunk, at its line or by a known preimage
  kFitsMoved,     // every hunk, somewhere else than stated
  kAlreadyThere,  // undoing it is clean
  kPartly,        // some hunks fit
  kDoesNotFit,    // none does
  kNoSuchFile,
  kFileExists,    // would create what is there with other content
  kBytesUnknown,  // binary without bytes, or against bytes that we do not have
};
std::string_view name_of(PatchVerdict verdict);

struct FileFinding {
  std::string path;
  PatchVerdict verdict = PatchVerdict::kDoesNotFit;
  std::optional<std::string> preimage{};   // the id of the known blob that the patch starts from
  std::optional<std::string> postimage{};  // and of the one that it leads to
  bool is_creation = false;                // the patch makes the file
  std::string preimage_id{};               // as the patch states them
  std::string postimage_id{};
  FilePlacement placement{};               // forward, or backward when it is there already
  std::optional<Oid> result{};             // of the content afterwards, or before when it is there already
  std::vector<std::int32_t> hunk_lines{};  // [hunks] their line in the patch file
};

struct PatchFinding {
  std::string name;          // of the patch file
  std::string unreadable{};  // "It is prose, no diff…": then nothing else is filled
  std::vector<FileFinding> files{};
  std::vector<std::string> warnings{};
};

struct NamedText {
  std::string name;
  std::string text;
};

struct ExamineInput {
  const Tree& tree;  // where the patches shall fit
  const BlobStore& blobs;
  std::vector<const Tree*> other_trees{};  // where else a named blob may be found, e.g. the base
};

std::vector<PatchFinding> examine_patches(const std::vector<NamedText>& patches, const ExamineInput& input);
// Sentences about pairs of patches: one text from two bases, the same patch twice.
std::vector<std::string> compare_findings(const std::vector<PatchFinding>& findings);
// For people: a few lines a file.
std::string describe(const PatchFinding& finding);

}  // namespace tessera::stack
