#include "checkpoint/ignore_rules.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tessera {
namespace {

bool matches(const std::string& rule, std::string_view name, std::string_view stored = {}) {
  auto rules = IgnoreRules::compile({rule}, "config.json");
  TS_CHECK(rules.ok(), rule);
  return rules->match(name, stored.empty() ? name : stored);
}

TEST(IgnoreRules, PlainNamesMatchTheModuleAndWhatItHolds) {
  EXPECT_TRUE(matches("lm_head", "lm_head"));
  EXPECT_TRUE(matches("model.layers.0.mlp", "model.layers.0.mlp.gate_proj"));
  EXPECT_FALSE(matches("model.layers.0.mlp", "model.layers.0.mlp_other"));
  EXPECT_FALSE(matches("model.layers.1", "model.layers.10.mlp.gate_proj"));
  EXPECT_FALSE(matches("gate_proj", "model.layers.0.mlp.gate_proj"));
  EXPECT_FALSE(matches("LM_head", "lm_head"));
}

TEST(IgnoreRules, PatternsMatchFromTheStartButNotToTheEnd) {
  EXPECT_TRUE(matches("re:model\\.layers\\.0", "model.layers.0.mlp.gate_proj"));
  EXPECT_FALSE(matches("re:mlp", "model.layers.0.mlp.gate_proj"));
  EXPECT_TRUE(matches("re:.*mlp", "model.layers.0.mlp.gate_proj"));
}

// The four rules of the published INT4 checkpoints: experts stay, the router and the dense layer do not match
// by accident.
TEST(IgnoreRules, DenseRuleSparesExpertsAndRouter) {
  const std::string rule = R"(re:.*mlp\.(gate|up|gate_up|down)_proj.*)";
  EXPECT_TRUE(matches(rule, "model.layers.0.mlp.gate_proj"));
  EXPECT_FALSE(matches(rule, "model.layers.1.mlp.experts.5.gate_proj"));
  EXPECT_FALSE(matches(rule, "model.layers.1.mlp.gate"));
}

TEST(IgnoreRules, EitherSpellingOfTheNameWillDo) {
  EXPECT_TRUE(matches("lm_head", "lm_head", "language_model.lm_head"));
  EXPECT_TRUE(matches("language_model.lm_head", "lm_head", "language_model.lm_head"));
  EXPECT_TRUE(matches("re:language_model\\.model\\.", "model.norm", "language_model.model.norm"));
}

TEST(IgnoreRules, ReportCountsModulesOnceARuleAndKeepsTheFirst) {
  auto rules = IgnoreRules::compile({"re:.*a.*", "b", "never"}, "config.json");
  ASSERT_TRUE(rules);
  EXPECT_TRUE(rules->match("xa", "prefix.xa"));
  EXPECT_TRUE(rules->match("b", "b"));
  EXPECT_TRUE(rules->match("ab", "ab"));
  EXPECT_FALSE(rules->match("c", "c"));
  const auto report = rules->report();
  EXPECT_EQ(report[0].modules, 2);
  EXPECT_EQ(report[0].example, "xa");
  EXPECT_EQ(report[1].modules, 1);
  EXPECT_EQ(report[2].modules, 0);
}

TEST(IgnoreRules, PatternMadeToBacktrackForEverEndsSoon) {
  auto rules = IgnoreRules::compile({"re:(a+)+$"}, "config.json");
  ASSERT_TRUE(rules);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(rules->match(std::string(200, 'a') + "b", "c"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(IgnoreRules, BrokenPatternIsAnErrorThatQuotesIt) {
  const auto rules = IgnoreRules::compile({"re:[z-a]"}, "config.json");
  ASSERT_FALSE(rules.ok());
  EXPECT_EQ(rules.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(rules.error().message().find("re:[z-a]"), std::string::npos);
}

}  // namespace
}  // namespace tessera
