// One image in the forms of all generations is one tree; a flipped byte in any of them is found.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "stack/object/memory_store.h"
#include "stack/source/read_for_test.h"

namespace tessera::stack {
namespace {

using Lines = std::vector<std::string>;

TEST(ImageEras, OneContentInFiveFormsHasOneDigest) {
  const ScratchFolder folder;
  const TestImage image = small_image();
  std::set<std::string> digests;
  for (const auto& [era, spec] : eras(folder, image)) {
    SCOPED_TRACE(era);
    MemoryStore blobs;
    const SourceTree read_tree = read(spec, {.blobs = &blobs});
    EXPECT_EQ(listing(read_tree.tree), (Lines{"a.py", "link l", "run.sh x"}));
    const TreeEntry* changed = read_tree.tree.find("a.py");
    ASSERT_NE(changed, nullptr);
    EXPECT_EQ(*blobs.read(changed->oid), "ONE\n");
    ASSERT_GE(changed->layer, 2);
    EXPECT_NE(read_tree.tree.layers[2].created_by.find("sed -i"), std::string::npos);
    digests.insert(read_tree.tree.digest);
  }
  EXPECT_EQ(digests.size(), 1U);
}

TEST(ImageEras, AnotherPlatformOfTheSameIndexIsAnotherTree) {
  const ScratchFolder folder;
  eras(folder, small_image());
  const SourceTree arm = read("oci:" + (folder / "oci.tar") + "@linux/arm64:/opt/app");
  EXPECT_EQ(arm.tree.layers.size(), 2U);
  EXPECT_NE(failure("oci:" + (folder / "oci.tar") + "@linux/riscv64:/opt/app").what.find("linux/arm64"),
            std::string::npos);
}

TEST(ImageEras, FlippedByteNamesTheLayersDigest) {
  const ScratchFolder folder;
  const TestImage image = small_image();
  const auto as_is = [](const std::string& layer) { return layer; };
  std::map<std::string, std::string> files;
  finish_oci(files, descriptor(kManifestType, add_oci_manifest(files, image, as_is, kLayerType)));
  std::string& layer = files[blob_path(image.layers[1])];
  layer[600] = static_cast<char>(layer[600] ^ 1);
  folder.write("bad.tar", tar_of(files));
  const Error error = failure("oci:" + (folder / "bad.tar") + ":/opt/app");
  EXPECT_EQ(error.kind, ErrorKind::kCorrupt);
  EXPECT_NE(error.where.find(sha256_digest(image.layers[1])), std::string::npos) << error.message();
}

TEST(ImageEras, FlippedByteInACompressedLayerIsADigestErrorNotADecompressorsRiddle) {
  const ScratchFolder folder;
  const TestImage image = small_image();
  std::map<std::string, std::string> files;
  std::string gz;
  finish_oci(files, descriptor(kManifestType, add_oci_manifest(
                                                  files, image,
                                                  [&](const std::string& layer) {
                                                    const std::string blob = packed(folder, layer, "gzip");
                                                    if (gz.empty()) gz = blob;
                                                    return blob;
                                                  },
                                                  kLayerType)));
  files[blob_path(gz)][40] ^= 0x55;
  folder.write("bad.tar", tar_of(files));
  const Error error = failure("oci:" + (folder / "bad.tar"));
  EXPECT_NE(error.where.find(sha256_digest(gz)), std::string::npos) << error.message();
  EXPECT_NE(error.what.find("damaged"), std::string::npos) << error.message();
}

TEST(ImageEras, FlippedByteInDockersFormIsFoundByTheDiffId) {
  const ScratchFolder folder;
  eras(folder, small_image());
  std::string tar = folder.read("middle.tar");
  tar[tar.find("root\n")] = 'R';
  folder.write("flipped.tar", tar);
  EXPECT_NE(failure("docker-save:" + (folder / "flipped.tar") + ":/opt/app").what.find("digest"),
            std::string::npos);
}

// Forty layers on as many threads as there are cores, with threads of their own for the digests: the tree is
// that of one thread, and of several damaged layers always the same is named.
TEST(ImageEras, LayersThatAreReadAtOnceGiveTheSameTreeAndTheSameError) {
  TestImage image;
  for (int i = 0; i < 40; ++i) {
    const std::string text(static_cast<std::size_t>(400'000 * (i % 7)), static_cast<char>('a' + i % 26));
    image.layers.push_back(make_tar({file("opt/app/f" + std::to_string(i % 13), text),
                                     file("opt/app/.wh.f" + std::to_string((i + 5) % 13), ""),
                                     file("opt/app/own" + std::to_string(i), text + "\n")}));
    image.created_by.push_back("RUN step " + std::to_string(i));
  }
  std::map<std::string, std::string> files;
  const auto as_is = [](const std::string& layer) { return layer; };
  finish_oci(files, descriptor(kManifestType, add_oci_manifest(files, image, as_is, kLayerType)));
  const ScratchFolder folder;
  folder.write("image.tar", tar_of(files));
  // A packed archive can be read in one place only.
  ASSERT_EQ(run_command("gzip -k " + (folder / "image.tar")).status, 0);
  for (const auto& [name, bytes] : files) folder.write("layout/" + name, bytes);
  MemoryStore alone;
  const SourceTree expected = read("oci:" + (folder / "image.tar.gz") + ":/opt/app", {.blobs = &alone});
  EXPECT_EQ(expected.tree.layers.size(), 40u);
  for (const std::string& where : {folder / "image.tar", folder / "layout"}) {
    std::uint64_t done = 0;
    std::uint64_t total = 0;
    MemoryStore blobs;
    const SourceTree got =
        read("oci:" + where + ":/opt/app",
             {.blobs = &blobs, .progress = [&](std::string_view stage, std::uint64_t now, std::uint64_t all) {
                if (stage != "layers") return;
                EXPECT_GE(now, done);
                done = now;
                total = all;
              }});
    EXPECT_EQ(got.tree.digest, expected.tree.digest);
    EXPECT_EQ(blobs.size(), alone.size());
    EXPECT_EQ(done, total);
    EXPECT_GT(done, 100'000u);
    for (std::size_t i = 0; i < expected.tree.entries.size(); ++i)
      EXPECT_EQ(got.tree.entries[i].layer, expected.tree.entries[i].layer);
  }
  std::string first;
  for (int i = 3; i < 40; i += 6) {
    std::string& layer = files[blob_path(image.layers[static_cast<std::size_t>(i)])];
    const std::string digest = sha256_digest(layer);
    layer[600] = static_cast<char>(layer[600] ^ 1);
    folder.write("layout/" + blob_path(image.layers[static_cast<std::size_t>(i)]), layer);
    if (first.empty() || digest < first) first = digest;
  }
  for (int round = 0; round < 20; ++round) {
    const Error error = failure("oci:" + (folder / "layout") + ":/opt/app");
    EXPECT_EQ(error.kind, ErrorKind::kCorrupt);
    EXPECT_NE(error.where.find(first), std::string::npos) << error.message();
  }
}

TEST(ImageEras, TwoViewsThatDisagreeAreRefused) {
  const ScratchFolder folder;
  const TestImage image = small_image();
  TestImage other = image;
  other.created_by[0] = "COPY something else";
  const auto as_is = [](const std::string& layer) { return layer; };
  std::map<std::string, std::string> files;
  finish_oci(files, descriptor(kManifestType, add_oci_manifest(files, image, as_is, kLayerType)));
  files[blob_path(other.config())] = other.config();
  std::string names;
  for (const std::string& layer : image.layers)
    names += (names.empty() ? "" : ",") + quoted(blob_path(layer));
  files["manifest.json"] = R"([{"Config":)" + quoted(blob_path(other.config())) +
                           R"(,"RepoTags":["app:latest"],"Layers":[)" + names + "]}]";
  folder.write("two.tar", tar_of(files));
  EXPECT_EQ(failure("docker-save:" + (folder / "two.tar") + ":/opt/app").kind, ErrorKind::kMismatch);
}

}  // namespace
}  // namespace tessera::stack
