#include "stack/source/image_plan.h"

#include <nlohmann/json.hpp>

#include "stack/object/printable.h"
#include "stack/source/docker_save.h"
#include "stack/source/image_config.h"
#include "stack/source/oci_layout.h"

namespace tessera::stack {

Result<ImagePlan> plan_image(const Container& container, const std::string& location, const std::string& ref,
                             const ReadOptions& options) {
  const ImageRequest request{.container = container, .location = location, .ref = ref, .options = options};
  const bool oci = container.has("index.json");
  if (!oci && container.has("manifest.json")) return plan_docker_manifest(request);
  if (!oci && container.has("repositories")) return plan_docker_repositories(request);
  if (!oci) {
    return Error{ErrorKind::kInvalidArgument, printable(location),
                 "It holds no image: there is no index.json, manifest.json or repositories inside. For a "
                 "plain archive "
                 "write tar:" +
                     printable(location) + "."};
  }
  // Docker 25 and later writes both views. The OCI one is checked by digest; the other one must not say
  // something else.
  TS_TRY(ImagePlan plan, plan_oci_layout(request));
  if (container.has("manifest.json")) {
    auto other = plan_docker_manifest(request);
    // Several images, of which the OCI view could choose one by platform or digest, are no contradiction.
    if (!other && other.error().kind != ErrorKind::kInvalidArgument) return std::move(other).error();
    if (other) TS_TRY(check_same_image(plan, *other, location));
  }
  return plan;
}

Result<void> check_same_image(const ImagePlan& oci, const ImagePlan& docker, const std::string& location) {
  bool same = oci.config_digest == docker.config_digest && oci.layers.size() == docker.layers.size();
  for (std::size_t i = 0; same && i < oci.layers.size(); ++i)
    same = oci.layers[i].blob == docker.layers[i].blob;
  if (same) return {};
  return Error{ErrorKind::kMismatch, printable(location),
               "Its index.json describes image " + printable(oci.config_digest) +
                   " and its manifest.json image " + printable(docker.config_digest) +
                   "; an archive with two meanings is not read."};
}

void read_config(const nlohmann::json& config, ImagePlan& plan) {
  const nlohmann::json& run = json_field(config, "config");
  plan.env = json_strings(run, "Env");
  plan.working_dir = json_string(run, "WorkingDir");
  const nlohmann::json& labels = json_field(run, "Labels");
  if (labels.is_object()) {
    for (const auto& [key, value] : labels.items()) {
      if (value.is_string()) plan.labels.emplace(key, value.get<std::string>());
    }
  }
  const std::vector<std::string> diff_ids = json_strings(json_field(config, "rootfs"), "diff_ids");
  std::vector<std::string> steps;
  const nlohmann::json& history = json_field(config, "history");
  if (history.is_array()) {
    for (const nlohmann::json& step : history) {
      const nlohmann::json& empty = json_field(step, "empty_layer");
      if (empty.is_boolean() && empty.get<bool>()) continue;
      steps.push_back(json_string(step, "created_by"));
    }
  }
  const bool steps_fit = steps.size() == plan.layers.size();
  if (!steps_fit && !steps.empty()) {
    plan.notes.push_back("The image's history names " + std::to_string(steps.size()) + " layers and it has " +
                         std::to_string(plan.layers.size()) + ", so build steps cannot be told.");
  }
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    if (i < diff_ids.size()) plan.layers[i].diff_id = diff_ids[i];
    if (steps_fit) plan.layers[i].created_by = steps[i];
  }
}

Result<void> check_layer_count(const nlohmann::json& config, const ImagePlan& plan,
                               const std::string& location) {
  const std::size_t stated = json_strings(json_field(config, "rootfs"), "diff_ids").size();
  if (stated == plan.layers.size()) return {};
  return Error{ErrorKind::kMismatch, printable(location),
               "The image's config lists " + std::to_string(stated) + " layers and its manifest " +
                   std::to_string(plan.layers.size()) + "."};
}

}  // namespace tessera::stack
