#include "stack/compose/frozen_tree.h"

#include <nlohmann/json.hpp>

#include "stack/compose/workspace.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

using Json = nlohmann::ordered_json;

std::string provenance_text(const Tree& tree) {
  Json layers = Json::array();
  for (const Layer& layer : tree.layers)
    layers.push_back({{"digest", layer.digest}, {"created_by", printable(layer.created_by)}});
  Json paths = Json::object();
  for (const TreeEntry& entry : tree.entries) {
    if (entry.layer >= 0) paths[percent_encoded(entry.path)] = entry.layer;
  }
  Json labels = Json::object();
  for (const auto& [key, value] : tree.labels) labels[printable(key)] = printable(value);
  return Json{{"format", 1}, {"image", tree.image}, {"labels", labels}, {"layers", layers}, {"paths", paths}}
      .dump(1);
}

// Anything odd in the record is left out: it says where files came from, never what they are.
void add_provenance(const std::string& bytes, Tree& tree) {
  const Json json = Json::parse(bytes, nullptr, false);
  if (!json.is_object()) return;
  tree.image = json.value("image", "");
  const Json labels = json.value("labels", Json::object());
  for (const auto& [key, value] : labels.items()) {
    if (value.is_string()) tree.labels[key] = value.get<std::string>();
  }
  for (const Json& layer : json.value("layers", Json::array())) {
    if (layer.is_object()) tree.layers.push_back({layer.value("digest", ""), layer.value("created_by", "")});
  }
  const Json paths = json.value("paths", Json::object());
  for (TreeEntry& entry : tree.entries) {
    const auto found = paths.find(percent_encoded(entry.path));
    if (found == paths.end() || !found->is_number_integer()) continue;
    const auto layer = found->get<std::int64_t>();
    if (layer >= 0 && layer < static_cast<std::int64_t>(tree.layers.size()))
      entry.layer = static_cast<std::int32_t>(layer);
  }
}

}  // namespace

Result<std::vector<std::pair<std::string, Oid>>> write_frozen(Repository& repository, const Plan& plan,
                                                              const Tree& tree) {
  std::vector<TreeChange> all;
  for (const TreeEntry& entry : tree.entries) all.push_back({entry.path, entry.mode, entry.oid});
  TS_TRY(const Oid root, repository.write_tree(std::nullopt, std::move(all)));
  TS_TRY(const Oid provenance, repository.write(provenance_text(tree)));
  return std::vector<std::pair<std::string, Oid>>{{state_ref(plan, "tree"), root},
                                                  {state_ref(plan, "provenance"), provenance}};
}

Result<Tree> read_frozen(const Repository& repository, const Plan& plan) {
  const std::optional<Oid> root = repository.read_ref(state_ref(plan, "tree"));
  if (!root) {
    return Error{ErrorKind::kNotFound, state_ref(plan, "tree"),
                 with_next("The frozen tree of plan '" + plan.name + "' is not in " + repository.path() +
                               "; it has to be read again",
                           "tessera-stack init --refresh")};
  }
  TS_TRY(Tree tree, repository.read_tree(*root));
  if (const std::optional<Oid> provenance = repository.read_ref(state_ref(plan, "provenance"))) {
    TS_TRY(const std::string bytes, repository.read(*provenance));
    add_provenance(bytes, tree);
  }
  return tree;
}

}  // namespace tessera::stack
