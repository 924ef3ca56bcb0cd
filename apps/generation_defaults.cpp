#include "generation_defaults.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

namespace {

using Json = nlohmann::json;

// Fields that are not there keep their value; others must be numbers.
Result<void> read_config(const Json& config, const std::string& where, SamplingParams& params) {
  if (!config.is_object()) return Error{ErrorKind::kCorrupt, where, "is not a JSON object."};
  Result<void> state;
  const auto read = [&](const char* name, auto& value) {
    const auto found = config.find(name);
    if (found == config.end() || found->is_null()) return;
    if (found->is_number()) {
      found->get_to(value);
    } else {
      state = Error{ErrorKind::kCorrupt, where + ": " + name,
                    "is " + found->dump().substr(0, 60) + ", not a number."};
    }
  };
  read("temperature", params.temperature);
  read("top_p", params.top_p);
  read("top_k", params.top_k);
  read("min_p", params.min_p);
  read("presence_penalty", params.presence_penalty);
  read("frequency_penalty", params.frequency_penalty);
  read("repetition_penalty", params.repetition_penalty);
  // transformers' way of asking for greedy decoding.
  if (const auto sample = config.find("do_sample");
      sample != config.end() && sample->is_boolean() && !sample->get<bool>()) {
    params.temperature = 0;
  }
  return state;
}

}  // namespace

Result<SamplingParams> generation_defaults(const std::filesystem::path& model_folder, const std::string& mode,
                                           const std::string& over) {
  SamplingParams defaults;
  const std::filesystem::path path = model_folder / "generation_config.json";
  if (mode == "auto" && std::filesystem::exists(path)) {
    std::ifstream in(path);
    TS_TRY(read_config(Json::parse(in, nullptr, false), path.string(), defaults));
  }
  TS_TRY(read_config(Json::parse(over, nullptr, false), "--override-generation-config", defaults));
  return defaults;
}

}  // namespace tessera
