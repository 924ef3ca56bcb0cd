#include "generation_defaults.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace tessera {

Result<SamplingParams> generation_defaults(const std::filesystem::path& model_folder,
                                           const std::string& mode) {
  SamplingParams defaults;
  const std::filesystem::path path = model_folder / "generation_config.json";
  if (mode != "auto" || !std::filesystem::exists(path)) return defaults;
  std::ifstream in(path);
  const nlohmann::json config = nlohmann::json::parse(in, nullptr, false);
  if (!config.is_object()) return Error{ErrorKind::kCorrupt, path.string(), "is not a JSON object."};
  const auto read = [&](const char* name, auto& value) {
    const auto found = config.find(name);
    if (found != config.end() && found->is_number()) found->get_to(value);
  };
  read("temperature", defaults.temperature);
  read("top_p", defaults.top_p);
  read("top_k", defaults.top_k);
  read("min_p", defaults.min_p);
  read("repetition_penalty", defaults.repetition_penalty);
  // transformers' way of asking for greedy decoding.
  if (const auto sample = config.find("do_sample");
      sample != config.end() && sample->is_boolean() && !sample->get<bool>()) {
    defaults.temperature = 0;
  }
  return defaults;
}

}  // namespace tessera
