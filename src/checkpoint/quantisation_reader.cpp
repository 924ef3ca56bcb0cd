#include "checkpoint/quantisation_reader.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

bool is_pair_of_128(const Json* value) { return value != nullptr && *value == Json::array({128, 128}); }

void read_group_of_int4(ConfigReader weights) {
  if (weights.integer("num_bits") != 4) weights.unsupported("num_bits", "4");
  if (weights.text("type", "int") != "int") weights.unsupported("type", "\"int\"");
  if (!weights.flag("symmetric", true)) weights.unsupported("symmetric", "true");
  if (weights.text("strategy", "group") != "group") weights.unsupported("strategy", "\"group\"");
  if (weights.integer("group_size") != 32) weights.unsupported("group_size", "32");
  if (weights.has("actorder")) weights.unsupported("actorder", "null");
}

void read_group_of_fp8(ConfigReader weights) {
  if (weights.integer("num_bits") != 8) weights.unsupported("num_bits", "8");
  if (weights.text("type", "float") != "float") weights.unsupported("type", "\"float\"");
  if (weights.text("strategy", "") != "block") weights.unsupported("strategy", "\"block\"");
  if (!is_pair_of_128(weights.find("block_structure"))) weights.unsupported("block_structure", "[128, 128]");
}

void read_compressed_tensors(ConfigReader& reader, QuantisationConfig& config,
                             std::vector<std::string>& notes) {
  const std::string format = reader.text("format", "");
  config.method += " " + format;
  if (format == "pack-quantized") {
    config.scheme = QuantisationScheme::kInt4Group32;
  } else if (format == "float-quantized") {
    config.scheme = QuantisationScheme::kFp8Block128;
  } else {
    reader.unsupported("format", "\"pack-quantized\", \"float-quantized\"");
    return;
  }
  config.ignore = reader.texts("ignore");
  if (reader.has("kv_cache_scheme")) {
    notes.push_back("kv_cache_scheme is not used: the cache's format and scale are options of the server");
  }
  if (!reader.has_object("config_groups")) {
    reader.fail(ErrorKind::kInvalidArgument, "quantization_config.config_groups is missing.");
    return;
  }
  ConfigReader groups = reader.inside("config_groups");
  for (const auto& [name, group] : reader.find("config_groups")->items()) {
    if (!groups.has_object(name) || !groups.inside(name).has_object("weights")) {
      groups.fail(ErrorKind::kInvalidArgument,
                  "config_groups." + ConfigReader::shown(name) + " has no weights.");
      return;
    }
    ConfigReader one = groups.inside(name);
    if (config.scheme == QuantisationScheme::kInt4Group32) {
      read_group_of_int4(one.inside("weights"));
      if (one.has("input_activations")) one.unsupported("input_activations", "null");
    } else {
      read_group_of_fp8(one.inside("weights"));
    }
    const std::vector<std::string> targets = one.texts("targets");
    if (targets != std::vector<std::string>{"Linear"}) {
      notes.push_back("quantisation targets other than [\"Linear\"] are not compared with the files");
    }
  }
}

void read_fp8(ConfigReader& reader, QuantisationConfig& config) {
  config.scheme = QuantisationScheme::kFp8Block128;
  config.method += " 128x128";
  if (reader.text("fmt", "e4m3") != "e4m3") reader.unsupported("fmt", "\"e4m3\"");
  if (!is_pair_of_128(reader.find("weight_block_size")))
    reader.unsupported("weight_block_size", "[128, 128]");
  if (reader.text("activation_scheme", "dynamic") != "dynamic") {
    reader.unsupported("activation_scheme", "\"dynamic\"");
  }
  config.ignore =
      reader.texts(reader.has("modules_to_not_convert") ? "modules_to_not_convert" : "ignored_layers");
}

}  // namespace

QuantisationConfig read_quantisation(ConfigReader reader, std::vector<std::string>& notes) {
  QuantisationConfig config;
  config.method = reader.text("quant_method", "");
  if (config.method == "compressed-tensors") {
    read_compressed_tensors(reader, config, notes);
  } else if (config.method == "fp8") {
    read_fp8(reader, config);
  } else {
    reader.unsupported(
        "quant_method",
        "\"compressed-tensors\" (pack-quantized int4 in groups of 32, fp8 in 128x128 blocks), \"fp8\" "
        "(128x128 blocks)");
  }
  return config;
}

}  // namespace tessera
