// The command line of tessera: one file of flags, one function a command.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "bench.h"
#include "checkpoint/inspect.h"
#include "doctor.h"
#include "generate.h"
#include "plan.h"
#include "processes.h"
#include "replay.h"
#include "serve.h"
#include "serve_flags.h"
#include "usage/completion.h"
#include "usage/man_page.h"
#include "verify.h"

namespace tessera {
namespace {

constexpr const char* kServeExamples = R"(
Examples:
  tessera serve models/tessera-tiny --port 8000
  tessera serve /models/Kimi-K2.6 --served-model-name Kimi-K2.6 --max-model-len 32768 --kv-cache-dtype fp8 \
      --tool-call-parser kimi_k2 --enable-auto-tool-choice --reasoning-parser kimi_k2
  tessera serve models/tessera-tiny --dry-run

vLLM's other flags are accepted: those without a meaning here with a note that says why (docs/reference/flags.md).)";

constexpr const char* kGenerateExamples = R"(
Examples:
  tessera generate models/tessera-tiny --prompt "The captain stood upon the deck and"
  tessera generate models/tessera-tiny --chat --prompt "Who are you?" --temperature 0)";

constexpr const char* kExamples = R"(
Examples:
  tessera serve models/tessera-tiny
  tessera generate models/tessera-tiny --chat --prompt "Who are you?"
  tessera serve --help
  source <(tessera completion bash)
  tessera man | man -l -

Exit codes: 0 done, 1 failed, 2 wrong usage.)";

// Environment variables are read here and nowhere else.
void read_environment(ServeFlags& flags) {
  for (const char* name : {"TESSERA_API_KEY", "VLLM_API_KEY"}) {
    if (const char* key = std::getenv(name); key != nullptr && *key != '\0') flags.api_keys.emplace_back(key);
  }
  if (const char* seconds = std::getenv("VLLM_LOG_STATS_INTERVAL")) {
    char* end = nullptr;
    const double value = std::strtod(seconds, &end);
    if (end != seconds) flags.log_stats_interval = value;
  }
  if (const char* on = std::getenv("VLLM_ENABLE_PCIE_ALLREDUCE");
      on != nullptr && std::string_view(on) == "1") {
    flags.pcie_allreduce = true;
    flags.notes.push_back("VLLM_ENABLE_PCIE_ALLREDUCE=1 is taken as --enable-pcie-allreduce.");
  }
  if (const char* tokens = std::getenv("VLLM_SPECULATIVE_DISABLE_ABOVE_SEQ_LEN")) {
    char* end = nullptr;
    const long value = std::strtol(tokens, &end, 10);
    if (end != tokens && value > 0 && value <= std::numeric_limits<std::int32_t>::max()) {
      flags.speculative_disable_above_seq_len = static_cast<std::int32_t>(value);
      flags.notes.push_back("VLLM_SPECULATIVE_DISABLE_ABOVE_SEQ_LEN=" + std::to_string(value) +
                            " is taken as --speculative-disable-above-seq-len.");
    }
  }
}

int print_error(const Error& error) {
  std::cerr << "tessera: " << error.message() << '\n';
  return 2;
}

int run_inspect(const std::string& model, bool json) {
  const auto inspection = inspect_model(model);
  if (!inspection) return print_error(inspection.error());
  std::cout << (json ? inspect_json(*inspection) : inspect_text(*inspection));
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  CLI::App app("Serves Kimi-class models: exact, fast, OpenAI-compatible.", "tessera");
  app.set_version_flag("--version", "tessera " TESSERA_VERSION);
  app.require_subcommand(1);
  app.footer(kExamples);

  ServeFlags serve_flags;
  read_environment(serve_flags);
  CLI::App* serve = app.add_subcommand("serve", "Serve a model over HTTP with OpenAI's protocol");
  declare_server_flags(*serve, serve_flags);
  declare_engine_flags(*serve, serve_flags);
  serve->footer(kServeExamples);
  serve->allow_extras();

  GenerateFlags generate_flags;
  CLI::App* generate = app.add_subcommand("generate", "Complete one prompt and print it as it comes");
  generate->add_option("--prompt", generate_flags.prompt, "Text to continue");
  generate->add_option("--prompt-file", generate_flags.prompt_file, "File with the text to continue");
  generate->add_flag("--chat", generate_flags.chat,
                     "Send the prompt as a user's message through the chat template");
  generate->add_option("--max-tokens", generate_flags.max_tokens, "Most tokens to generate")
      ->capture_default_str();
  generate->add_option("--temperature", generate_flags.temperature,
                       "0 is greedy (default: the checkpoint's)");
  generate->add_option("--top-p", generate_flags.top_p, "Default: the checkpoint's");
  generate->add_option("--top-k", generate_flags.top_k, "Default: the checkpoint's");
  generate->add_option("--request-seed", generate_flags.seed, "Same seed, same text");
  generate->add_flag("--ignore-eos", generate_flags.ignore_eos, "Go on after end tokens");
  generate->add_flag("--quiet", generate_flags.quiet, "Only the text");
  declare_engine_flags(*generate, generate_flags.engine);
  generate_flags.engine.max_num_seqs = 1;
  generate_flags.engine.log_level = "warning";
  generate->footer(kGenerateExamples);
  generate->allow_extras();

  std::string inspected;
  bool json = false;
  CLI::App* inspect_command =
      app.add_subcommand("inspect", "Show what a checkpoint holds: formats, sizes, rules, KV bytes");
  inspect_command->add_option("model", inspected, "Model folder, or a config.json without weights")
      ->required();
  inspect_command->add_flag("--json", json, "Print JSON");
  inspect_command->footer("\nExample:\n  tessera inspect models/tessera-tiny");

  PlanFlags plan_flags;
  CLI::App* plan_command =
      app.add_subcommand("plan", "Memory, KV tokens and sequences on given GPUs, before anything is loaded");
  declare_plan_flags(*plan_command, plan_flags);

  VerifyFlags verify_flags;
  CLI::App* verify =
      app.add_subcommand("verify", "Compare two configurations: tokens, logits, KL divergence");
  declare_verify_flags(*verify, verify_flags);

  ReplayFlags replay_flags;
  if (const char* key = std::getenv("TESSERA_API_KEY")) replay_flags.api_key = key;
  CLI::App* replay_command =
      app.add_subcommand("replay", "Ask recorded requests again and compare the answers");
  declare_replay_flags(*replay_command, replay_flags);

  DoctorFlags doctor_flags;
  CLI::App* doctor = app.add_subcommand("doctor", "What this machine is, what costs speed, what is broken");
  declare_doctor_flags(*doctor, doctor_flags);

  BenchCommand bench(app);

  std::string shell;
  CLI::App* completion = app.add_subcommand("completion", "Shell completion, to be sourced");
  completion->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer("\nExample:\n  source <(tessera completion bash)");
  CLI::App* man = app.add_subcommand("man", "This help as a manual page");
  man->footer("\nExample:\n  tessera man | man -l -");

  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (CLI::App* command : {serve, generate}) {
    if (command->parsed() && !command->remaining().empty())
      return print_error(unknown_argument(*command, command->remaining().front()));
  }
  if (completion->parsed() || man->parsed()) {
    std::cout << (man->parsed() ? man_page(app) : *completion_script("tessera", shell));
    return 0;
  }
  if (inspect_command->parsed()) return run_inspect(inspected, json);
  if (plan_command->parsed()) return run_plan(plan_flags);
  if (doctor->parsed()) return run_doctor(doctor_flags);
  if (bench.is_asked_for()) return bench.run();
  if (replay_command->parsed()) return run_replay(replay_flags);
  auto processes = Processes::join();
  if (!processes) return print_error(processes.error());
  if (verify->parsed()) return run_verify(verify_flags, processes->get());
  if (const auto checked = check_flags(serve->parsed() ? serve_flags : generate_flags.engine); !checked)
    return print_error(checked.error());
  if (*processes && !(*processes)->leads())
    return run_follower(serve->parsed() ? serve_flags : generate_flags.engine, **processes);
  return serve->parsed() ? run_serve(serve_flags, processes->get())
                         : run_generate(generate_flags, processes->get());
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(tessera::with_dashes({argv + 1, argv + argc})); }
