// For tests: tar archives and images written byte by byte, so that they may say what no honest tool would
// write.
#pragma once

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stack/object/digest.h"

namespace tessera::stack {

struct TarItem {
  std::string name;
  std::string bytes = {};
  char type = '0';  // '0' file, '1' hard link, '2' symlink, '3' device, '5' folder
  std::string link = {};
  unsigned mode = 0644;
  long long lie_about_size = -1;  // announced instead of the true size
};

inline TarItem file(std::string name, std::string bytes, unsigned mode = 0644) {
  return {.name = std::move(name), .bytes = std::move(bytes), .mode = mode};
}
inline TarItem folder(std::string name) { return {.name = std::move(name), .type = '5', .mode = 0755}; }
inline TarItem symlink(std::string name, std::string to) {
  return {.name = std::move(name), .type = '2', .link = std::move(to), .mode = 0777};
}
inline TarItem hardlink(std::string name, std::string to) {
  return {.name = std::move(name), .type = '1', .link = std::move(to)};
}

// One 512-byte ustar header.
inline std::string tar_header(const TarItem& item, std::string_view name, std::string_view link,
                              std::size_t size, char type) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, std::size_t room, std::string_view text) {
    header.replace(at, std::min(room, text.size()), text.substr(0, room));
  };
  char number[16];
  put(0, 100, name);
  std::snprintf(number, sizeof number, "%07o", item.mode);
  put(100, 8, number);
  put(108, 8, "0000000");
  put(116, 8, "0000000");
  std::snprintf(number, sizeof number, "%011llo", static_cast<unsigned long long>(size));
  put(124, 12, number);
  put(136, 12, "00000000000");
  put(148, 8, "        ");
  header[156] = type;
  put(157, 100, link);
  put(257, 8, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(number, sizeof number, "%06o", sum);
  put(148, 7, std::string_view(number, 7));
  return header;
}

inline std::string padded(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512, '\0');
  return bytes;
}

// Names over 100 bytes become GNU long names. No end marker when `ended` is false.
inline std::string make_tar(const std::vector<TarItem>& items, bool ended = true) {
  std::string out;
  for (const TarItem& item : items) {
    if (item.name.size() > 100) {
      out += tar_header(item, "././@LongLink", "", item.name.size() + 1, 'L') + padded(item.name + '\0');
    }
    if (item.link.size() > 100) {
      out += tar_header(item, "././@LongLink", "", item.link.size() + 1, 'K') + padded(item.link + '\0');
    }
    const std::size_t size =
        item.lie_about_size >= 0 ? static_cast<std::size_t>(item.lie_about_size) : item.bytes.size();
    out += tar_header(item, item.name, item.link, size, item.type) + padded(item.bytes);
  }
  if (ended) out += std::string(1024, '\0');
  return out;
}

inline std::string quoted(const std::string& text) { return '"' + text + '"'; }

// The parts of an image, in the forms of all generations.
struct TestImage {
  std::vector<std::string> layers;        // uncompressed tars, bottom first
  std::vector<std::string> created_by{};  // per layer; may be shorter
  std::string env = "";                   // JSON list body, e.g. "\"A=b\""
  std::string architecture = "amd64";

  std::string config() const {
    std::string diff_ids, history = R"({"created_by":"ENV A=b","empty_layer":true})";
    for (std::size_t i = 0; i < layers.size(); ++i) {
      diff_ids += (i > 0 ? "," : "") + quoted(sha256_digest(layers[i]));
      history += R"(,{"created_by":)" +
                 quoted(i < created_by.size() ? created_by[i] : "RUN step " + std::to_string(i)) + "}";
    }
    return R"({"architecture":)" + quoted(architecture) + R"(,"os":"linux","config":{"Env":[)" + env +
           R"(],"Labels":{"org.example":"yes"}},"rootfs":{"type":"layers","diff_ids":[)" + diff_ids +
           R"(]},"history":[)" + history + "]}";
  }
};

inline std::string blob_path(const std::string& bytes) {
  return "blobs/sha256/" + sha256_digest(bytes).substr(7);
}

inline std::string descriptor(const std::string& type, const std::string& bytes,
                              const std::string& more = "") {
  return R"({"mediaType":)" + quoted(type) + R"(,"digest":)" + quoted(sha256_digest(bytes)) + R"(,"size":)" +
         std::to_string(bytes.size()) + more + "}";
}

// Files of an OCI layout by name. `pack` turns an uncompressed layer into the stored blob.
template <class Pack>
std::string add_oci_manifest(std::map<std::string, std::string>& files, const TestImage& image, Pack pack,
                             const std::string& layer_type) {
  const std::string config = image.config();
  files[blob_path(config)] = config;
  std::string layers;
  for (const std::string& layer : image.layers) {
    const std::string blob = pack(layer);
    files[blob_path(blob)] = blob;
    layers += (layers.empty() ? "" : ",") + descriptor(layer_type, blob);
  }
  const std::string manifest =
      R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":)" +
      descriptor("application/vnd.oci.image.config.v1+json", config) + R"(,"layers":[)" + layers + "]}";
  files[blob_path(manifest)] = manifest;
  return manifest;
}

inline void finish_oci(std::map<std::string, std::string>& files, const std::string& manifests) {
  files["oci-layout"] = R"({"imageLayoutVersion":"1.0.0"})";
  files["index.json"] = R"({"schemaVersion":2,"manifests":[)" + manifests + "]}";
}

inline std::string tar_of(const std::map<std::string, std::string>& files) {
  std::vector<TarItem> items;
  for (const auto& [name, bytes] : files) items.push_back(file(name, bytes));
  return make_tar(items);
}

inline const std::string kManifestType = "application/vnd.oci.image.manifest.v1+json";
inline const std::string kIndexType = "application/vnd.oci.image.index.v1+json";
inline const std::string kLayerType = "application/vnd.oci.image.layer.v1.tar";

}  // namespace tessera::stack
