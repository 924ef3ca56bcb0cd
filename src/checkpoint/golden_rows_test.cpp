// Rows of the shipped model against values that testdata/make_tiny_rows.py computed from the format alone.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"

namespace tessera {
namespace {

void expect_equal(const std::vector<float>& values, const nlohmann::json& golden) {
  const std::string name = golden["name"];
  ASSERT_EQ(values.size(), golden["size"].get<std::size_t>()) << name;
  for (std::size_t i = 0; i < golden["first"].size(); ++i) {
    EXPECT_EQ(values[i], golden["first"][i].get<float>()) << name << " column " << i;
  }
  const std::size_t tail = golden["last"].size();
  for (std::size_t i = 0; i < tail; ++i) {
    EXPECT_EQ(values[values.size() - tail + i], golden["last"][i].get<float>())
        << name << " column -" << tail - i;
  }
  double weighted = 0;  // the same order of additions as in the script: equal to the last bit
  for (std::size_t i = 0; i < values.size(); ++i)
    weighted += static_cast<double>(i % 13 + 1) * static_cast<double>(values[i]);
  EXPECT_EQ(weighted, golden["weighted"].get<double>()) << name;
}

TEST(TesseraTiny, DequantisedRowsAndVectorsEqualThePythonGoldens) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/src/checkpoint/testdata/tiny_rows.json");
  const auto golden = nlohmann::json::parse(file);
  const auto tiny = Checkpoint::open(std::string(TESSERA_SOURCE_DIR) + "/models/tessera-tiny");
  ASSERT_TRUE(tiny) << tiny.error().message();
  for (const auto& row : golden["rows"]) {
    const HostMatrix matrix = tiny->matrix(row["name"].get<std::string>());
    std::vector<float> values(static_cast<std::size_t>(matrix.in));
    matrix.dequantise_row(row["row"].get<std::int64_t>(), values.data());
    expect_equal(values, row);
  }
  for (const auto& vector : golden["vectors"])
    expect_equal(tiny->vector(vector["name"].get<std::string>()), vector);
}

TEST(TesseraTiny, DraftsBindWithTheirOwnNames) {
  const std::filesystem::path models = std::filesystem::path(TESSERA_SOURCE_DIR) / "models";
  const auto eagle = Checkpoint::open(models / "tessera-tiny-eagle3");
  ASSERT_TRUE(eagle) << eagle.error().message();
  EXPECT_EQ(eagle->config().architecture, Architecture::kEagle3Llama);
  EXPECT_EQ(eagle->matrix("layers.0.self_attn.q_proj").in, 512);  // embedding beside hidden state
  EXPECT_EQ(eagle->matrix("fc").in, 3 * 256);
  EXPECT_EQ(eagle->matrix("lm_head").out, 2048);
  EXPECT_FALSE(eagle->has("embed_tokens"));
  const auto d2t = eagle->token_map("d2t");
  const auto t2d = eagle->token_map("t2d");
  ASSERT_EQ(d2t.size(), 2048u);
  ASSERT_EQ(t2d.size(), 4096u);
  std::size_t marked = 0;
  for (const auto mark : t2d) marked += mark != 0 ? 1 : 0;
  EXPECT_EQ(marked, 2048u);
  for (std::size_t k = 0; k < d2t.size(); ++k) {
    EXPECT_EQ(t2d[k + static_cast<std::size_t>(d2t[k])], 1) << "draft token " << k;
  }

  const auto mla = Checkpoint::open(models / "tessera-tiny-eagle3-mla");
  ASSERT_TRUE(mla) << mla.error().message();
  EXPECT_EQ(mla->config().architecture, Architecture::kEagle3Mla);
  EXPECT_EQ(mla->matrix("layers.0.self_attn.kv_a_proj_with_mqa").in, 512);
  EXPECT_EQ(mla->config().draft->aux_layers, (std::vector<std::int64_t>{1, 3, 5}));
  EXPECT_FALSE(mla->has("d2t"));

  const auto dflash = Checkpoint::open(models / "tessera-tiny-dflash");
  ASSERT_TRUE(dflash) << dflash.error().message();
  EXPECT_EQ(dflash->config().draft->mask_token, 4093);
  EXPECT_EQ(dflash->config().draft->block_size, 8);
  EXPECT_EQ(dflash->vector("layers.1.self_attn.q_norm").size(), 32u);
  EXPECT_FALSE(dflash->has("lm_head"));
}

}  // namespace
}  // namespace tessera
