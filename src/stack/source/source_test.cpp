// Whole sources against each other and against the git program, umoci and skopeo.
#include "stack/source/source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "stack/git/scratch_repository.h"
#include "stack/object/memory_store.h"
#include "stack/source/test_archive.h"

namespace tessera::stack {
namespace {

using Lines = std::vector<std::string>;

SourceTree read(const std::string& spec, ReadOptions options = {}) {
  auto parsed = parse_source(spec);
  EXPECT_TRUE(parsed) << parsed.error().message();
  auto tree = read_source(*parsed, options);
  EXPECT_TRUE(tree) << tree.error().message();
  return tree ? *std::move(tree) : SourceTree{};
}

Error failure(const std::string& spec, ReadOptions options = {}) {
  auto parsed = parse_source(spec);
  if (!parsed) return parsed.error();
  auto tree = read_source(*parsed, options);
  EXPECT_FALSE(tree) << spec << " was accepted";
  return tree ? Error{ErrorKind::kInternal, "", ""} : tree.error();
}

Lines listing(const Tree& tree) {
  Lines out;
  for (const TreeEntry& entry : tree.entries) {
    out.push_back(entry.path + (entry.mode == FileMode::kExecutable ? " x"
                                : entry.mode == FileMode::kSymlink  ? " l"
                                                                    : ""));
  }
  return out;
}

// gzip or zstd of some bytes, by the programs.
std::string packed(const ScratchFolder& folder, const std::string& bytes, const char* program) {
  folder.write("pack.in", bytes);
  EXPECT_EQ(run_command(std::string(program) + " -c " + (folder / "pack.in") + " > " + (folder / "pack.out"))
                .status,
            0);
  std::ifstream in(folder / "pack.out", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TestImage small_image() {
  return {.layers = {make_tar({folder("opt"), folder("opt/app"), file("opt/app/a.py", "one\n"),
                               file("opt/app/b.py", "two\n"), file("etc/passwd", "root\n")}),
                     make_tar({file("opt/app/.wh.b.py", ""), file("opt/app/run.sh", "#!/bin/sh\n", 0755),
                               symlink("opt/app/link", "a.py")}),
                     make_tar({file("opt/app/a.py", "ONE\n")})},
          .created_by = {"COPY . /opt/app", "RUN cleanup", "RUN sed -i s/one/ONE/ a.py"}};
}

// The five eras of one image, as files under `folder`.
std::map<std::string, std::string> eras(const ScratchFolder& folder, const TestImage& image) {
  std::map<std::string, std::string> specs;
  std::vector<TarItem> items;
  // Before 1.10.
  std::string parent;
  for (std::size_t i = 0; i < image.layers.size(); ++i) {
    const std::string id(64, static_cast<char>('a' + i));
    items.push_back(file(id + "/VERSION", "1.0"));
    items.push_back(file(id + "/layer.tar", image.layers[i]));
    items.push_back(file(id + "/json", R"({"id":")" + id + "\"" +
                                           (parent.empty() ? "" : R"(,"parent":")" + parent + "\"") +
                                           R"(,"container_config":{"Cmd":["/bin/sh","-c",")" +
                                           image.created_by[i] + R"("]}})"));
    parent = id;
  }
  items.push_back(file("repositories", R"({"app":{"latest":")" + parent + R"("}})"));
  folder.write("old.tar", make_tar(items));
  specs["before 1.10"] = "docker-save:" + (folder / "old.tar") + ":/opt/app";

  // 1.10 to 24: an extra layer of equal content is a symlink to the first one's file.
  TestImage doubled = image;
  doubled.layers.push_back(image.layers.back());
  doubled.created_by.push_back("RUN true");
  items.clear();
  std::string names;
  for (std::size_t i = 0; i < doubled.layers.size(); ++i) {
    const std::string id(64, static_cast<char>('a' + i));
    if (i + 1 == doubled.layers.size()) {
      items.push_back(
          symlink(id + "/layer.tar", "../" + std::string(64, static_cast<char>('a' + i - 1)) + "/layer.tar"));
    } else {
      items.push_back(file(id + "/layer.tar", doubled.layers[i]));
    }
    names += (names.empty() ? "" : ",") + quoted(id + "/layer.tar");
  }
  const std::string config = doubled.config();
  const std::string config_name = sha256_digest(config).substr(7) + ".json";
  items.push_back(file(config_name, config));
  items.push_back(file("manifest.json", R"([{"Config":")" + config_name +
                                            R"(","RepoTags":["app:latest"],"Layers":[)" + names + "]}]"));
  folder.write("middle.tar", make_tar(items));
  specs["1.10 to 24"] = "docker-save:" + (folder / "middle.tar") + ":/opt/app";

  // 25 and later: both views.
  std::map<std::string, std::string> files;
  const auto as_is = [](const std::string& layer) { return layer; };
  std::string manifest = add_oci_manifest(files, image, as_is, kLayerType);
  finish_oci(files, descriptor(kManifestType, manifest,
                               R"(,"annotations":{"io.containerd.image.name":"docker.io/app:latest"})"));
  names.clear();
  for (const std::string& layer : image.layers)
    names += (names.empty() ? "" : ",") + quoted(blob_path(layer));
  files["manifest.json"] = R"([{"Config":)" + quoted(blob_path(image.config())) +
                           R"(,"RepoTags":["app:latest"],"Layers":[)" + names + "]}]";
  folder.write("new.tar", tar_of(files));
  specs["25 and later"] = "docker-save:" + (folder / "new.tar") + ":/opt/app";

  // OCI folder with gzip layers.
  files.clear();
  manifest = add_oci_manifest(
      files, image, [&](const std::string& layer) { return packed(folder, layer, "gzip"); },
      kLayerType + "+gzip");
  finish_oci(files, descriptor(kManifestType, manifest));
  for (const auto& [name, bytes] : files) folder.write("layout/" + name, bytes);
  specs["oci folder"] = "oci:" + (folder / "layout") + ":/opt/app";

  // OCI tar with zstd layers, a nested index for two platforms, and an attestation.
  files.clear();
  manifest = add_oci_manifest(
      files, image, [&](const std::string& layer) { return packed(folder, layer, "zstd -q"); },
      kLayerType + "+zstd");
  TestImage other = image;
  other.architecture = "arm64";
  other.layers.pop_back();
  const std::string other_manifest = add_oci_manifest(files, other, as_is, kLayerType);
  const std::string attestation = R"({"schemaVersion":2})";
  files[blob_path(attestation)] = attestation;
  const std::string index =
      R"({"schemaVersion":2,"mediaType":")" + kIndexType + R"(","manifests":[)" +
      descriptor(kManifestType, manifest, R"(,"platform":{"os":"linux","architecture":"amd64"})") + "," +
      descriptor(kManifestType, other_manifest,
                 R"(,"platform":{"os":"linux","architecture":"arm64","variant":"v8"})") +
      "," +
      descriptor(
          kManifestType, attestation,
          R"(,"platform":{"os":"unknown","architecture":"unknown"},"annotations":{"vnd.docker.reference.type":"attestation-manifest"})") +
      "]}";
  files[blob_path(index)] = index;
  finish_oci(files,
             descriptor(kIndexType, index, R"(,"annotations":{"org.opencontainers.image.ref.name":"v1"})"));
  folder.write("oci.tar", tar_of(files));
  specs["oci tar"] = "oci:" + (folder / "oci.tar") + "@linux/amd64:/opt/app";
  return specs;
}

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
  std::ifstream in(folder / "middle.tar", std::ios::binary);
  std::string tar{std::istreambuf_iterator<char>(in), {}};
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

TEST(Folder, EqualsWhatGitStoresAndSkipsGitsOwnFiles) {
  const ScratchRepository repository;
  repository.write("a.txt", "crlf\r\nraw\n");
  repository.write("sub/run", "x");
  std::filesystem::permissions(repository / "sub/run", std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("a.txt", repository / "link");
  repository.write(".gitattributes", "* text eol=lf\n");
  repository.git("config core.autocrlf false");
  repository.git("-c core.attributesFile=/dev/null add -A");
  const SourceTree from_folder = read("dir:" + repository.path());
  EXPECT_EQ(listing(from_folder.tree), (Lines{".gitattributes", "a.txt", "link l", "sub/run x"}));
  // Raw bytes: the id is that of hash-object without filters, not that of the index, which normalised the CR
  // away.
  EXPECT_EQ(to_hex(from_folder.tree.find("a.txt")->oid), repository.git("hash-object --no-filters a.txt"));
  EXPECT_EQ(from_folder.tree.notes, Lines{".git was skipped; it is git's own and no part of the tree."});
}

TEST(Folder, SameTreeAsGitAndTar) {
  const ScratchRepository repository;
  repository.write("x/y", "1\n");
  repository.write("z", "2\n");
  std::filesystem::create_symlink("nowhere", repository / "dangling");
  repository.commit("all");
  const std::string out = repository / ".git/out.tar";
  ASSERT_EQ(run_command("cd " + repository.path() + " && tar --exclude=.git -czf " + out + " .").status, 0);
  const std::string digest = read("git:" + repository.path() + "@HEAD").tree.digest;
  EXPECT_EQ(read("dir:" + repository.path()).tree.digest, digest);
  EXPECT_EQ(read("tar:" + out).tree.digest, digest);
}

TEST(Folder, UnreadableFileIsMarkedNotFatal) {
  if (::geteuid() == 0) {
    // Root reads everything; a fifo under a file's name is what it cannot read as a file.
    const ScratchFolder folder;
    folder.write("a", "1");
    ASSERT_EQ(run_command("mkfifo " + (folder / "pipe")).status, 0);
    const SourceTree tree = read("dir:" + folder.path().string());
    EXPECT_EQ(listing(tree.tree), Lines{"a"});
    EXPECT_EQ(tree.tree.notes, Lines{"1 devices, fifos and sockets were ignored."});
    return;
  }
  const ScratchFolder folder;
  folder.write("secret", "1");
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  const SourceTree tree = read("dir:" + folder.path().string());
  ASSERT_EQ(tree.tree.entries.size(), 1U);
  EXPECT_TRUE(tree.tree.entries[0].unreadable.has_value());
}

TEST(Git, BytesOfAnotherDatabaseAreCopiedWhenWanted) {
  const ScratchRepository repository;
  repository.write("pkg/a", "1\n");
  repository.write("b", "2\n");
  repository.commit("c");
  MemoryStore blobs;
  const SourceTree tree = read("git:" + repository.path() + "@main:pkg", {.blobs = &blobs});
  EXPECT_EQ(listing(tree.tree), Lines{"a"});
  EXPECT_EQ(*blobs.read(tree.tree.entries[0].oid), "1\n");
  EXPECT_EQ(blobs.size(), 1U);
}

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
