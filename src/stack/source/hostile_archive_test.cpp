// Archives that were made to hurt: bombs, loops, lies. Each is an error, within the limits.
#include <gtest/gtest.h>

#include <fstream>

#include "stack/source/read_for_test.h"

namespace tessera::stack {
namespace {

TEST(Hostile, IndexInsideItselfEnds) {
  const ScratchFolder folder;
  // A digest cannot be its own, so the loop is an index that claims to be one of another content: it fails by
  // digest at the latest.
  const std::string inner = R"({"manifests":[{"mediaType":")" + kIndexType + R"(","digest":"sha256:)" +
                            std::string(64, '0') + R"("}]})";
  folder.write("loop/index.json", inner);
  folder.write("loop/blobs/sha256/" + std::string(64, '0'), inner);
  EXPECT_EQ(failure("oci:" + (folder / "loop")).kind, ErrorKind::kCorrupt);
  // Honest digests, nested too deep.
  std::map<std::string, std::string> files;
  std::string index = R"({"manifests":[]})";
  for (int i = 0; i < 8; ++i) {
    files[blob_path(index)] = index;
    index = R"({"manifests":[)" + descriptor(kIndexType, index) + "]}";
  }
  files["index.json"] = index;
  folder.write("deep.tar", tar_of(files));
  EXPECT_NE(failure("oci:" + (folder / "deep.tar")).what.find("nested"), std::string::npos);
}

TEST(Hostile, JsonOfTenThousandLevelsIsRefused) {
  const ScratchFolder folder;
  folder.write("deep/index.json",
               R"({"manifests":)" + std::string(10000, '[') + std::string(10000, ']') + "}");
  EXPECT_EQ(failure("oci:" + (folder / "deep")).kind, ErrorKind::kTooLarge);
}

TEST(Hostile, GzipBombIsStopped) {
  const ScratchFolder folder;
  ASSERT_EQ(run_command("head -c 300000000 /dev/zero | gzip -9 > " + (folder / "bomb.tar.gz")).status, 0);
  EXPECT_EQ(failure("tar:" + (folder / "bomb.tar.gz"), {.limits = {.bomb_bytes = 1 << 20}}).kind,
            ErrorKind::kTooLarge);
}

TEST(Hostile, SparseFileOfAnExbibyteIsStopped) {
  const ScratchFolder folder;
  // GNU's old sparse form: 12 bytes at offset 2^59, real size 2^59 + 12, written by hand.
  TarItem item = file("sparse", std::string(12, 'x'));
  std::string tar = tar_header(item, "sparse", "", 12, 'S');
  const auto base256 = [&](std::size_t at, std::uint64_t value) {
    for (int i = 0; i < 12; ++i) tar[at + static_cast<std::size_t>(i)] = '\0';
    tar[at] = '\x80';
    for (int i = 0; i < 8; ++i)
      tar[at + 11 - static_cast<std::size_t>(i)] = static_cast<char>(value >> (8 * i));
  };
  tar.replace(257, 8, std::string_view("ustar  \0", 8));
  base256(386, std::uint64_t{1} << 59);
  base256(398, 12);
  base256(483, (std::uint64_t{1} << 59) + 12);
  tar.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : tar) sum += static_cast<unsigned char>(c);
  char number[8];
  std::snprintf(number, sizeof number, "%06o", sum);
  tar.replace(148, 7, std::string_view(number, 7));
  folder.write("s.tar", tar + padded(item.bytes) + std::string(1024, '\0'));
  EXPECT_EQ(failure("tar:" + (folder / "s.tar"), {.limits = {.bomb_bytes = 1 << 20}}).kind,
            ErrorKind::kTooLarge);
}

TEST(Hostile, ArchiveOfAMillionEmptyEntriesIsReadOrRefusedByTheLimit) {
  const ScratchFolder folder;
  {
    std::ofstream out(folder / "many.tar", std::ios::binary);
    for (int i = 0; i < 1'000'000; ++i) {
      const std::string name = std::to_string(i);
      out << tar_header(TarItem{.name = name}, name, "", 0, '0');
    }
    out << std::string(1024, '\0');
  }
  EXPECT_EQ(read("tar:" + (folder / "many.tar")).tree.entries.size(), 1'000'000U);
  EXPECT_EQ(failure("tar:" + (folder / "many.tar"), {.limits = {.entries = 1000}}).kind,
            ErrorKind::kTooLarge);
}

TEST(Hostile, MessagesArePrintable) {
  const ScratchFolder folder;
  folder.write("x.tar", make_tar({file("a\x1b[31m/../b", "1"), file("ok", "")}));
  const SourceTree tree = read("tar:" + (folder / "x.tar"));
  ASSERT_EQ(tree.tree.notes.size(), 1U);
  EXPECT_EQ(tree.tree.notes[0].find('\x1b'), std::string::npos);
  EXPECT_NE(tree.tree.notes[0].find("\\x1b"), std::string::npos);
}

TEST(Hostile, SymlinkLoopInTheAskedPathIsAnError) {
  const ScratchFolder folder;
  folder.write("x.tar", make_tar({symlink("opt", "srv"), symlink("srv", "opt")}));
  EXPECT_EQ(failure("tar:" + (folder / "x.tar") + ":opt/app").kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::stack
