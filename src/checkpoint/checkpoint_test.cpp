// Whole folders, right and broken, through Checkpoint::open.
#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/scratch_folder.h"
#include "checkpoint/synthetic_checkpoint.h"

namespace tessera {
namespace {

using synthetic::Model;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFile = "model.safetensors";

WeightFormat bf16(const Parameter&) { return WeightFormat::kBF16; }
WeightFormat int4_experts(const Parameter& p) {
  return p.module_class == ModuleClass::kRoutedExpert ? WeightFormat::kInt4Group32 : WeightFormat::kBF16;
}
WeightFormat fp8_except_head(const Parameter& p) {
  return p.module_class == ModuleClass::kHead ? WeightFormat::kBF16 : WeightFormat::kFp8Block128;
}

ModelConfig small_config() {
  auto config = parse_model_config(std::string(synthetic::kSmallConfig) + "}", "config.json");
  TS_CHECK(config.ok(), config.error().message());
  return *std::move(config);
}

Model small_model(const synthetic::FormatOf& format_of = bf16) {
  Model model;
  model.files[kFile] = synthetic::tensors_of_model(small_config(), format_of);
  return model;
}

Result<Checkpoint> open(const Model& model) {
  const ScratchFolder folder;
  model.write(folder.path());
  return Checkpoint::open(folder.path());  // the maps outlive the files' names
}

// A refusal of the right kind, in one line, that names file and tensor.
void expect_refused(const Model& model, ErrorKind kind, const std::string& file, const std::string& tensor,
                    const std::string& words) {
  const auto checkpoint = open(model);
  ASSERT_FALSE(checkpoint.ok()) << "accepted; expected: " << words;
  const std::string message = checkpoint.error().message();
  EXPECT_EQ(checkpoint.error().kind, kind) << message;
  EXPECT_THAT(message, HasSubstr(file));
  EXPECT_THAT(message, HasSubstr(tensor));
  EXPECT_THAT(message, HasSubstr(words));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

std::vector<float> all_values(const HostMatrix& matrix) {
  std::vector<float> values(static_cast<std::size_t>(matrix.out * matrix.in));
  for (std::int64_t row = 0; row < matrix.out; ++row)
    matrix.dequantise_row(row, values.data() + row * matrix.in);
  return values;
}

// What the writer meant by one matrix, from its bytes by the format's definition.
std::vector<float> meant(const std::vector<synthetic::Tensor>& tensors, WeightFormat format,
                         std::int64_t rows, std::int64_t cols) {
  std::vector<float> values;
  const char* data = tensors[0].data.data();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t i = r * cols + c;
      switch (format) {
        case WeightFormat::kF32:
          values.push_back(reinterpret_cast<const float*>(data)[i]);
          break;
        case WeightFormat::kBF16:
          values.push_back(static_cast<float>(reinterpret_cast<const BF16*>(data)[i]));
          break;
        case WeightFormat::kFp8Block128:
          values.push_back(static_cast<float>(reinterpret_cast<const F8E4M3*>(data)[i]) *
                           reinterpret_cast<const float*>(
                               tensors[1].data.data())[r / 128 * ((cols + 127) / 128) + c / 128]);
          break;
        case WeightFormat::kInt4Group32: {
          const auto byte = static_cast<std::uint8_t>(data[i / 2]);  // low nibble first
          const int code = (i % 2 == 0 ? byte & 15 : byte >> 4) - 8;
          values.push_back(static_cast<float>(code) *
                           static_cast<float>(reinterpret_cast<const BF16*>(tensors[1].data.data())[i / 32]));
          break;
        }
      }
    }
  }
  return values;
}

class EveryStoredFormat : public ::testing::TestWithParam<WeightFormat> {};

TEST_P(EveryStoredFormat, EveryMatrixReadsBackAsWritten) {
  const WeightFormat format = GetParam();
  const auto checkpoint = open(small_model([&](const Parameter&) { return format; }));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  unsigned seed = 1;
  for (const Parameter& p : parameters_of(checkpoint->config())) {
    if (!p.is_matrix()) continue;
    const WeightFormat stored = p.role == ParameterRole::kLinear ? format : WeightFormat::kBF16;
    const auto tensors = synthetic::matrix_tensors(p.name, stored, p.rows, p.cols, seed++);
    const HostMatrix matrix = checkpoint->matrix(p.name);
    ASSERT_EQ(matrix.format, stored) << p.name;
    ASSERT_EQ(all_values(matrix), meant(tensors, stored, p.rows, p.cols)) << p.name;
    EXPECT_EQ(matrix.bytes(), checkpoint->stored_bytes(p.name)) << p.name;
  }
  const auto norm = checkpoint->vector("model.norm");
  ASSERT_EQ(norm.size(), 160u);
  EXPECT_EQ(norm[16], 1.0F);
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryStoredFormat,
                         ::testing::Values(WeightFormat::kF32, WeightFormat::kBF16,
                                           WeightFormat::kFp8Block128, WeightFormat::kInt4Group32));

// --- folders

// Tensor i goes to file i mod 3.
Model in_three_files(bool with_index) {
  Model model = small_model(int4_experts);
  const auto tensors = std::move(model.files[kFile]);
  model.files.clear();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    model.files["part-" + std::to_string(i % 3) + ".safetensors"].push_back(tensors[i]);
  }
  model.with_index = with_index;
  return model;
}

TEST(CheckpointFolder, ShardsWithAndWithoutIndexGiveTheSameWeights) {
  const auto whole = open(small_model(int4_experts));
  ASSERT_TRUE(whole) << whole.error().message();
  for (const bool with_index : {false, true}) {
    const auto parts = open(in_three_files(with_index));
    ASSERT_TRUE(parts) << parts.error().message();
    EXPECT_EQ(parts->total_bytes(), whole->total_bytes());
    for (const char* name : {"lm_head", "model.layers.2.mlp.experts.3.down_proj"}) {
      EXPECT_EQ(all_values(parts->matrix(name)), all_values(whole->matrix(name))) << name;
    }
  }
}

TEST(CheckpointFolder, FileThatTheIndexNamesButNobodySentIsNamed) {
  const ScratchFolder folder;
  in_three_files(true).write(folder.path());
  std::filesystem::remove(folder.path() / "part-1.safetensors");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(checkpoint.error().message(), HasSubstr("part-1.safetensors"));
}

TEST(CheckpointFolder, IndexAndFilesMustAgree) {
  const auto with_index = [](const std::string& map) {
    const ScratchFolder folder;
    small_model().write(folder.path());
    synthetic::write_file(folder.path() / "model.safetensors.index.json", R"({"weight_map":{)" + map + "}}");
    return Checkpoint::open(folder.path()).error();
  };
  const Error lost = with_index(R"("model.norm.weight":"model.safetensors","ghost":"model.safetensors")");
  EXPECT_EQ(lost.kind, ErrorKind::kNotFound);
  EXPECT_THAT(lost.message(), HasSubstr("model.safetensors: ghost"));
  const Error extra = with_index(R"("model.norm.weight":"model.safetensors")");
  EXPECT_EQ(extra.kind, ErrorKind::kMismatch);
  EXPECT_THAT(extra.message(), HasSubstr("does not list it"));
  const Error outside = with_index(R"("model.norm.weight":"../model.safetensors")");
  EXPECT_EQ(outside.kind, ErrorKind::kInvalidArgument);
  const Error twice =
      with_index(R"("model.norm.weight":"model.safetensors","model.norm.weight":"model.safetensors")");
  EXPECT_EQ(twice.kind, ErrorKind::kCorrupt);
  EXPECT_THAT(twice.message(), HasSubstr("model.norm.weight twice"));
  const Error broken = with_index(R"("model.norm.weight":7)");
  EXPECT_EQ(broken.kind, ErrorKind::kCorrupt);
}

TEST(CheckpointFolder, EmptyAndAbsentFoldersSaySo) {
  const ScratchFolder folder;
  EXPECT_EQ(Checkpoint::open(folder.path() / "nothing").error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(Checkpoint::open(folder.path()).error().message(), HasSubstr("config.json"));
  synthetic::write_file(folder.path() / "config.json", small_model().config);
  EXPECT_THAT(Checkpoint::open(folder.path()).error().message(), HasSubstr("no *.safetensors file"));
}

TEST(CheckpointFolder, UnpaddedHeadersAreReadThroughCopies) {
  Model model = small_model(int4_experts);
  const auto straight = open(model);
  ASSERT_TRUE(straight) << straight.error().message();
  model.pad_headers = false;
  auto& tensors = model.files[kFile];
  for (int i = 0; i < 8; ++i) {  // whatever the length was, these make it odd in turn
    model.files[kFile].insert(
        tensors.begin(),
        {std::string(static_cast<std::size_t>(i) + 1, 'r') + ".rotary_emb.inv_freq", "U8", {1}, "x"});
    const auto odd = open(model);
    ASSERT_TRUE(odd) << odd.error().message();
    EXPECT_EQ(all_values(odd->matrix("lm_head")), all_values(straight->matrix("lm_head")));
    EXPECT_EQ(all_values(odd->matrix("model.layers.1.mlp.experts.0.up_proj")),
              all_values(straight->matrix("model.layers.1.mlp.experts.0.up_proj")));
    const HostMatrix head = odd->matrix("lm_head");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(head.data) % 2, 0u);
    odd->drop_pages();  // copies are no pages of a file
    EXPECT_EQ(all_values(odd->matrix("lm_head")), all_values(straight->matrix("lm_head")));
  }
}

TEST(CheckpointFolder, DroppedPagesReadBackTheSame) {
  const auto checkpoint = open(small_model(fp8_except_head));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  const std::string name = "model.layers.0.mlp.gate_proj";
  const auto before = all_values(checkpoint->matrix(name));
  checkpoint->drop_pages();
  EXPECT_EQ(all_values(checkpoint->matrix(name)), before);
}

TEST(CheckpointFolder, WeightBytesAreEveryUsedByteOnce) {
  const auto checkpoint = open(small_model(fp8_except_head));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  std::int64_t sum = 0;
  std::map<const std::byte*, std::size_t> parts;
  for (const auto& bytes : checkpoint->weight_bytes()) {
    sum += static_cast<std::int64_t>(bytes.size());
    parts.emplace(bytes.data(), bytes.size());
  }
  EXPECT_EQ(sum, checkpoint->total_bytes());
  const std::byte* end = nullptr;
  for (const auto& [begin, size] : parts) {
    EXPECT_GE(begin, end);
    end = begin + size;
  }
  EXPECT_TRUE(checkpoint->outline()->weight_bytes().empty());
}

// --- names

TEST(CheckpointNames, AllSpellingsOfTheTextPartAreFound) {
  const struct {
    const char* body;
    const char* head;
  } spellings[] = {{"model.", ""},
                   {"language_model.model.", "language_model."},
                   {"language_model.", "language_model."},
                   {"model.language_model.", ""}};
  for (const auto& spelling : spellings) {
    const std::string body = spelling.body;
    const std::string head = spelling.head;
    Model model;
    model.files[kFile] =
        synthetic::tensors_of_model(small_config(), int4_experts, [&](const std::string& name) {
          return name.starts_with("model.") ? body + name.substr(6) : head + name;
        });
    const auto checkpoint = open(model);
    ASSERT_TRUE(checkpoint) << body << ": " << checkpoint.error().message();
    EXPECT_EQ(checkpoint->matrix("model.layers.1.mlp.experts.2.gate_proj").out, 64);
  }
}

TEST(CheckpointNames, VisionPredictionLayersAndRotaryTablesAreSkippedWithANote) {
  Model model = small_model();
  auto& tensors = model.files[kFile];
  tensors.push_back({"vision_tower.encoder.blocks.0.wqkv.weight", "F64", {2}, std::string(16, 'v')});
  tensors.push_back({"mm_projector.proj.0.bias", "BF16", {4}, std::string(8, 'v')});
  tensors.push_back({"model.layers.3.eh_proj.weight", "BF16", {4}, std::string(8, 'v')});
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {16}, std::string(64, 'v')});
  const auto checkpoint = open(model);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  const auto& notes = checkpoint->binding().notes;
  EXPECT_THAT(notes, Contains(HasSubstr("skipped 2 vision tensors")));
  EXPECT_THAT(notes, Contains(HasSubstr("skipped 1 tensors of multi-token prediction")));
  EXPECT_THAT(notes, Contains(HasSubstr("skipped 1 rotary_emb.inv_freq")));
}

TEST(CheckpointNames, TiedHeadIsTheEmbedding) {
  Model model = small_model();
  model.config = std::string(synthetic::kSmallConfig) + R"(,"tie_word_embeddings":true})";
  const auto with_spare_head = open(model);
  ASSERT_TRUE(with_spare_head) << with_spare_head.error().message();
  model.remove("lm_head.weight");
  const auto tied = open(model);
  ASSERT_TRUE(tied) << tied.error().message();
  EXPECT_TRUE(tied->has("lm_head"));
  EXPECT_EQ(tied->matrix("lm_head").data, tied->matrix("model.embed_tokens").data);
}

TEST(CheckpointDeathTest, AskingForAnUnknownNameIsOurMistake) {
  const auto checkpoint = open(small_model());
  ASSERT_TRUE(checkpoint);
  EXPECT_DEATH((void)checkpoint->matrix("model.layers.9.self_attn.o_proj"), "model.layers.9");
  EXPECT_DEATH((void)checkpoint->matrix("model.norm"), "is_matrix");
}

// --- defects, each one alone in an otherwise right folder

TEST(CheckpointDefect, MissingTensor) {
  Model model = small_model();
  model.remove("model.layers.1.self_attn.o_proj.weight");
  expect_refused(model, ErrorKind::kNotFound, kFile, "model.layers.1.self_attn.o_proj.weight", "missing");
  model = small_model();
  model.remove("model.norm.weight");
  expect_refused(model, ErrorKind::kNotFound, kFile, "model.norm.weight", "[160]");
  model = small_model(int4_experts);
  model.remove("model.layers.1.mlp.experts.0.up_proj.weight_scale");
  expect_refused(model, ErrorKind::kNotFound, kFile, "experts.0.up_proj.weight_scale", "missing");
  model = small_model(int4_experts);
  model.remove("model.layers.1.mlp.experts.0.up_proj.weight_shape");
  expect_refused(model, ErrorKind::kNotFound, kFile, "experts.0.up_proj.weight_shape", "missing");
  model = small_model(fp8_except_head);
  model.remove("model.layers.2.self_attn.kv_b_proj.weight_scale_inv");
  expect_refused(model, ErrorKind::kNotFound, kFile, "kv_b_proj.weight_scale_inv", "missing");
}

TEST(CheckpointDefect, UnexpectedTensor) {
  Model model = small_model();
  model.files[kFile].push_back({"model.layers.1.self_attn.k_proj.weight", "BF16", {2}, "abcd"});
  expect_refused(model, ErrorKind::kMismatch, kFile, "model.layers.1.self_attn.k_proj.weight", "unexpected");
  model = small_model();
  model.files[kFile].push_back({"model.layers.1.self_attn.o_proj.bias", "BF16", {2}, "abcd"});
  expect_refused(model, ErrorKind::kUnsupported, kFile, "o_proj.bias", "bias");
  model = small_model();
  model.files[kFile].push_back({"model.layers.1.mlp.experts.4.up_proj.weight", "BF16", {2}, "abcd"});
  expect_refused(model, ErrorKind::kMismatch, kFile, "experts.4.up_proj.weight", "unexpected");
}

TEST(CheckpointDefect, MisShapedTensor) {
  Model model = small_model();
  model.tensor("model.layers.0.self_attn.kv_a_proj_with_mqa.weight").shape = {80, 320};
  expect_refused(model, ErrorKind::kMismatch, kFile, "kv_a_proj_with_mqa.weight",
                 "[80, 320], expected [160, 160]");
  model = small_model();
  model.tensor("model.layers.0.self_attn.kv_a_proj_with_mqa.weight").shape = {160, 160, 1};
  expect_refused(model, ErrorKind::kMismatch, kFile, "kv_a_proj_with_mqa.weight", "[160, 160, 1]");
  model = small_model(int4_experts);
  model.tensor("model.layers.1.mlp.experts.0.up_proj.weight_scale").shape = {5, 64};
  expect_refused(model, ErrorKind::kMismatch, kFile, "up_proj.weight_scale", "expected [64, 5]");
  model = small_model(fp8_except_head);
  model.tensor("model.layers.0.mlp.gate_proj.weight_scale_inv").shape = {4, 1};
  expect_refused(model, ErrorKind::kMismatch, kFile, "gate_proj.weight_scale_inv", "expected [2, 2]");
  model = small_model();
  model.tensor("model.norm.weight").shape = {1, 160};
  expect_refused(model, ErrorKind::kMismatch, kFile, "model.norm.weight", "[1, 160]");
}

TEST(CheckpointDefect, WeightShapeThatContradictsTheMatrix) {
  for (const bool wide : {false, true}) {
    Model model = small_model(int4_experts);
    auto& shape = model.tensor("model.layers.2.mlp.experts.3.down_proj.weight_shape");
    if (wide) {
      shape.dtype = "I64";
      shape.data = synthetic::bytes_of_values(std::vector<std::int64_t>{160, 64});
      EXPECT_TRUE(open(model)) << "int64 is a right spelling";
      shape.data = synthetic::bytes_of_values(std::vector<std::int64_t>{64, 160});
    } else {
      shape.data = synthetic::bytes_of_values(std::vector<std::int32_t>{64, 160});
    }
    expect_refused(model, ErrorKind::kMismatch, kFile, "down_proj.weight_shape",
                   "[64, 160], expected [160, 64]");
  }
}

TEST(CheckpointDefect, MisTypedTensor) {
  Model model = small_model();
  model.tensor("model.layers.0.self_attn.o_proj.weight").dtype = "F16";
  expect_refused(model, ErrorKind::kMismatch, kFile, "o_proj.weight", "F16, expected BF16");
  model = small_model(int4_experts);
  model.tensor("model.layers.1.mlp.experts.0.up_proj.weight_packed").dtype = "U32";
  expect_refused(model, ErrorKind::kMismatch, kFile, "up_proj.weight_packed", "U32, expected I32");
  model = small_model(int4_experts);
  model.tensor("model.layers.1.mlp.experts.0.up_proj.weight_scale").dtype = "F16";
  expect_refused(model, ErrorKind::kMismatch, kFile, "up_proj.weight_scale", "F16, expected BF16");
  model = small_model();
  model.tensor("model.norm.weight").dtype = "I32";
  expect_refused(model, ErrorKind::kMismatch, kFile, "model.norm.weight", "I32, expected BF16 or F32");
  model = small_model();
  auto& router = model.tensor("model.layers.1.mlp.gate.weight");
  router.dtype = "F8_E4M3";
  router.data.resize(router.data.size() / 2);
  expect_refused(model, ErrorKind::kMismatch, kFile, "mlp.gate.weight", "never quantised");
}

TEST(CheckpointDefect, TruncatedFileAtEveryLength) {
  const ScratchFolder folder;
  small_model().write(folder.path());
  const auto size = std::filesystem::file_size(folder.path() / kFile);
  for (std::uintmax_t length = size; length-- > 0;
       length -= std::min<std::uintmax_t>(length, length > 16 ? size / 97 : 0)) {
    std::filesystem::resize_file(folder.path() / kFile, length);
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_FALSE(checkpoint.ok()) << length << " of " << size << " bytes accepted";
    EXPECT_EQ(checkpoint.error().kind, ErrorKind::kCorrupt) << length;
    EXPECT_THAT(checkpoint.error().message(), HasSubstr("truncated")) << length;
    EXPECT_THAT(checkpoint.error().message(), HasSubstr(kFile)) << length;
  }
}

TEST(CheckpointDefect, DuplicateTensor) {
  Model model = small_model();
  model.files["other.safetensors"].push_back(model.tensor("model.norm.weight"));
  expect_refused(model, ErrorKind::kCorrupt, "other.safetensors", "model.norm.weight",
                 "model.safetensors too");
  model = small_model();
  model.files[kFile].push_back(model.tensor("model.norm.weight"));
  expect_refused(model, ErrorKind::kCorrupt, kFile, "model.norm.weight", "twice");
  model = small_model(int4_experts);
  model.files[kFile].push_back(
      {"model.layers.1.mlp.experts.0.up_proj.weight", "BF16", {64, 160}, std::string(64 * 160 * 2, 'x')});
  expect_refused(model, ErrorKind::kCorrupt, kFile, "experts.0.up_proj.weight: ", "twice");
}

TEST(CheckpointDefect, ForeignFormatsAreNamed) {
  Model model = small_model(int4_experts);
  model.files[kFile].push_back(
      {"model.layers.1.mlp.experts.0.up_proj.weight_global_scale", "F32", {1}, "abcd"});
  expect_refused(model, ErrorKind::kUnsupported, kFile, "experts.0.up_proj", "NVFP4 (compressed-tensors)");
  model = small_model();
  auto& weight = model.tensor("model.layers.1.mlp.experts.0.up_proj.weight");
  weight = {weight.name, "U8", {64, 80}, std::string(64 * 80, 'x')};
  model.files[kFile].push_back({"model.layers.1.mlp.experts.0.up_proj.weight_scale_2", "F32", {}, "abcd"});
  expect_refused(model, ErrorKind::kUnsupported, kFile, "experts.0.up_proj.weight", "NVFP4 (ModelOpt)");
  model = small_model(int4_experts);
  model.files[kFile].push_back(
      {"model.layers.1.mlp.experts.0.up_proj.weight_zero_point", "I32", {1}, "abcd"});
  expect_refused(model, ErrorKind::kUnsupported, kFile, "weight_zero_point", "asymmetric");
}

TEST(CheckpointDefect, ExpertsOfOneLayerInTwoFormats) {
  const Model model = small_model([](const Parameter& p) {
    return p.name == "model.layers.2.mlp.experts.1.up_proj" ? WeightFormat::kInt4Group32
                                                            : WeightFormat::kBF16;
  });
  expect_refused(model, ErrorKind::kUnsupported, kFile, "model.layers.2.mlp.experts.1.up_proj",
                 "share one format");
}

// --- ignore rules against the files

Model with_rules(const std::string& rules, const synthetic::FormatOf& format_of) {
  Model model = small_model(format_of);
  model.config =
      std::string(synthetic::kSmallConfig) +
      R"(,"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","ignore":[)" +
      rules +
      R"(],"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","group_size":32}}}}})";
  return model;
}

TEST(CheckpointRules, ExactParentAndPatternMatchAndTheWrongCaseIsAWarning) {
  const auto checkpoint = open(with_rules(
      R"("lm_head","re:.*shared_experts.*","model.layers.0.mlp","model.layers.2.self_attn.o_proj","Model.layers.1.self_attn")",
      int4_experts));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  std::vector<std::int64_t> matches;
  for (const RuleMatch& rule : checkpoint->binding().rules) matches.push_back(rule.modules);
  EXPECT_EQ(matches, (std::vector<std::int64_t>{1, 6, 3, 1, 0}));
  const auto& notes = checkpoint->binding().notes;
  EXPECT_THAT(notes, Contains(HasSubstr("\"Model.layers.1.self_attn\" matches no module")));
  EXPECT_THAT(notes, Contains(HasSubstr("14 modules are not quantised although no ignore rule matches, the "
                                        "first is model.layers.0.self_attn.q_a_proj")));
}

TEST(CheckpointRules, FilesDecideAndTheContradictionIsAWarning) {
  const auto checkpoint = open(with_rules(R"("re:.*")", int4_experts));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->matrix("model.layers.1.mlp.experts.0.up_proj").format, WeightFormat::kInt4Group32);
  EXPECT_THAT(checkpoint->binding().notes,
              Contains(HasSubstr("24 modules are quantised although an ignore rule matches")));
}

TEST(CheckpointRules, RuleForSkippedVisionModulesIsNoWarning) {
  Model model = with_rules(
      R"("re:vision_tower.*","re:.*self_attn.*","re:.*shared_experts.*","model.layers.0.mlp")", int4_experts);
  model.files[kFile].push_back({"vision_tower.patch_embed.proj.weight", "BF16", {2}, "abcd"});
  const auto checkpoint = open(model);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_THAT(checkpoint->binding().notes, Not(Contains(HasSubstr("warning"))));
}

TEST(CheckpointRules, PatternThatIsNoPatternIsAnError) {
  expect_refused(with_rules(R"("re:(")", int4_experts), ErrorKind::kInvalidArgument, "config.json", "re:(",
                 "regular expression");
}

// --- drafts

TEST(CheckpointDraft, TokenMapMustIncreaseAndStayInTheVocabulary) {
  const std::string config =
      R"({"architectures":["LlamaForCausalLMEagle3"],"model_type":"llama","vocab_size":64,"hidden_size":32,
    "num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":32,"max_position_embeddings":64,"draft_vocab_size":8})";
  const auto parsed = parse_model_config(config, "config.json");
  ASSERT_TRUE(parsed) << parsed.error().message();
  const auto with_map = [&](std::vector<std::int64_t> map) {
    Model model;
    model.config = config;
    model.files[kFile] = synthetic::tensors_of_model(*parsed, bf16);
    model.tensor("d2t").data = synthetic::bytes_of_values(map);
    return model;
  };
  EXPECT_TRUE(open(with_map({0, 0, 5, 5, 5, 9, 9, 56})));
  expect_refused(with_map({0, 0, 5, 5, 5, 9, 9, 57}), ErrorKind::kCorrupt, kFile, "d2t", "vocabulary of 64");
  expect_refused(with_map({-1, 0, 0, 0, 0, 0, 0, 0}), ErrorKind::kCorrupt, kFile, "d2t", "Draft token 0");
  expect_refused(with_map({3, 2, 0, 0, 0, 0, 0, 0}), ErrorKind::kCorrupt, kFile, "d2t",
                 "Draft token 1");  // both mean 3
}

TEST(CheckpointDraft, BothSpellingsOfTheOnlyLayerAreFound) {
  const std::string config =
      R"({"architectures":["LlamaForCausalLMEagle3"],"model_type":"llama","vocab_size":64,"hidden_size":32,
    "num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":32,"max_position_embeddings":64,"draft_vocab_size":8})";
  const auto parsed = parse_model_config(config, "config.json");
  ASSERT_TRUE(parsed) << parsed.error().message();
  for (const char* layer : {"midlayer.", "layers.0.", "model.layers.0.", "model.midlayer."}) {
    const std::string body = std::string(layer).starts_with("model.") ? "model." : "";
    Model model;
    model.config = config;
    model.files[kFile] = synthetic::tensors_of_model(*parsed, bf16, [&](const std::string& name) {
      if (name.starts_with("layers.0.")) return layer + name.substr(9);
      return name == "lm_head" || name == "d2t" ? name : body + name;
    });
    const auto checkpoint = open(model);
    ASSERT_TRUE(checkpoint) << layer << ": " << checkpoint.error().message();
    EXPECT_EQ(checkpoint->matrix("layers.0.self_attn.q_proj").in, 64);
  }
}

}  // namespace
}  // namespace tessera
