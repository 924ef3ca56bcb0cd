#include "verify.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine_setup.h"
#include "serve_flags.h"
#include "tokenizer/tokenizer.h"
#include "verify/verify_prompts.h"
#include "verify/verify_report.h"

namespace tessera {
namespace {

// Of one launched configuration.
struct Recorded {
  ParitySetting setting;
  Transcript transcript;  // empty on processes other than 0
};

// The flags of one side, as `tessera serve MODEL FLAGS` would take them.
Result<ServeFlags> parse_side(const std::string& model, const std::string& text, const char* side) {
  ServeFlags flags;
  flags.max_num_seqs = 16;
  flags.log_level = "warning";
  CLI::App app;
  declare_engine_flags(app, flags);
  std::vector<std::string> arguments = {model};
  for (std::string& argument : CLI::detail::split_up(text))
    arguments.push_back(CLI::detail::remove_quotes(argument));
  arguments = with_dashes(arguments);
  std::ranges::reverse(arguments);
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return Error{ErrorKind::kInvalidArgument, side, error.what()};
  }
  return flags;
}

ParitySetting setting_of(const ServeFlags& flags, const MemoryPlan& plan) {
  return {.ranks = plan.ranks,
          .context_ranks = plan.dcp_ranks,
          .replicate_up_to = plan.dcp_ranks > 1 ? plan.replicate_up_to : 0,
          .exchange = plan.dcp_ranks > 1 ? flags.dcp_comm_backend : "",
          .expert_parallel = plan.ranks > 1 && flags.expert_parallel,
          .kv_format = plan.kv_format,
          .block_size = plan.block_size,
          .max_num_batched_tokens = plan.max_num_batched_tokens,
          .max_num_seqs = plan.max_num_seqs,
          .prefix_caching = plan.prefix_caching,
          .batch_invariant = plan.batch_invariant,
          .speculates = !flags.speculative_config.empty(),
          .sums_follow_batch = plan.device == ComputeDevice::kCuda && !plan.batch_invariant};
}

class Verification {
 public:
  Verification(const VerifyFlags& flags, Processes* processes, Checkpoint checkpoint)
      : flags_(flags), processes_(processes), checkpoint_(std::move(checkpoint)) {}

  Result<void> read_prompts() {
    TS_TRY(const Tokenizer tokenizer, Tokenizer::load(flags_.model));
    const auto encode = [&](const std::string& text) -> Result<std::vector<std::int32_t>> {
      TS_TRY(std::vector<std::int32_t> ids, tokenizer.encode(text, ControlTokens::kAsText));
      ids.insert(ids.begin(), tokenizer.text_prefix().begin(), tokenizer.text_prefix().end());
      return ids;
    };
    const auto room = static_cast<std::int32_t>(checkpoint_.config().max_positions) - flags_.tokens - 2;
    if (flags_.prompts.empty()) {
      TS_TRY(prompts_, default_prompts(encode, room));
    } else {
      TS_TRY(prompts_, read_prompt_file(flags_.prompts, encode, room));
    }
    return {};
  }
  const std::vector<VerifyPrompt>& prompts() const { return prompts_; }

  // On processes other than 0 it returns when process 0 has its transcript.
  Result<Recorded> record(const ServeFlags& side, const Transcript* reference) {
    TS_TRY(check_flags(side));
    LogitsRecorder recorder;
    LaunchHooks hooks;
    hooks.processes = processes_;
    hooks.logits_tap = recorder.tap();
    TS_TRY(LaunchedEngine launched, launch_engine(side, checkpoint_, hooks));
    Recorded recorded{setting_of(side, launched.plan), {}};
    if (launched.follower) {
      TS_TRY(follow(launched));
      return recorded;
    }
    TS_TRY(recorded.transcript,
           transcribe(*launched.engine, recorder, prompts_, reference, {.tokens = flags_.tokens}));
    return recorded;
  }

  PairReport judge_pair(const Recorded& a, const Recorded& b) const {
    PairReport report{.a = a.setting, .b = b.setting, .promise = promise_of(a.setting, b.setting)};
    if (const auto wanted = parse_parity_level(flags_.level)) {
      if (*wanted != report.promise.level) report.promise.reason = "asked for by --level";
      report.promise.level = *wanted;
    }
    if (flags_.kl_bound) report.promise.mean_kl = *flags_.kl_bound;
    report.together = !a.setting.sums_follow_batch && !b.setting.sums_follow_batch;
    report.comparison = compare(prompts_, a.transcript, b.transcript, report.together);
    report.judgement = judge(report.promise, report.comparison);
    return report;
  }

  bool speaks() const { return processes_ == nullptr || processes_->leads(); }

 private:
  const VerifyFlags& flags_;
  Processes* processes_;
  Checkpoint checkpoint_;
  std::vector<VerifyPrompt> prompts_;
};

Result<int> verify_pair(const VerifyFlags& flags, Verification& verification) {
  TS_TRY(const ServeFlags a_flags, parse_side(flags.model, flags.a, "--a"));
  TS_TRY(const ServeFlags b_flags, parse_side(flags.model, flags.b, "--b"));
  TS_TRY(const Recorded a, verification.record(a_flags, nullptr));
  TS_TRY(const Recorded b, verification.record(b_flags, &a.transcript));
  if (!verification.speaks()) return 0;
  const PairReport report = verification.judge_pair(a, b);
  fmt::print("{}", flags.json ? pair_json(report, verification.prompts())
                              : pair_text(report, verification.prompts()));
  return report.judgement.kept ? 0 : 1;
}

ServeFlags with_row(ServeFlags flags, int ranks, int context_ranks, const std::string& dtype, int chunk,
                    const std::string& mode) {
  flags.tensor_parallel_size = ranks;
  flags.decode_context_parallel_size = context_ranks;
  flags.dcp_mode = mode;
  flags.kv_cache_dtype = dtype;
  flags.max_num_batched_tokens = chunk;
  return flags;
}

std::vector<int> context_sizes(const VerifyFlags& flags, int ranks) {
  if (!flags.context_parallel.empty()) return flags.context_parallel;
  std::vector<int> result;
  for (int d = 1; d <= ranks; ++d) {
    if (ranks % d == 0) result.push_back(d);
  }
  return result;
}

// One row: the configuration against the reference of its own row format. A configuration that cannot be
// launched is a refusal, which counts as broken.
MatrixRow verify_row(const VerifyFlags& flags, Verification& verification, const ServeFlags& base,
                     const Recorded& reference, MatrixRow row, int processes) {
  const auto begin = std::chrono::steady_clock::now();
  if (row.ranks % row.context_ranks != 0) {
    row.impossible = fmt::format("D = {} does not divide T = {}", row.context_ranks, row.ranks);
  } else if (row.ranks % processes != 0) {
    row.impossible = fmt::format("{} processes cannot share T = {}", processes, row.ranks);
  } else {
    const ServeFlags side = with_row(base, row.ranks, row.context_ranks, row.kv, row.chunk, flags.dcp_mode);
    const auto other = verification.record(side, &reference.transcript);
    if (!other) {
      row.refused = other.error().message();
    } else if (verification.speaks()) {
      row.report = verification.judge_pair(reference, *other);
    }
  }
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return row;
}

struct MatrixCount {
  int kept = 0;
  int broken = 0;
  int impossible = 0;
};

Result<int> verify_matrix(const VerifyFlags& flags, Verification& verification, int processes) {
  TS_TRY(const ServeFlags base, parse_side(flags.model, flags.a, "--a"));
  const int widest = *std::ranges::max_element(flags.chunks);
  const bool speaks = verification.speaks();
  const bool prints = speaks && !flags.json;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  MatrixCount count;
  std::optional<Recorded> exact;  // f32 rows
  if (prints) fmt::print("{}", matrix_head(verification.prompts(), flags.tokens));
  for (const std::string& dtype : flags.kv_cache_dtypes) {
    // Several processes cannot run one rank: the reference has as few as they can.
    const ServeFlags side = with_row(base, processes, 1, dtype, widest, flags.dcp_mode);
    TS_TRY(Recorded reference, verification.record(side, nullptr));
    if (exact && exact->setting.kv_format != reference.setting.kv_format) {
      // Once more, along the tokens that f32 rows gave: only then do rows of logits belong together.
      TS_TRY(const Recorded along, verification.record(side, &exact->transcript));
      if (prints) fmt::print("{}", format_line(verification.judge_pair(*exact, along)));
    }
    for (const int ranks : flags.tensor_parallel) {
      for (const int context_ranks : context_sizes(flags, ranks)) {
        for (const int chunk : flags.chunks) {
          const MatrixRow row = verify_row(
              flags, verification, base, reference,
              {.ranks = ranks, .context_ranks = context_ranks, .kv = dtype, .chunk = chunk}, processes);
          ++(row.impossible ? count.impossible : row.kept() ? count.kept : count.broken);
          if (prints) fmt::print("{}", matrix_row_text(row, verification.prompts()));
          if (speaks && flags.json)
            rows.push_back(nlohmann::ordered_json::parse(matrix_row_json(row, verification.prompts())));
          std::fflush(stdout);
        }
      }
    }
    if (reference.setting.kv_format == KvFormat::kF32) exact = std::move(reference);
  }
  if (!speaks) return 0;
  if (flags.json) {
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{
            {"kept", count.kept}, {"broken", count.broken}, {"impossible", count.impossible}, {"rows", rows}}
            .dump(2));
  } else {
    fmt::print("{} kept, {} broken{}\n", count.kept, count.broken,
               count.impossible > 0 ? fmt::format(", {} impossible", count.impossible) : "");
  }
  return count.broken == 0 && count.kept > 0 ? 0 : 1;
}

Result<int> verify(const VerifyFlags& flags, Processes* processes) {
  if (flags.tokens < 1)
    return Error{ErrorKind::kInvalidArgument, "--tokens",
                 fmt::format("is {}; it must be at least 1.", flags.tokens)};
  if (!flags.level.empty() && !parse_parity_level(flags.level)) {
    return Error{ErrorKind::kInvalidArgument, "--level",
                 fmt::format("is '{}'; it must be bit-equal, token-equal or bounded.", flags.level)};
  }
  for (const std::vector<int>* list : {&flags.tensor_parallel, &flags.context_parallel, &flags.chunks}) {
    if (std::ranges::any_of(*list, [](int value) { return value < 1; }))
      return Error{ErrorKind::kInvalidArgument, "--matrix", "A size is below 1."};
  }
  TS_TRY(Checkpoint checkpoint, Checkpoint::open(flags.model));
  Verification verification(flags, processes, std::move(checkpoint));
  TS_TRY(verification.read_prompts());
  return flags.matrix ? verify_matrix(flags, verification, processes != nullptr ? processes->count() : 1)
                      : verify_pair(flags, verification);
}

}  // namespace

void declare_verify_flags(CLI::App& app, VerifyFlags& flags) {
  app.add_option("model,--model", flags.model, "Folder of a Hugging Face checkpoint")->required();
  app.add_option("--a", flags.a, "The first configuration: flags of `tessera serve`, as one argument");
  app.add_option("--b", flags.b, "The second configuration");
  app.add_option("--prompts", flags.prompts, "File with one prompt a line (default: built-in prompts)");
  app.add_option("--tokens", flags.tokens, "Tokens to generate for each prompt")->capture_default_str();
  app.add_option("--level", flags.level,
                 "bit-equal, token-equal or bounded (default: what the two configurations promise)");
  app.add_option("--kl-bound", flags.kl_bound,
                 "Nats a row that `bounded` allows (default: what tessera-tiny was measured with)");
  app.add_flag("--json", flags.json, "Print JSON");
  app.add_flag(
      "--matrix", flags.matrix,
      "Compare a table of configurations, each on top of --a, with one rank and the same row format");
  const std::string group = "Matrix";
  app.add_option("--tensor-parallel", flags.tensor_parallel, "Sizes T")
      ->delimiter(',')
      ->capture_default_str()
      ->group(group);
  app.add_option("--decode-context-parallel", flags.context_parallel, "Sizes D (default: all that divide T)")
      ->delimiter(',')
      ->group(group);
  app.add_option("--kv-cache-dtypes", flags.kv_cache_dtypes, "Row formats")
      ->delimiter(',')
      ->capture_default_str()
      ->group(group);
  app.add_option("--chunks", flags.chunks, "Query tokens a step, by which prompts are cut")
      ->delimiter(',')
      ->capture_default_str()
      ->group(group);
  app.add_option("--dcp-mode", flags.dcp_mode, "always or elastic")->capture_default_str()->group(group);
  app.footer(R"(
Examples:
  tessera verify models/tessera-tiny --a "" --b "--tensor-parallel-size 4 --decode-context-parallel-size 4"
  tessera verify models/tessera-tiny --matrix --tensor-parallel 1,2,4 --kv-cache-dtypes f32,fp8)");
}

int run_verify(const VerifyFlags& flags, Processes* processes) {
  if (processes != nullptr && !processes->leads()) {
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("tessera"));
  spdlog::set_level(spdlog::level::warn);
  const auto status = verify(flags, processes);
  if (!status) {
    spdlog::error("{}", status.error().message());
    return 2;
  }
  if (processes != nullptr && !processes->finish()) return 1;
  return *status;
}

}  // namespace tessera
