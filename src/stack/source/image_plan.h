// Which blobs make up an image, bottom to top, and what built each: read from docker save's and OCI's JSON,
// without touching a layer.
//
//   docker save before 1.10   `repositories`, one folder a layer with `json` (parent, command) and
//   `layer.tar` docker save 1.10 to 24    `manifest.json`, a config, `<id>/layer.tar` (which may be a symlink
//   to another one) docker save 25 and later  both `manifest.json` and an OCI layout; the two must agree OCI
//   layout                `index.json`, possibly nested indexes, manifests, configs, all under blobs/
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/source/container.h"

namespace tessera::stack {

struct ImageLayer {
  std::string blob{};        // physical name in the container
  std::string digest{};      // "sha256:…" of the blob as stored; empty when nobody states it
  std::uint64_t size = 0;    // as stored; 0 when nobody states it
  std::string diff_id{};     // "sha256:…" of the uncompressed layer; empty when nobody states it
  std::string created_by{};  // the build step
};

struct ImagePlan {
  std::string config_digest{};  // the image id; empty before docker 1.10
  std::vector<ImageLayer> layers{};
  std::vector<std::string> env{};  // "PYTHONPATH=/opt/vllm"
  std::string working_dir{};
  std::map<std::string, std::string> labels{};
  std::vector<std::string> tags{};
  std::vector<std::string> notes{};
};

// `ref` chooses among several images: a tag, a ref name, a digest, or a platform such as linux/arm64; may be
// empty.
Result<ImagePlan> plan_image(const Container& container, const std::string& location, const std::string& ref,
                             const ReadOptions& options);

}  // namespace tessera::stack
