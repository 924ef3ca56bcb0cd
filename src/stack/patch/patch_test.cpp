// The reader and writer against git: every form of `git diff` is read and gives the tree, and git takes back
// what we write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "base/test_seed.h"
#include "stack/git/line_diff.h"
#include "stack/git/repository.h"
#include "stack/git/scratch_repository.h"
#include "stack/object/digest.h"
#include "stack/object/memory_store.h"
#include "stack/object/tree_digest.h"
#include "stack/patch/binary_patch.h"
#include "stack/patch/examine.h"
#include "stack/patch/patch_reader.h"
#include "stack/patch/patch_writer.h"
#include "stack/patch/path_quote.h"
#include "stack/patch/placement.h"
#include "stack/patch/range_diff.h"

namespace tessera::stack {
namespace {

PatchFile read(std::string_view text) {
  auto patch = read_patch(text, "test.patch");
  EXPECT_TRUE(patch) << patch.error().message();
  return patch ? *std::move(patch) : PatchFile{};
}

using Files = std::map<std::string, std::pair<FileMode, std::string>>;

Files files_of(const Repository& repository, const std::string& revision) {
  Files out;
  const auto tree = repository.read_tree(*repository.resolve_commit(revision));
  for (const TreeEntry& entry : tree->entries) {
    out[entry.path] = {entry.mode, entry.mode == FileMode::kGitlink
                                       ? "Subproject commit " + to_hex(entry.oid) + "\n"
                                       : *repository.read(entry.oid)};
  }
  return out;
}

// Applies a whole patch the plain way, as an oracle for reading alone.
Files applied(Files files, const PatchFile& patch) {
  const Files before = files;
  for (const FilePatch& file : patch.files) {
    if (!file.old_path.empty() && !file.is_copy) files.erase(file.old_path);
  }
  for (const FilePatch& file : patch.files) {
    if (file.new_path.empty()) continue;
    const auto old = before.find(file.old_path);
    const std::string old_bytes = old == before.end() ? "" : old->second.second;
    auto bytes = apply_exactly(file, old_bytes);
    EXPECT_TRUE(bytes) << bytes.error().message();
    const FileMode mode = file.new_mode         ? *file.new_mode
                          : old == before.end() ? FileMode::kFile
                                                : old->second.first;
    if (bytes) files[file.new_path] = {mode, *bytes};
  }
  return files;
}

// One commit with everything that goes wrong in practice.
void torture(const ScratchRepository& repository) {
  const auto mode = [&](const char* name, bool executable) {
    using std::filesystem::perms;
    std::filesystem::permissions(repository / name,
                                 executable ? perms::owner_all : perms::owner_read | perms::owner_write);
  };
  std::string twenty;
  for (int i = 0; i < 20; ++i) twenty += "line " + std::to_string(i) + "\n";
  repository.write("empty-deleted", "");
  repository.write("to-empty", "a\nb\n");
  repository.write("from-empty", "");
  repository.write("loses-newline", "a\nb\n");
  repository.write("gains-newline", "a\nb");
  repository.write("never-newline", "a\nb");
  repository.write("crlf", "a\r\nb\nc\r\n");
  repository.write("mode-only", "x\n");
  repository.write("mode-and-text", "x\n");
  std::filesystem::create_symlink("one", repository / "retargeted");
  std::filesystem::create_symlink("one", repository / "link-to-file");
  repository.write("file-to-folder", "x\n");
  repository.write("binary", std::string("\0\1\2", 3) + std::string(200, 'z'));
  repository.write("with space.txt", "a\nb\n");
  repository.write("tab\tname", "a\n");
  repository.write("quo\"te", "a\n");
  repository.write("E=257,[128,128].json", "{}\n");
  repository.write("caf\xe9", "a\n");
  repository.write("signature", "a\n-- \nb\n--- x\n+++ y\nc\n");
  repository.write("lone-cr", "a\rb\nc\n");
  repository.write("renamed-from", twenty);
  repository.write("copied", twenty + "more\n");
  repository.write("Case", twenty + "case\n");
  repository.write("big", twenty + twenty + twenty);
  repository.commit("before");
  for (const char* gone :
       {"empty-deleted", "retargeted", "link-to-file", "file-to-folder", "renamed-from", "Case"})
    repository.remove(gone);
  repository.write("empty-created", "");
  repository.write("to-empty", "");
  repository.write("from-empty", "now\n");
  repository.write("loses-newline", "a\nb");
  repository.write("gains-newline", "a\nb\n");
  repository.write("never-newline", "a\nc");
  repository.write("crlf", "a\r\nB\r\nc\r\n");
  mode("mode-only", true);
  repository.write("mode-and-text", "y\n");
  mode("mode-and-text", true);
  std::filesystem::create_symlink("two", repository / "retargeted");
  repository.write("link-to-file", "one");
  repository.write("file-to-folder/x", "x\n");
  repository.write("binary", std::string("\0\1\3", 3) + std::string(200, 'z') + std::string(100, 'y'));
  repository.write("new binary", std::string(300, '\0'));
  repository.write("with space.txt", "a\nB\n");
  repository.write("new with space.txt", "n\n");
  repository.write("tab\tname", "b\n");
  repository.write("quo\"te", "b\n");
  repository.write("E=257,[128,128].json", "{ }\n");
  repository.write("caf\xe9", "b\n");
  repository.write("signature", "a\nb\nc\n");
  repository.write("lone-cr", "a\rB\nc\n");
  repository.write("renamed to", twenty + "x\n");
  repository.write("copied-again", twenty + "more\n");
  repository.write("case", twenty + "case\n");
  std::string big = twenty + twenty + twenty;
  big.insert(0, "top\n");
  big.replace(big.find("line 19\nline 0"), 8, "LINE 19\n");
  repository.write("big", big + "bottom");
  repository.commit("after");
}

TEST(PatchReader, EveryFormOfGitDiffGivesTheTree) {
  const ScratchRepository scratch;
  torture(scratch);
  const auto repository = Repository::open(scratch.path());
  ASSERT_TRUE(repository);
  const Files before = files_of(*repository, "HEAD~1"), after = files_of(*repository, "HEAD");
  for (const char* options :
       {"-U3 --binary", "-U0 --binary", "-U1 --binary --full-index", "--binary -M",
        "--binary -M -C --find-copies-harder", "--binary --no-prefix", "--binary -M --no-prefix",
        "--binary --src-prefix=i/ --dst-prefix=w/", "--binary -R", "--binary --minimal -U8", "--binary -M -B",
        "--binary --patience --abbrev=7"}) {
    SCOPED_TRACE(options);
    scratch.git("diff " + std::string(options) + " --output=../" +
                std::filesystem::path(scratch.path()).filename().string() + ".patch HEAD~1 HEAD");
    std::ifstream in(scratch.path() + ".patch", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const bool backwards = std::string_view(options).find("-R") != std::string_view::npos;
    const PatchFile patch = read(text);
    EXPECT_EQ(applied(backwards ? after : before, patch), backwards ? before : after);
    // And undone from its own other direction; copies have none.
    if (std::string_view(options).find("-C") == std::string_view::npos) {
      PatchFile undo;
      for (const FilePatch& file : patch.files) undo.files.push_back(reversed(file));
      EXPECT_EQ(applied(backwards ? before : after, undo), backwards ? after : before);
    }
    std::filesystem::remove(scratch.path() + ".patch");
  }
}

TEST(PatchReader, MailsOfGitFormatPatchAreReadThroughTheirProse) {
  const ScratchRepository scratch;
  torture(scratch);
  const auto repository = Repository::open(scratch.path());
  const PatchFile patch = read(scratch.git("format-patch --stdout --binary -1"));
  EXPECT_EQ(applied(files_of(*repository, "HEAD~1"), patch), files_of(*repository, "HEAD"));
}

TEST(PatchReader, ProseIsNoEmptyDifference) {
  const auto prose = read_patch("--- PROPOSED FIX\nChange the lengths:\n+ use the CPU copy\n", "fix.patch");
  ASSERT_FALSE(prose);
  EXPECT_EQ(prose.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(prose.error().what.find("prose, no diff"), std::string::npos);
  EXPECT_FALSE(read_patch("", "empty.patch"));
}

TEST(PatchReader, CountsDecideNotLooks) {
  const PatchFile patch = read("--- a/x\n+++ b/x\n@@ -1,4 +1,2 @@\n a\n--- \n--- x\n \n-- \n2.39.5\n");
  ASSERT_EQ(patch.files.size(), 1U);
  ASSERT_EQ(patch.files[0].hunks[0].lines.size(), 4U);
  EXPECT_EQ(patch.files[0].hunks[0].lines[1].text, "-- \n");
}

TEST(PatchReader, EmptyContextLineMayHaveLostItsBlank) {
  const PatchFile patch = read("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n");
  EXPECT_EQ(*apply_exactly(patch.files[0], "a\n\nb\n"), "a\n\nc\n");
}

TEST(PatchReader, ShortHunkNamesTheLineAndWhatIsMissing) {
  const auto patch = read_patch("--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b\n", "x.patch");
  ASSERT_FALSE(patch);
  EXPECT_EQ(patch.error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(patch.error().where, "x.patch:6");
}

TEST(PatchReader, PlainDiffsKeepTheirNames) {
  EXPECT_EQ(read("--- x.orig\t2026-01-01\n+++ x\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n").files[0].path(), "x");
  EXPECT_EQ(read("--- a/p q\t\n+++ b/p q\t\n@@ -1 +1 @@\n-a\n+b\n").files[0].path(), "p q");
  EXPECT_TRUE(read("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n").files[0].old_path.empty());
}

TEST(PatchReader, BinaryWithoutBytesIsSaid) {
  const PatchFile patch = read(
      "diff --git a/x.so b/x.so\nindex 1234567..89abcde 100755\nBinary files a/x.so and b/x.so differ\n");
  ASSERT_EQ(patch.warnings.size(), 1U);
  EXPECT_EQ(apply_exactly(patch.files[0], "").error().kind, ErrorKind::kUnsupported);
}

TEST(PathQuote, GoesThereAndBack) {
  for (const std::string& path : {std::string("plain"), std::string("with space"), std::string("t\tn\n\"\\"),
                                  std::string("caf\xc3\xa9")}) {
    const std::string quoted = quote_path(path);
    if (quoted == path) continue;
    EXPECT_EQ(unquote_path(quoted)->path, path);
    EXPECT_EQ(unquote_path(quoted + " rest")->length, quoted.size());
  }
  EXPECT_EQ(quote_path("with space"), "with space");
  EXPECT_EQ(quote_path("caf\xc3\xa9"), "\"caf\\303\\251\"");
  EXPECT_FALSE(unquote_path("\"open"));
  EXPECT_FALSE(unquote_path("\"\\9\""));
}

TEST(BinaryPatch, Base85GoesThereAndBack) {
  std::string bytes;
  for (int i = 0; i < 52; ++i) bytes += static_cast<char>(i * 37);
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    const std::string part = bytes.substr(0, size);
    EXPECT_EQ(*decode_base85(encode_base85(part), size), part);
  }
  EXPECT_FALSE(decode_base85("~~~~~", 4));  // over 32 bits
  EXPECT_FALSE(decode_base85("abc", 4));
}

TEST(BinaryPatch, LyingSizesAreRefused) {
  EXPECT_FALSE(inflate_exactly(deflate("hello"), 4));
  EXPECT_FALSE(inflate_exactly(deflate("hello"), 6));
  EXPECT_EQ(*inflate_exactly(deflate(""), 0), "");
  EXPECT_FALSE(apply_delta("abc", std::string("\x03\x05\x90\x09", 4), 100));  // copies from behind the end
  EXPECT_FALSE(apply_delta("abc", std::string("\x04\x01\x90\x01", 4), 100));  // made for another size
}

// Our own patch of two commits, applied by git, gives the second commit's tree.
void expect_git_takes(const ScratchRepository& scratch, int context) {
  auto repository = Repository::open(scratch.path());
  const auto before = repository->read_tree(*repository->resolve_commit("HEAD~1"));
  const auto after = repository->read_tree(*repository->resolve_commit("HEAD"));
  std::map<std::string, std::pair<const TreeEntry*, const TreeEntry*>> paths;
  for (const TreeEntry& entry : before->entries) paths[entry.path].first = &entry;
  for (const TreeEntry& entry : after->entries) paths[entry.path].second = &entry;
  std::string deletions, rest;
  for (const auto& [path, sides] : paths) {
    std::string old_bytes, new_bytes;
    const auto state = [&](const TreeEntry* entry, std::string& bytes) -> std::optional<PathState> {
      if (entry == nullptr) return std::nullopt;
      bytes = *repository->read(entry->oid);
      return PathState{.mode = entry->mode, .oid = entry->oid, .bytes = bytes};
    };
    const auto old_state = state(sides.first, old_bytes);
    const auto new_state = state(sides.second, new_bytes);
    (new_state ? rest : deletions) += write_file_patch(path, old_state, new_state, {.context = context});
  }
  const ScratchFolder folder;
  folder.write("p", deletions + rest);
  scratch.git("checkout -q HEAD~1");
  const CommandOutput out =
      scratch.try_git("apply --index " + std::string(context == 0 ? "--unidiff-zero " : "") + (folder / "p"));
  EXPECT_EQ(out.status, 0) << out.text;
  EXPECT_EQ(scratch.git("write-tree"), scratch.git("rev-parse main^{tree}"));
  scratch.git("reset -q --hard");
  scratch.git("checkout -q main");
}

TEST(PatchWriter, GitAppliesWhatWeWrite) {
  const ScratchRepository scratch;
  torture(scratch);
  for (const int context : {0, 1, 3, 50}) expect_git_takes(scratch, context);
}

TEST(PatchWriter, RandomEditsSurviveWritingAndReading) {
  // An open repository keeps libgit2 started; starting it anew for every difference takes ten milliseconds.
  const ScratchFolder folder;
  const auto keeps_libgit2 = Repository::create_bare(folder / "r");
  std::mt19937 random(20261130);
  for (int round = 0; round < 300; ++round) {
    const auto text = [&](int lines) {
      std::string out;
      for (int i = 0; i < lines; ++i) out += std::string(1, static_cast<char>('a' + random() % 4)) + "\n";
      if (random() % 4 == 0 && !out.empty()) out.pop_back();
      return out;
    };
    const std::string before = text(static_cast<int>(random() % 30));
    std::string after = before;
    for (int edits = 0; edits < 4; ++edits) after.insert(random() % (after.size() + 1), text(2));
    if (before == after) continue;
    const PathState old_state{.oid = blob_oid(before), .bytes = before},
        new_state{.oid = blob_oid(after), .bytes = after};
    const int context = static_cast<int>(random() % 4);
    const PatchFile patch = read(write_file_patch("x", old_state, new_state, {.context = context}));
    ASSERT_EQ(patch.files.size(), 1U);
    EXPECT_EQ(*apply_exactly(patch.files[0], before), after) << "round " << round;
    EXPECT_EQ(*apply_exactly(reversed(patch.files[0]), after), before) << "round " << round;
    EXPECT_EQ(place_hunks(patch.files[0], before, before).result, after) << "round " << round;
  }
}

TEST(Placement, ClimbsDownTheLadderAndSaysSo) {
  const PatchFile patch = read("--- a/x\n+++ b/x\n@@ -3,5 +3,5 @@\n c\n d\n-e\n+E\n f\n g\n");
  const FilePatch& file = patch.files[0];
  const FilePlacement exact = place_hunks(file, "a\nb\nc\nd\ne\nf\ng\nh\n");
  EXPECT_EQ(exact.hunks[0].rung, Rung::kExact);
  EXPECT_EQ(*exact.result, "a\nb\nc\nd\nE\nf\ng\nh\n");
  const FilePlacement moved = place_hunks(file, "new\nnew\na\nb\nc\nd\ne\nf\ng\nh\n");
  EXPECT_EQ(moved.hunks[0].rung, Rung::kUnique);
  EXPECT_EQ(moved.hunks[0].offset, 2);
  const FilePlacement reduced = place_hunks(file, "b\nC\nd\ne\nf\nG\n");
  EXPECT_EQ(reduced.hunks[0].rung, Rung::kReduced);
  EXPECT_EQ(*reduced.result, "b\nC\nd\nE\nf\nG\n");
  EXPECT_EQ(place_hunks(file, "q\n").hunks[0].rung, Rung::kNowhere);
}

TEST(Placement, SeveralCandidatesAreRefusedAndListed) {
  const PatchFile patch = read("--- a/x\n+++ b/x\n@@ -9,3 +9,3 @@\n c\n-d\n+D\n e\n");
  const FilePlacement placement = place_hunks(patch.files[0], "c\nd\ne\nx\nc\nd\ne\n");
  EXPECT_EQ(placement.hunks[0].rung, Rung::kAmbiguous);
  EXPECT_EQ(placement.hunks[0].candidates, (std::vector<std::int64_t>{1, 5}));
  EXPECT_FALSE(placement.result);
}

// The ladder by its words: one context line less at a time, from the longer side, until the rest stands
// somewhere.
std::pair<Rung, std::int64_t> placed_step_by_step(const Hunk& hunk, std::size_t lead, std::size_t trail,
                                                  const std::vector<std::string_view>& text) {
  const bool has_removed = std::ranges::count(hunk.lines, '-', &HunkLine::sign) > 0;
  std::vector<std::string> old_lines = hunk.side('-');
  for (int step = 0; !old_lines.empty() && (has_removed || lead + trail > 0); ++step) {
    std::int64_t count = 0;
    for (std::size_t at = 0; at + old_lines.size() <= text.size(); ++at)
      count += std::equal(old_lines.begin(), old_lines.end(), text.begin() + static_cast<std::ptrdiff_t>(at));
    if (count > 0) return {count > 1 ? Rung::kAmbiguous : step == 0 ? Rung::kUnique : Rung::kReduced, count};
    if (lead + trail == 0) break;
    if (lead >= trail) {
      --lead;
      old_lines.erase(old_lines.begin());
    } else {
      --trail;
      old_lines.pop_back();
    }
  }
  return {Rung::kNowhere, 0};
}

TEST(Placement, HalvingFindsWhatStepByStepFinds) {
  std::mt19937 random(test_seed());
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto line = [&] { return std::string(1, static_cast<char>('a' + below(2))) + "\n"; };
  std::map<Rung, int> seen;
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (std::size_t n = 1 + below(14); n > 0; --n) text += line();
    const std::size_t lead = below(5), trail = below(5), removed = below(3);
    Hunk hunk{.old_start = 1000, .old_count = static_cast<std::int64_t>(lead + trail + removed)};
    for (std::size_t i = 0; i < lead; ++i) hunk.lines.push_back({' ', line()});
    for (std::size_t i = 0; i < removed; ++i) hunk.lines.push_back({'-', line()});
    hunk.lines.push_back({'+', "new\n"});
    for (std::size_t i = 0; i < trail; ++i) hunk.lines.push_back({' ', line()});
    if (hunk.old_count == 0) continue;  // no evidence, another test's
    const auto [rung, count] = placed_step_by_step(hunk, lead, trail, split_lines(text));
    const HunkPlacement found = place_hunks({.hunks = {hunk}}, text).hunks[0];
    ASSERT_EQ(found.rung, rung) << "round " << round << "\n" << text;
    if (rung == Rung::kAmbiguous) {
      ASSERT_EQ(found.candidate_count, count) << "round " << round;
    }
    ++seen[rung];
  }
  EXPECT_EQ(seen.size(), 4U);  // each outcome was met
}

TEST(Placement, LongContextAndRepeatedLinesTakeNoQuadraticTime) {
  constexpr int kLines = 20'000;
  Hunk hunk{.old_start = 9 * kLines, .old_count = kLines + 1};
  std::string text;
  for (int i = 0; i < kLines; ++i) {
    hunk.lines.push_back({' ', i + 1 < kLines ? "a\n" : "z\n"});
    text += "a\na\n";
  }
  hunk.lines.push_back({'-', "b\n"});
  EXPECT_EQ(place_hunks({.hunks = {hunk}}, text).hunks[0].rung, Rung::kNowhere);
}

TEST(PatchReader, HeaderOfManyBlanksTakesNoQuadraticTime) {
  std::string header = "diff --git ";
  for (int i = 0; i < 100'000; ++i) header += "a ";
  EXPECT_FALSE(read_patch(header + "\nnew mode 100644\n", "p"));  // and it names no file
}

TEST(Placement, KnownPreimageBeatsSearching) {
  // The same block twice; only the map of lines knows that the second one is meant after lines moved.
  const std::string preimage = "c\nd\ne\nx\nc\nd\ne\n";
  const PatchFile patch = read("--- a/x\n+++ b/x\n@@ -5,3 +5,3 @@\n c\n-d\n+D\n e\n");
  const FilePlacement placement = place_hunks(patch.files[0], "top\n" + preimage, preimage);
  EXPECT_EQ(placement.hunks[0].rung, Rung::kMapped);
  EXPECT_EQ(*placement.result, "top\nc\nd\ne\nx\nc\nD\ne\n");
}

TEST(Placement, InsertionWithoutContextIsNoEvidence) {
  const PatchFile patch = read("--- a/x\n+++ b/x\n@@ -2,0 +3 @@\n+new\n");
  EXPECT_EQ(place_hunks(patch.files[0], "a\nb\nc\n").hunks[0].rung, Rung::kAmbiguous);
  EXPECT_EQ(*place_hunks(patch.files[0], "0\na\nb\nc\n", "a\nb\nc\n").result, "0\na\nb\nnew\nc\n");
}

TEST(Placement, HunksThatWantTheSameLinesAreNotBothPlaced) {
  const PatchFile patch =
      read("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -7,2 +7,2 @@\n-a\n+Z\n b\n");
  EXPECT_FALSE(place_hunks(patch.files[0], "a\nb\nc\n").result);
}

TEST(Examine, SaysWhatEachPatchIsToTheTree) {
  MemoryStore blobs;
  const std::string content = "one\ntwo\nTHREE\nfour\nfive\nsix\n";
  const std::string earlier = "one\ntwo\nthree\nfour\nfive\nsix\n";
  Tree tree;
  tree.entries = {{.path = "f.py", .oid = *blobs.write(content)}};
  const std::string there =
      "diff --git a/f.py b/f.py\nindex " + to_hex(blob_oid(earlier)).substr(0, 9) + ".." +
      to_hex(blob_oid(content)).substr(0, 9) +
      " 100644\n--- a/f.py\n+++ b/f.py\n@@ -1,5 +1,5 @@\n one\n two\n-three\n+THREE\n four\n five\n";
  const std::string other = "diff --git a/f.py b/f.py\nindex 0123456.." +
                            to_hex(blob_oid(content)).substr(0, 9) +
                            " 100644\n--- a/f.py\n+++ b/f.py\n@@ -1,3 +1,3 @@\n one\n-zwei\n+two\n THREE\n";
  const std::string fits = "--- a/f.py\n+++ b/f.py\n@@ -4,3 +4,3 @@\n four\n-five\n+FIVE\n six\n";
  const std::string nowhere = "--- a/f.py\n+++ b/f.py\n@@ -4,3 +4,3 @@\n alpha\n-beta\n+BETA\n gamma\n";
  const std::string made = "diff --git a/f.py b/f.py\nnew file mode 100644\nindex 0000000.." +
                           to_hex(blob_oid(content)).substr(0, 9) +
                           "\n--- /dev/null\n+++ b/f.py\n@@ -0,0 +1,6 @@\n" +
                           "+one\n+two\n+THREE\n+four\n+five\n+six\n";
  const auto findings = examine_patches({{"there", there},
                                         {"other", other},
                                         {"fits", fits},
                                         {"nowhere", nowhere},
                                         {"prose", "--- PROPOSED\nwords\n"},
                                         {"gone", "--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n"},
                                         {"made", made}},
                                        {.tree = tree, .blobs = blobs});
  EXPECT_EQ(findings[0].files[0].verdict, PatchVerdict::kAlreadyThere);
  EXPECT_EQ(findings[0].files[0].result, blob_oid(earlier));
  EXPECT_EQ(findings[0].files[0].postimage, to_hex(blob_oid(content)));
  EXPECT_FALSE(findings[0].files[0].preimage);
  EXPECT_EQ(findings[1].files[0].verdict, PatchVerdict::kAlreadyThere);
  EXPECT_EQ(findings[2].files[0].verdict, PatchVerdict::kFits);
  EXPECT_EQ(findings[3].files[0].verdict, PatchVerdict::kDoesNotFit);
  EXPECT_NE(describe(findings[3]).find("hunk at patch line 3: fits nowhere"), std::string::npos);
  EXPECT_NE(findings[4].unreadable.find("prose, no diff"), std::string::npos);
  EXPECT_EQ(findings[5].files[0].verdict, PatchVerdict::kNoSuchFile);
  EXPECT_EQ(findings[6].files[0].verdict, PatchVerdict::kAlreadyThere);
  EXPECT_NE(describe(findings[6]).find("is absent without it"), std::string::npos);
  const auto pairs = compare_findings(findings);
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_NE(pairs[0].find("lead to one text of f.py"), std::string::npos) << pairs[0];
}

TEST(RangeDiff, LineNumbersAndIdsAreNothingContextAndTextAre) {
  const auto patch = [](const std::string& at, const std::string& context, const std::string& added) {
    return "diff --git a/f b/f\nindex 1111111.." + at + "22222 100644\n--- a/f\n+++ b/f\n@@ -" + at + ",2 +" +
           at + ",3 @@\n " + context + "\n+" + added + "\n end\n";
  };
  const TopicVersion one{.message = "Title\n", .patch = patch("10", "before", "new")};
  EXPECT_EQ(*range_diff(one, {.message = "Title\n", .patch = patch("70", "before", "new")}), "");
  EXPECT_NE(*range_diff(one, {.message = "Other\n", .patch = one.patch}), "");
  EXPECT_THAT(*range_diff(one, {.message = "Title\n", .patch = patch("10", "moved", "new")}),
              testing::HasSubstr("- before\n+ moved\n"));
  EXPECT_THAT(*range_diff(one, {.message = "Title\n", .patch = patch("10", "before", "newer\x1b")}),
              testing::HasSubstr("-+new\n++newer\\x1b\n"));
}

}  // namespace
}  // namespace tessera::stack
