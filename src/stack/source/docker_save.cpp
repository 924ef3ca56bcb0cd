#include "stack/source/docker_save.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "stack/object/digest.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + printable(name);
  return out.empty() ? "none" : out;
}

// "docker.io/vllm/vllm-openai:v0.15" answers to its full name, to any ending after a '/', and to its tag
// alone.
bool answers_to(const std::string& tag, const std::string& ref) {
  if (tag == ref) return true;
  return tag.size() > ref.size() && tag.ends_with(ref) &&
         (tag[tag.size() - ref.size() - 1] == ':' || tag[tag.size() - ref.size() - 1] == '/');
}

std::string command_text(const nlohmann::json& layer) {
  const nlohmann::json& container = json_field(layer, "container_config");
  std::string out;
  for (const std::string& word : json_strings(container, "Cmd")) out += (out.empty() ? "" : " ") + word;
  return out;
}

}  // namespace

Result<ImagePlan> plan_docker_manifest(const ImageRequest& request) {
  const std::string where = printable(request.location) + ": manifest.json";
  TS_TRY(const std::string text, request.container.read("manifest.json"));
  TS_TRY(const nlohmann::json images, parse_json(text, where, request.options.limits.json_depth));
  if (!images.is_array() || images.empty()) {
    return Error{ErrorKind::kCorrupt, where, "It should be a list of images and is not, or it is empty."};
  }
  std::vector<const nlohmann::json*> chosen;
  std::vector<std::string> names;
  for (const nlohmann::json& image : images) {
    const std::vector<std::string> tags = json_strings(image, "RepoTags");
    names.insert(names.end(), tags.begin(), tags.end());
    if (tags.empty()) names.push_back(json_string(image, "Config"));
    const bool fits =
        request.ref.empty() || json_string(image, "Config").find(request.ref) != std::string::npos ||
        std::any_of(tags.begin(), tags.end(), [&](const auto& tag) { return answers_to(tag, request.ref); });
    if (fits) chosen.push_back(&image);
  }
  if (chosen.size() != 1) {
    return Error{ErrorKind::kInvalidArgument, where,
                 (chosen.empty() ? "No image here is called " + printable(request.ref)
                                 : std::to_string(chosen.size()) + " images fit") +
                     "; it holds: " + listed(names) +
                     ". Name one, as in docker-save:" + printable(request.location) + "@NAME:/path."};
  }
  const nlohmann::json& image = *chosen.front();
  ImagePlan plan{.tags = json_strings(image, "RepoTags")};
  for (const std::string& name : json_strings(image, "Layers")) {
    TS_TRY(std::string blob, request.container.resolve(name));
    plan.layers.push_back({.blob = std::move(blob)});
  }
  const std::string config_name = json_string(image, "Config");
  TS_TRY(const std::string config_text, request.container.read(config_name));
  plan.config_digest = sha256_digest(config_text);
  // The config is named after its digest: "<hex>.json", or blobs/sha256/<hex>.
  const std::string hex = plan.config_digest.substr(7);
  if (config_name.find(hex) == std::string::npos) {
    return Error{ErrorKind::kCorrupt, where,
                 "The config " + printable(config_name) + " has the digest " + plan.config_digest +
                     ", which is not what it is named after."};
  }
  TS_TRY(const nlohmann::json config,
         parse_json(config_text, where + " -> " + printable(config_name), request.options.limits.json_depth));
  TS_TRY(check_layer_count(config, plan, request.location));
  read_config(config, plan);
  return plan;
}

Result<ImagePlan> plan_docker_repositories(const ImageRequest& request) {
  const std::string where = printable(request.location) + ": repositories";
  TS_TRY(const std::string text, request.container.read("repositories"));
  TS_TRY(const nlohmann::json repositories, parse_json(text, where, request.options.limits.json_depth));
  if (!repositories.is_object()) {
    return Error{ErrorKind::kCorrupt, where, "It should be an object of names and tags and is not."};
  }
  std::set<std::string> tops;
  std::vector<std::string> names;
  ImagePlan plan;
  for (const auto& [name, tags] : repositories.items()) {
    if (!tags.is_object()) continue;
    for (const auto& [tag, id] : tags.items()) {
      if (!id.is_string()) continue;
      const std::string full = name + ':' + tag;
      names.push_back(full);
      if (!request.ref.empty() && !answers_to(full, request.ref) && id.get<std::string>() != request.ref)
        continue;
      tops.insert(id.get<std::string>());
      plan.tags.push_back(full);
    }
  }
  if (tops.size() != 1) {
    return Error{ErrorKind::kInvalidArgument, where,
                 (tops.empty() ? "No image here is called " + printable(request.ref)
                               : std::to_string(tops.size()) + " images fit") +
                     "; it holds: " + listed(names) +
                     ". Name one, as in docker-save:" + printable(request.location) + "@NAME:/path."};
  }
  std::set<std::string> seen;
  bool is_top = true;
  for (std::string id = *tops.begin(); !id.empty();) {
    if (!seen.insert(id).second) {
      return Error{ErrorKind::kCorrupt, where, "The layer " + printable(id) + " is its own ancestor."};
    }
    TS_TRY(const std::string layer_text, request.container.read(id + "/json"));
    TS_TRY(const nlohmann::json layer,
           parse_json(layer_text, printable(request.location + ": " + id + "/json"),
                      request.options.limits.json_depth));
    TS_TRY(std::string blob, request.container.resolve(id + "/layer.tar"));
    plan.layers.push_back({.blob = std::move(blob), .created_by = command_text(layer)});
    if (is_top) {
      plan.env = json_strings(json_field(layer, "config"), "Env");
      plan.working_dir = json_string(json_field(layer, "config"), "WorkingDir");
    }
    is_top = false;
    id = json_string(layer, "parent");
  }
  std::reverse(plan.layers.begin(), plan.layers.end());
  plan.notes.push_back(
      "This archive was written before docker 1.10: it states no digests, so its layers cannot be verified.");
  return plan;
}

}  // namespace tessera::stack
