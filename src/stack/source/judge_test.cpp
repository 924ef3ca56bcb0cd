// Whole images against umoci and skopeo.
#include <gtest/gtest.h>

#include "stack/source/read_for_test.h"

namespace tessera::stack {
namespace {

// umoci is an independent judge of the layer rules: it unpacks the same image to disk.
TEST(Judge, UmociUnpacksTheSameTree) {
  ASSERT_EQ(run_command("umoci --version").status, 0)
      << "umoci is needed by this test (Debian package umoci)";
  const ScratchFolder folder;
  const TestImage image{
      .layers = {make_tar({file("a/x", "1"), file("a/y", "2"), file("f", "3"), tessera::stack::folder("d"),
                           file("d/old", "4"), file("keep", "5"), file("up", "6"), symlink("s", "keep")}),
                 make_tar({file("a/.wh.x", ""), file("a/z", "7"), tessera::stack::folder("f"),
                           file("f/g", "8"), tessera::stack::folder("d"), file("d/.wh..wh..opq", ""),
                           file("d/new", "9"), hardlink("hard", "up")}),
                 make_tar({file("up", "10"), file("s", "11"), file("a/x", "12"), file("d2/e", "13", 0755)})}};
  std::map<std::string, std::string> files;
  const auto as_is = [](const std::string& layer) { return layer; };
  const std::string manifest = add_oci_manifest(files, image, as_is, kLayerType);
  finish_oci(files, descriptor(kManifestType, manifest,
                               R"(,"annotations":{"org.opencontainers.image.ref.name":"v1"})"));
  for (const auto& [name, bytes] : files) folder.write("layout/" + name, bytes);
  const CommandOutput unpacked =
      run_command("umoci unpack --rootless --image " + (folder / "layout") + ":v1 " + (folder / "bundle"));
  ASSERT_EQ(unpacked.status, 0) << unpacked.text;
  const SourceTree theirs = read("dir:" + (folder / "bundle/rootfs"));
  const SourceTree ours = read("oci:" + (folder / "layout"));
  EXPECT_EQ(listing(ours.tree), listing(theirs.tree));
  EXPECT_EQ(ours.tree.digest, theirs.tree.digest);
}

// skopeo writes archives that we did not write ourselves.
TEST(Judge, SkopeosDockerArchiveAndOciArchiveGiveTheSameTree) {
  ASSERT_EQ(run_command("skopeo --version").status, 0)
      << "skopeo is needed by this test (Debian package skopeo)";
  const ScratchFolder folder;
  eras(folder, small_image());
  const std::string policy = folder / "policy.json";
  folder.write("policy.json", R"({"default":[{"type":"insecureAcceptAnything"}]})");
  const std::string skopeo = "skopeo --policy " + policy + " --tmpdir " + folder.path().string() + " copy ";
  const CommandOutput docker = run_command(skopeo + "oci:" + (folder / "layout") +
                                           " docker-archive:" + (folder / "d.tar") + ":app:v1");
  ASSERT_EQ(docker.status, 0) << docker.text;
  const CommandOutput oci =
      run_command(skopeo + "oci:" + (folder / "layout") + " oci-archive:" + (folder / "o.tar") + ":v1");
  ASSERT_EQ(oci.status, 0) << oci.text;
  const std::string digest = read("oci:" + (folder / "layout") + ":/opt/app").tree.digest;
  EXPECT_EQ(read("docker-save:" + (folder / "d.tar") + "@app:v1:/opt/app").tree.digest, digest);
  EXPECT_EQ(read("oci:" + (folder / "o.tar") + "@v1:/opt/app").tree.digest, digest);
}

}  // namespace
}  // namespace tessera::stack
