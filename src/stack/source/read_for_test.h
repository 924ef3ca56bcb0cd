// For tests: a source read as it is written, the error of one that must fail, and one image in the forms of
// all generations.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/scratch_folder.h"
#include "stack/git/run_command.h"
#include "stack/source/source.h"
#include "stack/source/test_archive.h"

namespace tessera::stack {

inline SourceTree read(const std::string& spec, ReadOptions options = {}) {
  auto parsed = parse_source(spec);
  EXPECT_TRUE(parsed) << parsed.error().message();
  auto tree = read_source(*parsed, options);
  EXPECT_TRUE(tree) << tree.error().message();
  return tree ? *std::move(tree) : SourceTree{};
}

inline Error failure(const std::string& spec, ReadOptions options = {}) {
  auto parsed = parse_source(spec);
  if (!parsed) return parsed.error();
  auto tree = read_source(*parsed, options);
  EXPECT_FALSE(tree) << spec << " was accepted";
  return tree ? Error{ErrorKind::kInternal, "", ""} : tree.error();
}

inline std::vector<std::string> listing(const Tree& tree) {
  std::vector<std::string> out;
  for (const TreeEntry& entry : tree.entries) {
    out.push_back(entry.path + (entry.mode == FileMode::kExecutable ? " x"
                                : entry.mode == FileMode::kSymlink  ? " l"
                                                                    : ""));
  }
  return out;
}

// gzip or zstd of some bytes, by the programs.
inline std::string packed(const ScratchFolder& folder, const std::string& bytes, const char* program) {
  folder.write("pack.in", bytes);
  EXPECT_EQ(run_command(std::string(program) + " -c " + (folder / "pack.in") + " > " + (folder / "pack.out"))
                .status,
            0);
  return folder.read("pack.out");
}

inline TestImage small_image() {
  return {.layers = {make_tar({folder("opt"), folder("opt/app"), file("opt/app/a.py", "one\n"),
                               file("opt/app/b.py", "two\n"), file("etc/passwd", "root\n")}),
                     make_tar({file("opt/app/.wh.b.py", ""), file("opt/app/run.sh", "#!/bin/sh\n", 0755),
                               symlink("opt/app/link", "a.py")}),
                     make_tar({file("opt/app/a.py", "ONE\n")})},
          .created_by = {"COPY . /opt/app", "RUN cleanup", "RUN sed -i s/one/ONE/ a.py"}};
}

// The five eras of one image, as files under `folder`.
inline std::map<std::string, std::string> eras(const ScratchFolder& folder, const TestImage& image) {
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

}  // namespace tessera::stack
