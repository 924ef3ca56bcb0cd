// A checkpoint in each weight format against its twin whose matrices are the same values in f32: same logits,
// up to rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "support/sequence_driver.h"
#include "support/tiny_model.h"

namespace tessera::test {
namespace {

std::vector<synthetic::Tensor> widened(const Checkpoint& checkpoint, std::vector<synthetic::Tensor> tensors) {
  std::vector<synthetic::Tensor> result;
  for (const Parameter& p : parameters_of(checkpoint.config())) {
    if (p.optional) continue;
    if (p.is_matrix() && p.role == ParameterRole::kLinear) {
      const HostMatrix matrix = checkpoint.matrix(p.name);
      std::vector<float> values(static_cast<std::size_t>(matrix.out * matrix.in));
      for (std::int64_t row = 0; row < matrix.out; ++row)
        matrix.dequantise_row(row, values.data() + row * matrix.in);
      result.push_back(
          {p.name + ".weight", "F32", {matrix.out, matrix.in}, synthetic::bytes_of_values(values)});
    } else {
      const std::string name = p.name + (p.has_weight_suffix ? ".weight" : "");
      result.push_back(*std::ranges::find(tensors, name, &synthetic::Tensor::name));
    }
  }
  return result;
}

std::vector<std::vector<float>> logits_of(const std::filesystem::path& folder,
                                          const std::vector<std::int32_t>& ids, int ranks) {
  TinyModel loaded = load_tiny({.folder = folder, .ranks = ranks});
  SequenceDriver driver(loaded);
  driver.generate(ids, 4, 32, true);
  std::vector<std::vector<float>> rows;
  for (const auto& [position, row] : driver.logits()) rows.push_back(row);
  return rows;
}

class WeightFormats : public testing::TestWithParam<WeightFormat> {};

TEST_P(WeightFormats, GiveTheLogitsOfTheirValues) {
  const ScratchFolder folder;
  synthetic::Model model;
  const auto config = parse_model_config(model.config, "config.json");
  ASSERT_TRUE(config.ok());
  const auto tensors = synthetic::tensors_of_model(*config, [](const Parameter&) { return GetParam(); });
  model.files["model.safetensors"] = tensors;
  model.write(folder.path());
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();

  const ScratchFolder twin_folder;
  synthetic::Model twin;
  twin.files["model.safetensors"] = widened(*checkpoint, tensors);
  twin.write(twin_folder.path());

  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 70; ++i)
    ids.push_back((i * 31 + 5) % static_cast<std::int32_t>(config->vocab));
  const auto want = logits_of(twin_folder.path(), ids, 1);
  const auto got = logits_of(folder.path(), ids, 1);
  ASSERT_EQ(got.size(), want.size());
  float largest = 0;
  for (const auto& row : want) {
    for (const float x : row) largest = std::max(largest, std::fabs(x));
  }
  ASSERT_GT(largest, 0.0F);
  for (std::size_t r = 0; r < got.size(); ++r) {
    for (std::size_t i = 0; i < got[r].size(); ++i)
      ASSERT_NEAR(got[r][i], want[r][i], 1e-3F * largest) << "row " << r << ", token " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, WeightFormats,
                         testing::Values(WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Block128,
                                         WeightFormat::kInt4Group32),
                         [](const auto& one) {
                           std::string name(name_of(one.param));
                           std::erase_if(
                               name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace tessera::test
