#include "serve_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "flags_reference.h"
#include "generation_defaults.h"
#include "vllm_flags.h"

namespace tessera {
namespace {

struct Parsed {
  ServeFlags flags;
  std::string error;  // what the user is told; empty when the line is accepted
};

Parsed parse(std::vector<std::string> arguments) {
  Parsed parsed;
  CLI::App app;
  declare_server_flags(app, parsed.flags);
  declare_engine_flags(app, parsed.flags);
  app.allow_extras();
  arguments = with_dashes(arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    if (!app.remaining().empty()) {
      parsed.error = unknown_argument(app, app.remaining().front()).message();
    } else if (const auto checked = check_flags(parsed.flags); !checked) {
      parsed.error = checked.error().message();
    }
  } catch (const CLI::ParseError& error) {
    parsed.error = error.what();
  }
  return parsed;
}

// The published launch line of the tracked stack, with the models' folders and the sizes changed.
TEST(ServeFlags, AcceptsThePublishedLaunchLine) {
  const Parsed parsed = parse({"models/tessera-tiny",
                               "--served-model-name",
                               "Kimi-K2.6",
                               "--trust-remote-code",
                               "--host",
                               "0.0.0.0",
                               "--port",
                               "5002",
                               "--tensor-parallel-size",
                               "8",
                               "--pipeline-parallel-size",
                               "1",
                               "--decode-context-parallel-size",
                               "8",
                               "--enable-chunked-prefill",
                               "--enable-prefix-caching",
                               "--load-format",
                               "fastsafetensors",
                               "--async-scheduling",
                               "--gpu-memory-utilization",
                               "0.94",
                               "--max-model-len",
                               "8192",
                               "--max-num-batched-tokens",
                               "8192",
                               "--max-num-seqs",
                               "128",
                               "--mm-processor-cache-gb",
                               "0",
                               "--mm-encoder-tp-mode",
                               "weights",
                               "--attention-backend",
                               "TRITON_MLA",
                               "--kv-cache-dtype",
                               "fp8",
                               "--tool-call-parser",
                               "kimi_k2",
                               "--enable-auto-tool-choice",
                               "--reasoning-parser",
                               "kimi_k2",
                               "--speculative-config",
                               R"({"model":"models/tessera-tiny-eagle3-mla","method":"eagle3",)"
                               R"("num_speculative_tokens":3,"draft_attention_backend":"TRITON_MLA",)"
                               R"("draft_kv_cache_dtype":"fp8","rejection_sample_method":"probabilistic"})"});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.flags.model, "models/tessera-tiny");
  EXPECT_THAT(parsed.flags.served_model_names, testing::ElementsAre("Kimi-K2.6"));
  EXPECT_EQ(parsed.flags.port, 5002);
  EXPECT_EQ(parsed.flags.max_model_len, 8192);
  EXPECT_EQ(parsed.flags.max_num_batched_tokens, 8192);
  EXPECT_EQ(parsed.flags.kv_cache_dtype, "fp8");
  EXPECT_TRUE(parsed.flags.enable_auto_tool_choice);
  EXPECT_THAT(
      parsed.flags.notes,
      testing::Contains("--load-format fastsafetensors has no effect: weights are memory-mapped and read "
                        "once, whatever the loader is called."));
  EXPECT_THAT(parsed.flags.notes,
              testing::Contains(testing::StartsWith("--attention-backend TRITON_MLA has no effect")));
}

TEST(ServeFlags, LeavesAValueThatHoldsFlagsAsItIs) {
  const std::string flags = R"(--device cuda --speculative-config {"num_speculative_tokens":3})";
  EXPECT_THAT(with_dashes({"--b", flags, "--max_model_len=4"}),
              testing::ElementsAre("--b", flags, "--max-model-len=4"));
}

TEST(ServeFlags, RefusesByNameWhatIsNotBuilt) {
  EXPECT_THAT(parse({"m", "--enable-lora"}).error, testing::HasSubstr("merge them into the checkpoint"));
}

TEST(ServeFlags, ContextParallelGroupsHaveVllmsSpellings) {
  EXPECT_EQ(parse({"m", "-tp", "8", "-dcp", "8"}).flags.decode_context_parallel_size, 8);
  EXPECT_EQ(parse({"m", "--tensor-parallel-size", "8", "--decode-context-parallel-size", "4"})
                .flags.decode_context_parallel_size,
            4);
}

TEST(ServeFlags, SpeculationIsConfiguredAsInVllm) {
  const auto parsed = parse({"m", "--speculative-config", R"({"method":"ngram","num_speculative_tokens":3})",
                             "--speculative-disable-above-seq-len", "7000"});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.flags.speculative_config, R"({"method":"ngram","num_speculative_tokens":3})");
  EXPECT_EQ(parsed.flags.speculative_disable_above_seq_len, 7000);
}

TEST(ServeFlags, NamesTheNearestKnownFlag) {
  EXPECT_EQ(parse({"m", "--max-model-length", "10"}).error,
            "--max-model-length: is not a known flag; did you mean --max-model-len?");
  EXPECT_EQ(parse({"m", "--prot=80"}).error, "--prot: is not a known flag; did you mean --port?");
  EXPECT_EQ(parse({"m", "--zzzzzzzzzzzz"}).error, "--zzzzzzzzzzzz: is not a known flag; see --help.");
  EXPECT_THAT(parse({"m", "second"}).error, testing::HasSubstr("second"));
}

TEST(ServeFlags, TakesUnderscoresAndShortNamesAsVllmDoes) {
  const Parsed parsed =
      parse({"m", "--max_model_len=100", "--no_enable_prefix_caching", "-tp", "2", "-q", "fp8", "-O3"});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.flags.max_model_len, 100);
  EXPECT_FALSE(parsed.flags.prefix_caching);
  EXPECT_EQ(parsed.flags.tensor_parallel_size, 2);
}

TEST(ServeFlags, EveryBadValueIsNamedWithItsRange) {
  EXPECT_THAT(parse({"m", "--max-num-seqs", "0"}).error, "--max-num-seqs: is 0; it must be at least 1.");
  EXPECT_THAT(parse({"m", "--port", "70000"}).error, testing::HasSubstr("between 0 and 65535"));
  EXPECT_THAT(parse({"m", "--kv-cache-dtype", "int3"}).error,
              testing::HasSubstr("is 'int3'; it must be one of: auto, f32"));
  EXPECT_THAT(parse({"m", "--port", "abc"}).error, testing::HasSubstr("abc"));
  EXPECT_THAT(parse({"m", "--enable-auto-tool-choice"}).error,
              testing::HasSubstr("needs --tool-call-parser"));
  EXPECT_THAT(parse({}).error, testing::HasSubstr("model"));
}

TEST(ServeFlags, ReadsSizesWithUnits) {
  EXPECT_EQ(parse({"m", "--kv-cache-memory-bytes", "2GiB"}).flags.kv_cache_memory_bytes,
            std::int64_t{2} << 30);
}

TEST(ServeFlags, JsonValuesAreCheckedBeforeTheModelIsRead) {
  EXPECT_EQ(parse({"m", "--default-chat-template-kwargs", R"({"thinking": false})"}).error, "");
  EXPECT_THAT(parse({"m", "--default-chat-template-kwargs", "thinking"}).error,
              testing::HasSubstr("is 'thinking'; it must be a JSON object"));
  EXPECT_THAT(parse({"m", "--override-generation-config", "[]"}).error, testing::HasSubstr("JSON object"));
}

TEST(ServeFlags, OriginsAreWordsOrVllmsJson) {
  EXPECT_THAT(parse({"m", "--allowed-origins", R"(["https://a", "*"])"}).flags.allowed_origins,
              testing::ElementsAre("https://a", "*"));
  EXPECT_THAT(parse({"m", "--allowed-origins", "https://a", "b"}).flags.allowed_origins,
              testing::ElementsAre("https://a", "b"));
}

TEST(ServeFlags, ConcurrentRequestsHaveALimitThatCanBeSet) {
  EXPECT_EQ(parse({"m", "--max-concurrent-requests", "7"}).flags.max_concurrent_requests, 7);
  EXPECT_THAT(parse({"m", "--max-concurrent-requests", "0"}).error, testing::HasSubstr("at least 1"));
}

TEST(GenerationDefaults, TheCommandLineGoesBeforeTheFile) {
  const std::string model = std::string(TESSERA_SOURCE_DIR) + "/models/tessera-tiny";
  const SamplingParams own = *generation_defaults(model, "auto");
  const SamplingParams over = *generation_defaults(model, "auto", R"({"temperature": 0.25, "top_k": null})");
  EXPECT_EQ(over.temperature, 0.25F);
  EXPECT_EQ(over.top_p, own.top_p);
  EXPECT_EQ(generation_defaults(model, "vllm", R"({"do_sample": false})")->temperature, 0);
  EXPECT_THAT(generation_defaults(model, "auto", R"({"top_p": "x"})").error().message(),
              testing::HasSubstr("--override-generation-config: top_p"));
}

// The pages are the program's own text: TESSERA_REWRITE=1 writes them anew.
void expect_page(const std::string& name, const std::string& text) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/docs/" + name;
  if (std::getenv("TESSERA_REWRITE") != nullptr) std::ofstream(path) << text;
  std::ifstream in(path);
  std::stringstream page;
  page << in.rdbuf();
  EXPECT_EQ(page.str(), text);
}

TEST(FlagsReference, IsWhatTheDocsSay) { expect_page("reference/flags.md", flags_reference()); }
TEST(MigrationGuide, IsWhatTheDocsSay) { expect_page("how-to/migrate-from-vllm.md", migration_guide()); }

TEST(MigrationGuide, NamesEveryFlagOnce) {
  const std::string page = migration_guide();
  for (const VllmFlag& flag : vllm_flags()) {
    const std::string row = "\n| `" + std::string(flag.name);
    const std::size_t at = page.find(row);
    ASSERT_NE(at, std::string::npos) << flag.name;
  }
  const std::string own = page.substr(page.find("## Flags that vLLM does not have"));
  EXPECT_EQ(std::count(own.begin(), own.end(), '\n') - 4, 21) << own;  // kOwnFlags are all declared
}

}  // namespace
}  // namespace tessera
