#include "support/golden.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "base/check.h"
#include "checkpoint/safetensors.h"

namespace tessera::test {
namespace {

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  TS_CHECK(in.good(), path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(in.tellg()));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

}  // namespace

std::string source_path(const std::string& relative) {
  return std::string(TESSERA_SOURCE_DIR) + "/" + relative;
}

std::vector<std::vector<float>> golden_tensor(const std::string& name) {
  const std::vector<std::byte> bytes = read_file(source_path("tests/golden/golden.safetensors"));
  const auto header = parse_safetensors(bytes, "golden.safetensors");
  TS_CHECK(header.ok(), header.error().message());
  for (const TensorEntry& entry : header->entries) {
    if (entry.name != name) continue;
    TS_CHECK(entry.dtype == DType::kF32 && entry.rank == 2, name);
    const auto cols = static_cast<std::size_t>(entry.shape[1]);
    std::vector<std::vector<float>> rows(static_cast<std::size_t>(entry.shape[0]), std::vector<float>(cols));
    const std::byte* at = bytes.data() + header->data_start + entry.begin;
    for (auto& row : rows) {
      std::memcpy(row.data(), at, cols * sizeof(float));
      at += cols * sizeof(float);
    }
    return rows;
  }
  TS_CHECK(false, name);
  return {};
}

GoldenDraft golden_draft(const std::string& draft, const std::string& prompt) {
  std::ifstream in(source_path("tests/golden/golden.json"));
  const nlohmann::json all = nlohmann::json::parse(in);
  const auto& one = all.at("draft." + prompt);
  GoldenDraft golden{.next_token = one.at("next_token").get<std::int32_t>(),
                     .target_after = one.at("target_greedy_after").get<std::vector<std::int32_t>>(),
                     .tokens = one.at(draft).get<std::vector<std::int32_t>>(),
                     .logits = golden_tensor(draft + "." + prompt + ".logits"),
                     .aux = {}};
  if (prompt == "chat") {
    golden.aux = golden_tensor("chat.aux");
    return golden;
  }
  for (const char* stream : {"1", "3", "5"}) {
    const auto rows = golden_tensor(prompt + ".hidden." + stream);
    golden.aux.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      golden.aux[i].insert(golden.aux[i].end(), rows[i].begin(), rows[i].end());
    }
  }
  return golden;
}

GoldenPrompt golden_prompt(const std::string& name) {
  for (GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.name == name) return std::move(prompt);
  }
  TS_CHECK(false, name);
  return {};
}

std::vector<GoldenPrompt> golden_prompts() {
  std::ifstream in(source_path("tests/golden/golden.json"));
  const nlohmann::json all = nlohmann::json::parse(in);
  std::vector<GoldenPrompt> prompts;
  for (const char* name : {"len1", "len7", "len64", "len300", "len1500", "chat"}) {
    const auto& one = all.at(name);
    prompts.push_back({.name = name,
                       .ids = one.at("ids").get<std::vector<std::int32_t>>(),
                       .logits_positions = one.at("logits_positions").get<std::vector<std::int32_t>>(),
                       .logits = golden_tensor(std::string(name) + ".last_logits"),
                       .greedy = one.at("greedy").get<std::vector<std::int32_t>>(),
                       .greedy_safe_tokens = one.at("greedy_safe_tokens").get<std::size_t>()});
  }
  return prompts;
}

}  // namespace tessera::test
