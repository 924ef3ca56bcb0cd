// What of an image is read, kept and found: paths through links, wanted bytes, copies of a package.
#include <gtest/gtest.h>

#include "stack/object/memory_store.h"
#include "stack/source/read_for_test.h"

namespace tessera::stack {
namespace {

using Lines = std::vector<std::string>;

TEST(Image, PathThroughASymlinkReadsTheLayersOnceMoreAndKeepsTheBytes) {
  const ScratchFolder folder;
  const std::string big(400 << 10, 'b');  // above what is hashed anywhere
  folder.write("x.tar",
               make_tar({file("srv/v2/big", big), file("srv/v2/small", "s"), symlink("opt/app", "/srv/v2")}));
  MemoryStore blobs;
  const SourceTree tree = read("tar:" + (folder / "x.tar") + ":opt/app", {.blobs = &blobs});
  EXPECT_EQ(tree.root, "srv/v2");
  EXPECT_EQ(listing(tree.tree), (Lines{"big", "small"}));
  EXPECT_EQ(*blobs.read(tree.tree.find("big")->oid), big);
  EXPECT_EQ(*blobs.read(tree.tree.find("small")->oid), "s");
}

TEST(Image, HardLinkIntoTheTreeBringsItsBytesFromElsewhere) {
  const ScratchFolder folder;
  const std::string big(400 << 10, 'b');
  folder.write("x.tar", make_tar({file("pool/big", big), hardlink("app/big", "pool/big"), file("pool/s", "s"),
                                  hardlink("app/s", "pool/s")}));
  MemoryStore blobs;
  const SourceTree tree = read("tar:" + (folder / "x.tar") + ":app", {.blobs = &blobs});
  EXPECT_EQ(*blobs.read(tree.tree.find("big")->oid), big);
  EXPECT_EQ(*blobs.read(tree.tree.find("s")->oid), "s");
}

TEST(Image, OnlyWantedBytesAreKept) {
  const ScratchFolder folder;
  folder.write("x.tar", make_tar({file("app/a", "1"), file("app/b", "2"), file("other", "3")}));
  MemoryStore blobs;
  read("tar:" + (folder / "x.tar") + ":app",
       {.want = [](std::string_view path, const Oid&) { return path == "b"; }, .blobs = &blobs});
  EXPECT_EQ(blobs.size(), 1U);
  EXPECT_TRUE(blobs.contains(blob_oid("2")));
}

// Its id is known only at its end: what is wanted is read once more, into the store. So from every source.
TEST(Image, AFileTooLargeForMemoryIsKeptWhenItIsWanted) {
  const ScratchFolder folder;
  const std::string large(5000, 'x');
  const std::string other(6000, 'y');
  folder.write("x.tar", make_tar({file("app/a", large), file("app/b", other), file("app/c", "small")}));
  folder.write("tree/app/a", large);
  folder.write("tree/app/b", other);
  folder.write("tree/app/c", "small");
  TestImage image{.layers = {make_tar({file("app/b", "below"), hardlink("app/d", "app/b")}),
                             make_tar({file("app/a", large), file("app/b", other), file("app/c", "small")})},
                  .created_by = {"one", "two"}};
  std::map<std::string, std::string> files;
  const auto as_is = [](const std::string& layer) { return layer; };
  finish_oci(files, descriptor(kManifestType, add_oci_manifest(files, image, as_is, kLayerType)));
  folder.write("image.tar", tar_of(files));
  for (const std::string& spec : {"tar:" + (folder / "x.tar") + ":app", "dir:" + (folder / "tree") + "/app",
                                  "oci:" + (folder / "image.tar") + ":/app"}) {
    MemoryStore blobs;
    const SourceTree tree =
        read(spec, {.want = [&](std::string_view, const Oid& oid) { return oid != blob_oid(other); },
                    .blobs = &blobs,
                    .limits = {.blob_bytes = 4096}});
    EXPECT_EQ(tree.tree.find("a")->oid, blob_oid(large)) << spec;
    EXPECT_TRUE(blobs.contains(blob_oid(large))) << spec;
    EXPECT_EQ(tree.tree.find("b")->oid, blob_oid(other)) << spec;
    EXPECT_FALSE(blobs.contains(blob_oid(other))) << spec;
    EXPECT_TRUE(blobs.contains(blob_oid("small"))) << spec;
    EXPECT_TRUE(tree.tree.notes.empty()) << spec;
  }
}

TEST(Image, EditableCheckoutAndInstalledCopyAreBothFound) {
  const ScratchFolder folder;
  const std::string site = "usr/lib/python3.12/site-packages/";
  std::vector<TarItem> items;
  for (const char* name : {"__init__.py", "a.py", "b.py", "c.py", "d.py"}) {
    const bool differs = std::string(name) == "c.py";
    items.push_back(file("opt/vllm/vllm/" + std::string(name), std::string(name) + "\n"));
    items.push_back(file(site + "vllm/" + name, std::string(name) + (differs ? " patched\n" : "\n")));
  }
  items.push_back(file("opt/vllm/setup.py", "setup()\n"));
  items.push_back(file(site + "vllm.pth", "/opt/vllm\n"));
  items.push_back(file(site + "other/a.py", "unrelated\n"));
  const TestImage image{.layers = {make_tar(items)}, .env = "\"PYTHONPATH=/srv:/opt/vllm\""};
  std::map<std::string, std::string> files;
  const auto as_is = [](const std::string& layer) { return layer; };
  finish_oci(files, descriptor(kManifestType, add_oci_manifest(files, image, as_is, kLayerType)));
  folder.write("i.tar", tar_of(files));
  const SourceTree tree = read("oci:" + (folder / "i.tar") + ":/opt/vllm");
  ASSERT_EQ(tree.copies.size(), 1U);
  const PackageCopy& copy = tree.copies[0];
  EXPECT_EQ(copy.path, site + "vllm");
  EXPECT_EQ(copy.of, "vllm");
  EXPECT_EQ(copy.same, 4);
  EXPECT_EQ(copy.different_paths, Lines{"c.py"});
  EXPECT_NE(copy.preference.find("PYTHONPATH Python imports vllm from /opt/vllm/vllm."), std::string::npos)
      << copy.preference;
  EXPECT_NE(copy.preference.find("Without PYTHONPATH it imports /" + site + "vllm"), std::string::npos)
      << copy.preference;
  EXPECT_NE(copy.preference.find("vllm.pth adds /opt/vllm only behind it"), std::string::npos)
      << copy.preference;
}

}  // namespace
}  // namespace tessera::stack
