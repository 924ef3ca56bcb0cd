// Drafts under a grammar: the shipped model behind a real engine, whose answers must follow a JSON schema.
// Each row that verifies a draft is masked as the drafts before it leave the grammar, so that answers are
// those without drafts, and none breaks the schema.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "server/grammar/answer_constraint.h"
#include "server/grammar/grammar_cache.h"
#include "support/golden.h"
#include "support/live_engine.h"

namespace tessera::test {
namespace {

using Json = nlohmann::ordered_json;

const std::map<std::string, std::string>& configs() {
  static const std::map<std::string, std::string> all = {
      {"eagle3", R"({"model": "MODELS/tessera-tiny-eagle3", "num_speculative_tokens": 3})"},
      {"eagle3_mla", R"({"model": "MODELS/tessera-tiny-eagle3-mla", "num_speculative_tokens": 3})"},
      {"dflash", R"({"model": "MODELS/tessera-tiny-dflash", "num_speculative_tokens": 5})"},
      {"draft_model",
       R"({"method": "draft_model", "model": "MODELS/tessera-tiny", "num_speculative_tokens": 4})"},
      {"ngram", R"({"method": "ngram", "num_speculative_tokens": 5})"},
  };
  return all;
}

// Without a method: no speculation. Always as far as the config says, so that there are drafts to get wrong.
ServeFlags flags_of(const std::string& method, bool async = true) {
  ServeFlags flags;
  flags.max_model_len = 1024;
  flags.max_num_seqs = 8;
  flags.async_scheduling = async;
  if (method.empty()) return flags;
  std::string config = configs().at(method);
  if (const auto at = config.find("MODELS"); at != std::string::npos)
    config.replace(at, 6, source_path("models"));
  config.insert(config.size() - 1, R"(, "adaptive": false)");
  flags.speculative_config = config;
  return flags;
}

class Grammars {
 public:
  std::shared_ptr<TokenConstraint> of(const Json& schema) {
    const auto matcher = cache_.of_schema(schema);
    TS_CHECK(matcher.ok(), matcher.error().message());
    return make_json_constraint(vocabulary_, *matcher, SplitterOptions::kInContent);
  }
  std::string text_of(const std::vector<std::int32_t>& tokens) const {
    std::string text;
    for (const std::int32_t token : tokens) {
      if (!tokenizer_.is_control(token)) text += tokenizer_.bytes_of(token);
    }
    return text;
  }
  std::vector<std::int32_t> encode(const std::string& text) const {
    return *tokenizer_.encode(text, ControlTokens::kRecognise);
  }

 private:
  Tokenizer tokenizer_ = *Tokenizer::load(source_path("models/tessera-tiny"));
  std::shared_ptr<const ConstraintVocabulary> vocabulary_ = std::make_shared<const ConstraintVocabulary>(
      tokenizer_, tokenizer_.vocab_size(), std::vector{*tokenizer_.id_of("<|im_end|>")});
  GrammarCache cache_{vocabulary_->trie};
};

const char* const kTwelve = R"({"type": "array", "minItems": 12, "maxItems": 12, "items":
    {"type": "object", "properties": {"id": {"enum": [1, 22, 333]}, "ok": {"type": "boolean"}},
     "required": ["id", "ok"]}})";

// What is wrong with an answer that claims to follow the schema; empty: nothing.
std::string flaw_of_twelve(const std::string& text) {
  const Json answer = Json::parse(text, nullptr, false);
  if (answer.is_discarded()) return "not JSON";
  if (!answer.is_array() || answer.size() != 12) return "not an array of 12";
  for (const Json& item : answer) {
    if (!item.is_object() || item.size() != 2 || !item.contains("id") ||
        !(item["id"] == 1 || item["id"] == 22 || item["id"] == 333) || !item.contains("ok") ||
        !item["ok"].is_boolean())
      return "an item that the schema does not allow: " + item.dump();
  }
  return {};
}

std::size_t longest_space(const std::string& text) {
  std::size_t longest = 0;
  std::size_t now = 0;
  for (const char c : text) {
    now = c == ' ' || c == '\n' || c == '\t' || c == '\r' ? now + 1 : 0;
    longest = std::max(longest, now);
  }
  return longest;
}

class ConstrainedDrafts : public testing::TestWithParam<std::string> {
 protected:
  Grammars grammars;

  // Schemas and free text together, greedy and with seeds.
  std::vector<GenerationRequest> requests() {
    std::vector<GenerationRequest> all;
    const std::vector<GoldenPrompt> prompts = golden_prompts();
    for (std::size_t i = 0; i < 12; ++i) {
      GenerationRequest request;
      request.prompt = prompts[i % 4].ids;
      request.sampling.max_tokens = 60;
      request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
      if (i % 2 == 1) request.sampling.seed = i;
      if (i % 3 == 0) request.sampling.constraint = grammars.of(Json::parse(kTwelve));
      if (i % 3 == 1) request.sampling.constraint = grammars.of(Json());
      all.push_back(std::move(request));
    }
    return all;
  }
};

TEST_P(ConstrainedDrafts, ChangeNoTokenOfGreedyAndSeededAnswers) {
  LiveEngine plain(flags_of(""));
  const std::vector<Answer> expected = plain.run(requests());
  for (const bool async : {true, false}) {
    LiveEngine drafted(flags_of(GetParam(), async));
    const std::vector<Answer> answers = drafted.run(requests());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].tokens, expected[i].tokens) << "request " << i << (async ? " ahead" : "");
      EXPECT_EQ(answers[i].finished, expected[i].finished) << i;
    }
  }
}

// Drafts are verified, not only refused, while every request has a grammar.
TEST_P(ConstrainedDrafts, StandUnderAGrammar) {
  LiveEngine drafted(flags_of(GetParam()));
  std::vector<GenerationRequest> constrained;
  for (GenerationRequest& request : requests()) {
    if (request.sampling.constraint) constrained.push_back(std::move(request));
  }
  drafted.run(constrained);
  const SpeculationStats stats = drafted.engine().stats().speculation;
  EXPECT_GT(stats.accepted_tokens, 10);
  EXPECT_GT(stats.refused_drafts, 10);
  RecordProperty("accepted", std::to_string(stats.accepted_tokens));
}

INSTANTIATE_TEST_SUITE_P(All, ConstrainedDrafts,
                         testing::Values("eagle3", "eagle3_mla", "dflash", "draft_model", "ngram"),
                         [](const auto& test) { return test.param; });

// Whole answers, many times: none that says it is complete breaks its schema, none pads itself with spaces,
// none fails.
struct Case {
  std::string draft;
  const char* schema;  // null: any JSON object
  std::size_t runs;
  std::int32_t max_tokens;
};

class ConstrainedRuns : public testing::TestWithParam<Case> {};

TEST_P(ConstrainedRuns, NeverCallABrokenAnswerComplete) {
  const Case& c = GetParam();
  Grammars grammars;
  LiveEngine live(flags_of(c.draft));
  std::vector<GenerationRequest> requests;
  for (std::size_t i = 0; i < c.runs; ++i) {
    GenerationRequest request;
    request.prompt = grammars.encode("<|im_user|>user<|im_middle|>List number " + std::to_string(i) +
                                     " as JSON.<|im_end|><|im_assistant|>assistant<|im_middle|>");
    request.sampling.temperature = 1;
    request.sampling.max_tokens = c.max_tokens;
    request.sampling.constraint = grammars.of(c.schema == nullptr ? Json() : Json::parse(c.schema));
    requests.push_back(std::move(request));
  }
  std::size_t complete = 0;
  for (const Answer& answer : live.run(requests)) {
    const std::string text = grammars.text_of(answer.tokens);
    EXPECT_NE(answer.finished, FinishReason::kError) << text;
    EXPECT_LE(longest_space(text), 20U) << text;
    if (answer.finished != FinishReason::kStop) continue;
    ++complete;
    if (c.schema != nullptr) {
      EXPECT_EQ(flaw_of_twelve(text), "") << text;
    } else {
      EXPECT_TRUE(Json::parse(text, nullptr, false).is_object()) << text;
    }
  }
  const EngineStats stats = live.engine().stats();
  EXPECT_EQ(stats.failed, 0);
  EXPECT_GT(stats.speculation.accepted_tokens, 100);
  std::printf("%zu of %zu answers complete; %lld drafts verified, %lld accepted, %lld refused\n", complete,
              c.runs, static_cast<long long>(stats.speculation.draft_tokens),
              static_cast<long long>(stats.speculation.accepted_tokens),
              static_cast<long long>(stats.speculation.refused_drafts));
  EXPECT_GT(complete, c.runs / 10);
}

INSTANTIATE_TEST_SUITE_P(
    All, ConstrainedRuns,
    // vllm#55313: an array schema, and vllm#53777: a DFlash draft under json_object.
    testing::Values(Case{.draft = "eagle3", .schema = kTwelve, .runs = 200, .max_tokens = 256},
                    Case{.draft = "dflash", .schema = nullptr, .runs = 100, .max_tokens = 128}),
    [](const auto& test) { return test.param.draft; });

}  // namespace
}  // namespace tessera::test
