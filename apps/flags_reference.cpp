#include "flags_reference.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "serve_flags.h"
#include "vllm_flags.h"

namespace tessera {
namespace {

// Names as typed: "--model" for an option that is also positional, every spelling of a flag.
std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "`--" : ", `--") + name + "`";
  return names;
}

std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

// Flags that a launch line for vLLM does not have.
constexpr std::array<std::string_view, 21> kOwnFlags = {"http-threads",
                                                        "max-connections",
                                                        "max-concurrent-requests",
                                                        "max-body-bytes",
                                                        "max-waiting",
                                                        "drain-seconds",
                                                        "no-ui",
                                                        "record-requests",
                                                        "record-requests-max-bytes",
                                                        "log-stats-interval",
                                                        "dry-run",
                                                        "recognise-control-tokens-in-messages",
                                                        "always-include-usage",
                                                        "dcp-mode",
                                                        "dcp-elastic-tokens",
                                                        "enable-pcie-allreduce",
                                                        "speculative-disable-above-seq-len",
                                                        "batch-invariant",
                                                        "threads",
                                                        "device",
                                                        "log-level"};

bool is_own(const CLI::Option& option) {
  return std::ranges::any_of(kOwnFlags,
                             [&](std::string_view name) { return option.check_lname(std::string(name)); });
}

std::string foreign_rows(FlagUse use) {
  std::string rows;
  for (const VllmFlag& flag : vllm_flags()) {
    if (flag.use != use) continue;
    rows += "| `" + std::string(flag.name) +
            (use == FlagUse::kOnlyDefault ? " " + std::string(flag.only) : std::string()) + "` | " +
            escaped(std::string(flag.reason)) + " |\n";
  }
  return rows;
}

}  // namespace

std::string flags_reference() {
  ServeFlags flags;
  CLI::App app;
  declare_server_flags(app, flags);
  declare_engine_flags(app, flags);
  std::string page =
      "# Flags of `tessera serve`\n\n"
      "Spellings are vLLM's; `--max_model_len` works as well as `--max-model-len`, and `-tp`, `-pp`, `-dcp`, "
      "`-q` are known.\n"
      "`tessera generate` takes the engine's flags. The page is written by the program (`TESSERA_REWRITE=1 "
      "cli_test`).\n";
  for (const std::string& group : app.get_groups()) {
    if (group.empty() || group == "Options") continue;
    page += "\n## " + group + "\n\n| flag | meaning | default |\n|---|---|---|\n";
    for (const CLI::Option* option :
         app.get_options([&](const CLI::Option* o) { return o->get_group() == group; })) {
      page += "| " + names_of(*option) + " | " + escaped(option->get_description()) + " | " +
              (option->get_default_str().empty() ? "" : "`" + option->get_default_str() + "`") + " |\n";
    }
  }
  page +=
      "\n## vLLM's other flags\n\n"
      "What becomes of them: [migrating from vLLM](../how-to/migrate-from-vllm.md). An unknown flag is an "
      "error that names the nearest known one.\n";
  page +=
      "\n## Environment\n\n"
      "| variable | meaning |\n|---|---|\n"
      "| `TESSERA_API_KEY`, `VLLM_API_KEY` | one more key that clients may send |\n"
      "| `VLLM_LOG_STATS_INTERVAL` | as `--log-stats-interval` |\n";
  return page;
}

std::string migration_guide() {
  ServeFlags flags;
  CLI::App app;
  declare_server_flags(app, flags);
  declare_engine_flags(app, flags);
  std::string kept;
  std::string own;
  for (const CLI::Option* option : app.get_options(
           [](const CLI::Option* o) { return !o->get_group().empty() && o->get_group() != "Options"; })) {
    std::string& rows = is_own(*option) ? own : kept;
    rows += "| " + names_of(*option) + " | " + escaped(option->get_description()) + " |\n";
  }
  return std::string(R"(# Migrate from vLLM

The tables are written by the program (`TESSERA_REWRITE=1 cli_test`), so they say what this version does.

1. Take the launch line as it is and put `tessera serve` where `vllm serve` (or `python -m vllm…api_server --model`) stood. The model must be
   a local folder; nothing is downloaded.
2. Add `--dry-run`. Flags that would change answers are refused by name; what has no effect is noted in the log with the reason; then
   comes the memory plan. Without the GPUs at hand: `tessera plan` ([reference](../reference/plan.md)).
3. Start it. `/health`, `/v1/models`, `/metrics` are where they were; metrics keep vLLM's names, so dashboards and alerts work. What
   the API does otherwise: [differences](../reference/http-api.md#differences-from-openais-api).
4. Compare: `--record-requests DIR` writes what clients ask, `tessera replay DIR --url …` asks it again of any server and says which
   greedy or seeded answers differ ([operate](operate.md#a-bug-report-is-a-file)). Between two engines tokens may part where two
   candidates are almost equally likely; between two Tesseras they may not.

To go back, change the command again: checkpoints and clients are untouched.

## What to look at first

| with vLLM | here |
|---|---|
| `--kv-cache-dtype auto` follows the model's type | f32 on the CPU, bf16 on a GPU; `fp8` and `fp8_ds_mla` by name |
| `--speculative-config` drafts a fixed length | the length is decided step by step; `"adaptive": false` fixes it |
| special tokens in messages are recognised | they stay text, unless `--recognise-control-tokens-in-messages` |
| `VLLM_API_KEY`, `VLLM_LOG_STATS_INTERVAL`, `VLLM_SPECULATIVE_DISABLE_ABOVE_SEQ_LEN`, `VLLM_ENABLE_PCIE_ALLREDUCE` | read as well |
| any other `VLLM_…` variable | not read |

## Flags that mean the same

| flag | meaning |
|---|---|
)") + kept +
         "\n## Accepted with one value\n\n| flag | any other value is refused, because |\n|---|---|\n" +
         foreign_rows(FlagUse::kOnlyDefault) + "\n## Refused\n\n| flag | what to do, or why |\n|---|---|\n" +
         foreign_rows(FlagUse::kRefused) +
         "\n## Accepted, without effect\n\nA note in the log says so.\n\n| flag | because |\n|---|---|\n" +
         foreign_rows(FlagUse::kNoMeaning) +
         "\n## Flags that vLLM does not have\n\n| flag | meaning |\n|---|---|\n" + own;
}

}  // namespace tessera
