#include "tokenizer/hf_json.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/slowdown.h"
#include "tokenizer/tiktoken.h"

namespace tessera {
namespace {

using Ids = std::vector<std::int32_t>;
const std::string kRoot = TESSERA_SOURCE_DIR;
const std::string kData = kRoot + "/src/tokenizer/testdata/";

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
Result<Tokenizer> from_json(const nlohmann::json& json) { return make_hf_tokenizer(json.dump(), {}, "test"); }
nlohmann::json llama() { return nlohmann::json::parse(read(kData + "llama_tokenizer.json")); }

// Recorded with Hugging Face's tokenizers and OpenAI's tiktoken: testdata/make_tokenizer_goldens.py.
TEST(Goldens, AllFamiliesEncodeAsTheirOwnLibraries) {
  const auto goldens = nlohmann::json::parse(read(kData + "tokenizer_goldens.json"));
  ASSERT_GT(goldens.size(), 100U);
  for (const std::string name : {"kimi", "llama", "qwen", "deepseek"}) {
    auto loaded = name == "kimi" ? Tokenizer::load(kRoot + "/models/tessera-tiny")
                                 : make_hf_tokenizer(read(kData + name + "_tokenizer.json"), {}, name);
    ASSERT_TRUE(loaded) << loaded.error().message();
    for (const auto& golden : goldens) {
      const auto text = golden.at("text").get<std::string>();
      const auto ids = loaded->encode(text, ControlTokens::kRecognise);
      ASSERT_TRUE(ids) << ids.error().message();
      EXPECT_EQ(*ids, golden.at(name).get<Ids>()) << name << ": " << golden.at("text");
    }
  }
}

TEST(HfJson, ReadsThePostProcessorAndItsTokens) {
  const auto loaded = from_json(llama());
  ASSERT_TRUE(loaded) << loaded.error().message();
  ASSERT_EQ(loaded->text_prefix().size(), 1U);
  EXPECT_EQ(loaded->bytes_of(loaded->text_prefix()[0]), "<|begin_of_text|>");
  EXPECT_FALSE(loaded->is_special(*loaded->id_of("<think>")));
}

TEST(HfJson, RefusesWhatItCannotReadExactly) {
  const auto kind_with = [](const char* pointer, const nlohmann::json& value) {
    nlohmann::json json = llama();
    json[nlohmann::json::json_pointer(pointer)] = value;
    const auto made = from_json(json);
    return made ? "read" : std::string(name_of(made.error().kind));
  };
  const std::string unsupported(name_of(ErrorKind::kUnsupported)), corrupt(name_of(ErrorKind::kCorrupt));
  EXPECT_EQ(kind_with("/model/type", "Unigram"), unsupported);
  EXPECT_EQ(kind_with("/model/byte_fallback", true), unsupported);
  EXPECT_EQ(kind_with("/normalizer", {{"type", "NFKC"}}), unsupported);
  EXPECT_EQ(kind_with("/normalizer", {{"type", "NFC"}}), "read");
  EXPECT_EQ(kind_with("/pre_tokenizer", {{"type", "Metaspace"}}), unsupported);
  EXPECT_EQ(kind_with("/decoder", {{"type", "Metaspace"}}), unsupported);
  EXPECT_EQ(kind_with("/model/merges/0", "no-such-token x"), corrupt);
  EXPECT_EQ(kind_with("/model/merges/0", 5), corrupt);
  EXPECT_EQ(kind_with("/model/vocab/zzzz", -1), corrupt);
  EXPECT_EQ(kind_with("/model/vocab/zzzz", 5), corrupt) << "two tokens of one id";
  EXPECT_EQ(kind_with("/model/vocab", nullptr), corrupt);
  EXPECT_EQ(kind_with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "[a[b]]"), unsupported);
  EXPECT_EQ(kind_with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(unclosed"), unsupported);
  EXPECT_FALSE(make_hf_tokenizer("{", {}, "test"));
  EXPECT_FALSE(make_hf_tokenizer(std::string(100'000, '['), {}, "test"));
}

TEST(HfJson, FiveMillionEqualCharactersInOnePieceTakeUnderTwoSeconds) {
  const auto loaded = from_json(llama());
  ASSERT_TRUE(loaded);
  for (const char c : {'a', 'x', ' ', '!'}) {
    const std::clock_t start = std::clock();
    const auto ids = loaded->encode(std::string(5'000'000, c), ControlTokens::kRecognise);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_LT(seconds, 2.0 * kSlowdown) << c;
  }
}

TEST(Tiktoken, DefectsNameTheLine) {
  const auto where = [](const std::string& text) {
    const auto made = read_tiktoken_ranks(text, "t");
    return made ? "read" : made.error().where;
  };
  EXPECT_EQ(where("AA== 0\nAQ== 1\n"), "read");
  EXPECT_EQ(where("AA== 0\r\nAQ== 1"), "read");
  EXPECT_EQ(where("AA== 0\nA!== 1\n"), "t:2");
  EXPECT_EQ(where("AA== 0\nAQ==\n"), "t:2");
  EXPECT_EQ(where("AA== 0\nAQ== x\n"), "t:2");
  EXPECT_EQ(where("AA== 0\nAQ== 0\n"), "t:2");
  EXPECT_EQ(where("AA== 99999999999\n"), "t:1");
  EXPECT_EQ(where("AA== 0\nAQ== 2\n"), "t") << "rank 1 is missing";
  EXPECT_EQ(where(""), "t");
}

}  // namespace
}  // namespace tessera
