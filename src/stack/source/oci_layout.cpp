#include "stack/source/oci_layout.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "stack/object/digest.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

constexpr int kMaxNesting = 4;  // index in index; two levels are seen in practice

struct Candidate {
  nlohmann::json descriptor{};
  std::string platform{};            // "linux/amd64/v2"; empty when not stated
  std::vector<std::string> names{};  // ref names and digests that lead here, of the enclosing indexes too
};

bool is_digest(std::string_view digest) {
  constexpr std::string_view kPrefix = "sha256:";
  return digest.size() == kPrefix.size() + 64 && digest.starts_with(kPrefix) &&
         digest.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

std::string platform_of(const nlohmann::json& descriptor) {
  const nlohmann::json& platform = json_field(descriptor, "platform");
  const std::string os = json_string(platform, "os");
  if (os.empty()) return {};
  const std::string variant = json_string(platform, "variant");
  return os + '/' + json_string(platform, "architecture") + (variant.empty() ? "" : '/' + variant);
}

bool fits_platform(const std::string& platform, const std::string& wanted) {
  return platform == wanted || platform.starts_with(wanted + '/');
}

bool is_platform(std::string_view ref) { return ref.starts_with("linux/") || ref.starts_with("windows/"); }

bool is_attestation(const nlohmann::json& descriptor) {
  return !json_string(json_field(descriptor, "annotations"), "vnd.docker.reference.type").empty() ||
         platform_of(descriptor).starts_with("unknown/");
}

class OciReader {
 public:
  explicit OciReader(const ImageRequest& request) : request_(request) {}

  Result<std::string> read_blob(const nlohmann::json& descriptor) const {
    const std::string digest = json_string(descriptor, "digest");
    TS_TRY(const std::string name, blob_name(digest));
    TS_TRY(std::string text, request_.container.read(name));
    const auto size = json_count(descriptor, "size");
    if (size && *size != text.size()) {
      return Error{ErrorKind::kCorrupt, where(digest),
                   "The blob has " + std::to_string(text.size()) + " bytes, its descriptor says " +
                       std::to_string(*size) + "."};
    }
    if (const std::string found = sha256_digest(text); found != digest) {
      return Error{ErrorKind::kCorrupt, where(digest), "The blob's bytes have the digest " + found + "."};
    }
    return text;
  }

  Result<void> collect(const nlohmann::json& index, const std::vector<std::string>& names, int depth) {
    const nlohmann::json& manifests = json_field(index, "manifests");
    if (!manifests.is_array()) {
      return Error{ErrorKind::kCorrupt, printable(request_.location),
                   "An index in it has no list of manifests."};
    }
    for (const nlohmann::json& descriptor : manifests) {
      if (is_attestation(descriptor)) continue;
      std::vector<std::string> here = names;
      const nlohmann::json& annotations = json_field(descriptor, "annotations");
      for (const char* key : {"org.opencontainers.image.ref.name", "io.containerd.image.name"}) {
        if (std::string name = json_string(annotations, key); !name.empty()) here.push_back(std::move(name));
      }
      here.push_back(json_string(descriptor, "digest"));
      const std::string type = json_string(descriptor, "mediaType");
      const bool nested = type == "application/vnd.oci.image.index.v1+json" ||
                          type == "application/vnd.docker.distribution.manifest.list.v2+json";
      if (!nested) {
        candidates.push_back(
            {.descriptor = descriptor, .platform = platform_of(descriptor), .names = std::move(here)});
        continue;
      }
      const std::string digest = json_string(descriptor, "digest");
      if (depth >= kMaxNesting || std::find(open_.begin(), open_.end(), digest) != open_.end()) {
        return Error{
            ErrorKind::kCorrupt, where(digest),
            "This index is nested deeper than " + std::to_string(kMaxNesting) + " levels, or in itself."};
      }
      TS_TRY(const std::string text, read_blob(descriptor));
      TS_TRY(const nlohmann::json inner, parse_json(text, where(digest), request_.options.limits.json_depth));
      open_.push_back(digest);
      TS_TRY(collect(inner, here, depth + 1));
      open_.pop_back();
    }
    return {};
  }

  Result<std::string> blob_name(const std::string& digest) const {
    if (is_digest(digest)) return "blobs/sha256/" + digest.substr(7);
    return Error{ErrorKind::kUnsupported, printable(request_.location),
                 "A descriptor names the blob \"" + printable(digest) +
                     "\"; only sha256 digests of 64 hex digits are read."};
  }
  std::string where(const std::string& digest) const {
    return printable(request_.location) + ": " + printable(digest);
  }

  std::vector<Candidate> candidates;

 private:
  const ImageRequest& request_;
  std::vector<std::string> open_;  // the indexes that we are inside of
};

std::string listed(const std::vector<const Candidate*>& candidates) {
  std::string out;
  for (const Candidate* candidate : candidates) {
    out += out.empty() ? "" : ", ";
    out += printable(candidate->platform.empty() ? "no platform" : candidate->platform);
    for (const std::string& name : candidate->names) out += ' ' + printable(name);
  }
  return out.empty() ? "none" : out;
}

// Narrows by name, then by platform, and refuses to guess among what is left.
Result<const Candidate*> choose(const std::vector<Candidate>& all, const ImageRequest& request,
                                std::vector<std::string>& notes) {
  std::vector<const Candidate*> left;
  std::set<std::string> seen;  // one manifest may be listed under several names
  const bool by_name = !request.ref.empty() && !is_platform(request.ref);
  for (const Candidate& candidate : all) {
    const bool named =
        std::any_of(candidate.names.begin(), candidate.names.end(), [&](const std::string& name) {
          return name == request.ref || name.ends_with(':' + request.ref) ||
                 name.ends_with('/' + request.ref);
        });
    if (by_name && !named) continue;
    if (seen.insert(json_string(candidate.descriptor, "digest")).second) left.push_back(&candidate);
  }
  const std::vector<const Candidate*> named = left;
  std::string platform = is_platform(request.ref) ? request.ref : request.options.platform;
  const bool asked = !platform.empty();
  if (!asked) platform = host_platform();
  if (left.size() > 1 || asked) {
    std::erase_if(left, [&](const Candidate* candidate) {
      return candidate->platform.empty() ? asked && named.size() > 1
                                         : !fits_platform(candidate->platform, platform);
    });
  }
  if (left.size() == 1) {
    if (!left[0]->platform.empty() && !fits_platform(left[0]->platform, platform)) {
      notes.push_back("The only image here is for " + printable(left[0]->platform) + ", this machine is " +
                      platform + ".");
    }
    return left[0];
  }
  return Error{ErrorKind::kInvalidArgument, printable(request.location),
               (left.empty() ? "No image here fits" : std::to_string(left.size()) + " images fit") + " " +
                   (by_name ? "the name " + printable(request.ref) + " and " : std::string()) +
                   "the platform " + platform + "; it holds: " + listed(named.empty() ? left : named) +
                   ". Name one, as in oci:" + printable(request.location) + "@NAME:/path."};
}

}  // namespace

std::string host_platform() {
#if defined(__aarch64__)
  return "linux/arm64";
#elif defined(__x86_64__)
  return "linux/amd64";
#else
  return "linux/unknown";
#endif
}

Result<ImagePlan> plan_oci_layout(const ImageRequest& request) {
  const std::string where = printable(request.location) + ": index.json";
  const int depth = request.options.limits.json_depth;
  if (request.container.has("oci-layout")) {
    TS_TRY(const std::string text, request.container.read("oci-layout"));
    TS_TRY(const nlohmann::json layout,
           parse_json(text, printable(request.location) + ": oci-layout", depth));
    const std::string version = json_string(layout, "imageLayoutVersion");
    if (!version.starts_with("1.")) {
      return Error{ErrorKind::kUnsupported, printable(request.location),
                   "Its layout version is \"" + printable(version) + "\"; versions 1.x are read."};
    }
  }
  TS_TRY(const std::string index_text, request.container.read("index.json"));
  TS_TRY(const nlohmann::json index, parse_json(index_text, where, depth));
  OciReader reader(request);
  TS_TRY(reader.collect(index, {}, 0));
  ImagePlan plan;
  TS_TRY(const Candidate* const chosen, choose(reader.candidates, request, plan.notes));

  TS_TRY(const std::string manifest_text, reader.read_blob(chosen->descriptor));
  const std::string manifest_where = reader.where(json_string(chosen->descriptor, "digest"));
  TS_TRY(const nlohmann::json manifest, parse_json(manifest_text, manifest_where, depth));
  const nlohmann::json& layers = json_field(manifest, "layers");
  const nlohmann::json& config_descriptor = json_field(manifest, "config");
  if (!layers.is_array() || !config_descriptor.is_object()) {
    return Error{ErrorKind::kCorrupt, manifest_where, "The manifest lacks its list of layers or its config."};
  }
  for (const std::string& name : chosen->names) {
    if (!is_digest(name)) plan.tags.push_back(name);
  }
  for (const nlohmann::json& layer : layers) {
    const std::string digest = json_string(layer, "digest");
    TS_TRY(const std::string name, reader.blob_name(digest));
    if (!request.container.has(name)) {
      return Error{ErrorKind::kNotFound, reader.where(digest),
                   "The image needs this layer and the archive does not contain it (a foreign layer, or a "
                   "partial copy)."};
    }
    TS_TRY(std::string blob, request.container.resolve(name));
    plan.layers.push_back(
        {.blob = std::move(blob), .digest = digest, .size = json_count(layer, "size").value_or(0)});
  }
  TS_TRY(const std::string config_text, reader.read_blob(config_descriptor));
  plan.config_digest = json_string(config_descriptor, "digest");
  TS_TRY(const nlohmann::json config, parse_json(config_text, reader.where(plan.config_digest), depth));
  TS_TRY(check_layer_count(config, plan, request.location));
  read_config(config, plan);
  return plan;
}

}  // namespace tessera::stack
