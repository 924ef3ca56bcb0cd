#include "stack/source/source_spec.h"

#include <gtest/gtest.h>

#include "stack/git/scratch_repository.h"
#include "stack/source/test_archive.h"

namespace tessera::stack {
namespace {

SourceSpec parsed(std::string_view text) {
  auto spec = parse_source(text);
  EXPECT_TRUE(spec) << spec.error().message();
  return spec ? *spec : SourceSpec{};
}

TEST(SourceSpec, ReadsEveryForm) {
  EXPECT_EQ(
      parsed("git:../vllm.git@v0.15:csrc"),
      (SourceSpec{.kind = SourceKind::kGit, .location = "../vllm.git", .ref = "v0.15", .path = "csrc"}));
  EXPECT_EQ(parsed("dir:/opt/a:b@c"), (SourceSpec{.kind = SourceKind::kFolder, .location = "/opt/a:b@c"}));
  EXPECT_EQ(parsed("tar:x@y.tar:opt"),
            (SourceSpec{.kind = SourceKind::kTar, .location = "x@y.tar", .path = "opt"}));
  EXPECT_EQ(parsed("docker-save:i.tar:/opt/vllm"),
            (SourceSpec{.kind = SourceKind::kDockerSave, .location = "i.tar", .path = "/opt/vllm"}));
  EXPECT_EQ(parsed("docker-save:i.tar@vllm/openai:v1:/opt/vllm"), (SourceSpec{.kind = SourceKind::kDockerSave,
                                                                              .location = "i.tar",
                                                                              .ref = "vllm/openai:v1",
                                                                              .path = "/opt/vllm"}));
  EXPECT_EQ(parsed("oci:d@sha256:ab"),
            (SourceSpec{.kind = SourceKind::kOci, .location = "d", .ref = "sha256:ab"}));
}

TEST(SourceSpec, BackslashTakesTheNextCharacterLiterally) {
  EXPECT_EQ(parsed(R"(git:a\@b@main)").location, "a@b");
  EXPECT_EQ(parsed(R"(tar:a\:b:c)").location, "a:b");
}

TEST(SourceSpec, GoesThereAndBack) {
  for (const char* text : {"git:r@HEAD~2", "git:r@main:sub/dir", "dir:x", "tar:x.tar.zst:opt",
                           "docker-save:i.tar@a/b:c:/d", "oci:l@linux/arm64:/opt", R"(git:a\@b\:c@x)"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
  }
}

TEST(SourceSpec, RefusesHalfOfOne) {
  for (const char* text : {"git:repo", "git:repo@", "tar:", "dir:", "docker-save::/x"}) {
    EXPECT_EQ(parse_source(text).error().kind, ErrorKind::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_source("/no/such/place").error().kind, ErrorKind::kNotFound);
}

TEST(SourceSpec, GuessesFromWhatIsThereAndSaysSo) {
  const ScratchFolder folder;
  folder.write("plain/x", "1");
  folder.write("layout/oci-layout", "{}");
  folder.write("flat.tar", make_tar({file("a", "1")}));
  folder.write("image.tar", make_tar({file("manifest.json", "[]")}));
  folder.write("oci.tar", make_tar({file("oci-layout", "{}"), file("index.json", "{}")}));
  const auto kind = [&](const char* name) {
    const SourceSpec spec = parsed(folder / name);
    EXPECT_FALSE(spec.note.empty());
    return spec.kind;
  };
  EXPECT_EQ(kind("plain"), SourceKind::kFolder);
  EXPECT_EQ(kind("layout"), SourceKind::kOci);
  EXPECT_EQ(kind("flat.tar"), SourceKind::kTar);
  EXPECT_EQ(kind("image.tar"), SourceKind::kDockerSave);
  EXPECT_EQ(kind("oci.tar"), SourceKind::kOci);
}

}  // namespace
}  // namespace tessera::stack
