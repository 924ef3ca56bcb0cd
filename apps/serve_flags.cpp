#include "serve_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

#include "flag_values.h"
#include "vllm_flags.h"

namespace tessera {
namespace {

// Edit distance, so that a misspelt flag is answered with the name that was meant.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// CLI11 takes vLLM's '["a", "b"]' for a list, but leaves the quotes.
std::string strip_quotes(std::string& word) {
  CLI::detail::trim(word);
  CLI::detail::remove_quotes(word);
  return {};
}

void take_foreign_flag(const VllmFlag& flag, const std::string& value, ServeFlags& flags) {
  const std::string spelled = std::string(flag.name) + (value.empty() ? "" : " " + value);
  switch (flag.use) {
    case FlagUse::kNoMeaning:
      flags.notes.push_back(spelled + " has no effect: " + std::string(flag.reason));
      return;
    case FlagUse::kOnlyDefault:
      if (value == flag.only) return;
      throw CLI::ValidationError(spelled, "is not supported: " + std::string(flag.reason));
    case FlagUse::kRefused:
      throw CLI::ValidationError(std::string(flag.name), "is not supported: " + std::string(flag.reason));
  }
}

void declare_foreign_flags(CLI::App& app, ServeFlags& flags) {
  for (const VllmFlag& flag : vllm_flags()) {
    const std::string name(flag.name);
    CLI::Option* option =
        flag.takes_value
            ? app.add_option_function<std::string>(
                  name, [&flag, &flags](const std::string& value) { take_foreign_flag(flag, value, flags); })
            : app.add_flag_callback(name, [&flag, &flags] { take_foreign_flag(flag, "", flags); });
    option->group("");  // not in --help: docs/reference/flags.md lists them
  }
}

}  // namespace

void declare_engine_flags(CLI::App& app, ServeFlags& flags) {
  const std::string group = "Engine";
  app.add_option("model,--model", flags.model, "Folder of a Hugging Face checkpoint")->required();
  app.add_option("--max-model-len", flags.max_model_len,
                 "Longest prompt + output, in tokens (default: the model's)")
      ->group(group);
  app.add_option("--max-num-seqs", flags.max_num_seqs, "Most sequences in a step")
      ->capture_default_str()
      ->group(group);
  app.add_option("--max-num-batched-tokens", flags.max_num_batched_tokens,
                 "Most query tokens in a step: long prompts are cut into chunks of this size")
      ->capture_default_str()
      ->group(group);
  app.add_option("--block-size", flags.block_size, "Tokens in a block of the KV cache")
      ->capture_default_str()
      ->group(group);
  app.add_option("--kv-cache-dtype", flags.kv_cache_dtype,
                 "auto (f32 on the CPU, bf16 on a GPU), f32, bf16, fp8, fp8_ds_mla")
      ->capture_default_str()
      ->group(group);
  app.add_option("--kv-cache-memory-bytes", flags.kv_cache_memory_bytes,
                 "Memory for the KV cache, e.g. 2GiB (default: room for all sequences, at most 2 GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->group(group);
  app.add_option("--num-gpu-blocks-override", flags.num_gpu_blocks_override,
                 "Blocks in the KV cache, instead of a number of bytes")
      ->group(group);
  app.add_option("--tensor-parallel-size", flags.tensor_parallel_size,
                 "Ranks that share the weights; on the CPU each is a group of threads")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--enable-expert-parallel", flags.expert_parallel,
               "Whole experts on each rank instead of a slice of each")
      ->group(group);
  app.add_option(
         "--decode-context-parallel-size", flags.decode_context_parallel_size,
         "Ranks that share the KV cache of a sequence; divides --tensor-parallel-size. Multiplies the "
         "context that fits")
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--dcp-mode", flags.dcp_mode,
         "elastic: short sequences are kept on every rank, decoded without exchange, and spread when they "
         "grow or room is needed; always: every sequence is spread")
      ->check(CLI::IsMember({"elastic", "always"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--dcp-elastic-tokens", flags.dcp_elastic_tokens,
                 "With --dcp-mode elastic: the longest sequence that is kept on every rank")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--dcp-comm-backend", flags.dcp_comm_backend,
         "How partial attention is exchanged: a2a (one message), ag_rs (two, summed on the way), or auto: "
         "what is faster here, measured at start")
      ->check(CLI::IsMember({"auto", "a2a", "ag_rs"}))
      ->capture_default_str()
      ->group(group);
  app.add_flag(
         "--enable-pcie-allreduce", flags.pcie_allreduce,
         "Several GPUs: small all-reduces by writing to each other's memory, where a trial at start finds "
         "that it works and is faster (environment: VLLM_ENABLE_PCIE_ALLREDUCE=1)")
      ->group(group);
  app.add_option(
         "--speculative-config", flags.speculative_config,
         "Speculative decoding, as JSON with vLLM's keys, e.g. {\"method\": \"eagle3\", \"model\": \"DIR\", "
         "\"num_speculative_tokens\": 3}; methods eagle3, dflash, draft_model, ngram. How far to speculate "
         "is "
         "decided step by step from measured costs and acceptance (\"adaptive\": false: always as far)")
      ->group(group);
  app.add_option("--speculative-disable-above-seq-len", flags.speculative_disable_above_seq_len,
                 "Sequences of more tokens do not speculate (also from "
                 "VLLM_SPECULATIVE_DISABLE_ABOVE_SEQ_LEN); 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching,!--no-prefix-cache", flags.prefix_caching,
               "Keep the KV blocks of finished requests for prompts that begin alike (default: on)")
      ->group(group);
  app.add_flag("--async-scheduling,!--no-async-scheduling", flags.async_scheduling,
               "Plan each step, and hand out the tokens of the one before, while a step runs (default: on)")
      ->group(group);
  app.add_option("--seed", flags.seed, "Seed of requests that bring none")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--batch-invariant", flags.batch_invariant,
               "Bit-equal results whatever shares the batch, however a prompt is cut, cached or recomputed; "
               "slower prefill")
      ->group(group);
  app.add_flag(
         "--enforce-eager", flags.enforce_eager,
         "Run decode steps call by call instead of replaying recorded ones on a GPU; the same bits, slower")
      ->group(group);
  app.add_option("--threads", flags.threads, "CPU threads that compute (default: all cores)")->group(group);
  app.add_option("--device", flags.device, "auto, cpu or cuda; auto takes a GPU where there is one")
      ->capture_default_str()
      ->group(group);
  app.add_option("--log-level", flags.log_level, "debug, info, warning, error")
      ->capture_default_str()
      ->group(group);
  declare_foreign_flags(app, flags);
}

void declare_server_flags(CLI::App& app, ServeFlags& flags) {
  const std::string server = "Server";
  app.add_option("--host", flags.host, "Address to listen on")->capture_default_str()->group(server);
  app.add_option("--port", flags.port, "Port to listen on; 0 takes a free one and prints it")
      ->capture_default_str()
      ->group(server);
  app.add_option("--served-model-name", flags.served_model_names,
                 "Names that requests may use; the first is the one in answers (default: the folder's name)")
      ->group(server);
  app.add_option("--api-key", flags.api_keys,
                 "Keys of which a client must send one (also from TESSERA_API_KEY)")
      ->group(server);
  app.add_option("--root-path", flags.root_path, "Path under which a proxy serves this server")
      ->group(server);
  app.add_option("--allowed-origins", flags.allowed_origins,
                 "Origins that browsers may call from: *, names, or a JSON array (default: none)")
      ->transform(CLI::Validator(strip_quotes, ""))
      ->group(server);
  app.add_flag("--allow-credentials", flags.allow_credentials, "Let browsers send credentials")
      ->group(server);
  app.add_option("--http-threads", flags.http_threads, "Threads that parse, tokenise and write")
      ->capture_default_str()
      ->group(server);
  app.add_option("--max-connections", flags.max_connections, "Open connections before new ones get 503")
      ->capture_default_str()
      ->group(server);
  app.add_option("--max-concurrent-requests", flags.max_concurrent_requests,
                 "Requests being answered, queued ones included, before new ones get 429")
      ->capture_default_str()
      ->group(server);
  app.add_option("--max-body-bytes", flags.max_body_bytes, "Largest request body")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str()
      ->group(server);
  app.add_option("--max-waiting", flags.max_waiting, "Queued requests before new ones get 503")
      ->capture_default_str()
      ->group(server);
  app.add_option("--drain-seconds", flags.drain_seconds,
                 "After SIGTERM, how long running requests may take to finish")
      ->capture_default_str()
      ->group(server);
  app.add_option(
         "--record-requests", flags.record_requests,
         "Folder to which each request and its answer are written, prompts included, keys removed; for "
         "`tessera replay`")
      ->group(server);
  app.add_option("--record-requests-max-bytes", flags.record_requests_max_bytes,
                 "Size of that folder, e.g. 4GiB; the oldest records are deleted")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(server);
  app.add_flag("--no-ui", flags.no_ui, "Serve no page at /: the API alone")->group(server);
  app.add_flag("--enable-log-requests", flags.enable_log_requests,
               "Log a line for each request, without its text")
      ->group(server);
  app.add_option(
         "--log-stats-interval", flags.log_stats_interval,
         "Seconds between statistics lines while there is work; 0: none (also VLLM_LOG_STATS_INTERVAL)")
      ->capture_default_str()
      ->group(server);
  app.add_flag("--dry-run", flags.dry_run, "Print the resolved configuration and the memory plan, and exit")
      ->group(server);

  const std::string chat = "Chat";
  app.add_option("--chat-template", flags.chat_template,
                 "File with a chat template, or the template (default: the checkpoint's)")
      ->group(chat);
  app.add_option("--tool-call-parser", flags.tool_call_parser, "kimi_k2")->group(chat);
  app.add_flag("--enable-auto-tool-choice", flags.enable_auto_tool_choice,
               "Let the model decide whether to call a tool")
      ->group(chat);
  app.add_option("--reasoning-parser", flags.reasoning_parser, "kimi_k2")->group(chat);
  app.add_flag("--recognise-control-tokens-in-messages", flags.recognise_control_tokens_in_messages,
               "Turn text such as <|im_end|> in messages into control tokens, as other engines do (lets "
               "messages forge turns)")
      ->group(chat);
  app.add_flag("--always-include-usage,--enable-force-include-usage", flags.always_include_usage,
               "End every stream with a usage chunk")
      ->group(chat);
  app.add_option("--default-chat-template-kwargs", flags.default_chat_template_kwargs,
                 "JSON object handed to the chat template, under a request's own chat_template_kwargs")
      ->capture_default_str()
      ->group(chat);
  app.add_option("--generation-config", flags.generation_config,
                 "auto: sampling defaults of the checkpoint's generation_config.json; vllm: none")
      ->capture_default_str()
      ->group(chat);
  app.add_option("--override-generation-config", flags.override_generation_config,
                 "JSON object with sampling defaults that go before the generation config's")
      ->capture_default_str()
      ->group(chat);
  app.add_option("--max-logprobs", flags.max_logprobs, "Most alternatives that a request may ask for")
      ->capture_default_str()
      ->group(chat);
  app.add_option("--response-role", flags.response_role, "Role in answers")
      ->capture_default_str()
      ->group(chat);
}

std::vector<std::string> with_dashes(const std::vector<std::string>& arguments) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kShort = {
      {{"-tp", "--tensor-parallel-size"},
       {"-pp", "--pipeline-parallel-size"},
       {"-dp", "--data-parallel-size"},
       {"-dcp", "--decode-context-parallel-size"},
       {"-ep", "--enable-expert-parallel"},
       {"-q", "--quantization"}}};
  std::vector<std::string> result;
  for (std::string argument : arguments) {
    const std::size_t end = std::min(argument.find('='), argument.size());
    if (argument.find(' ') < end) {
      // A value with flags of its own, as in --b "--dtype bf16".
    } else if (argument.starts_with("--")) {
      std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
    } else if (argument.size() > 1 && argument[0] == '-') {
      for (const auto& [name, full] : kShort) {
        if (argument.substr(0, end) == name) argument = std::string(full) + argument.substr(end);
      }
      if (argument.starts_with("-O"))
        argument = "--optimization-level=" + argument.substr(argument.starts_with("-O=") ? 3 : 2);
    }
    result.push_back(std::move(argument));
  }
  return result;
}

Error unknown_argument(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  if (!name.starts_with("-")) {
    return {ErrorKind::kInvalidArgument, name,
            "is one argument too many: only the model's folder stands without a flag."};
  }
  std::string nearest;
  std::size_t best = name.size() / 2 + 1;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) {
      const std::size_t d = distance(name, "--" + known);
      if (d < best) {
        best = d;
        nearest = "--" + known;
      }
    }
  }
  return {ErrorKind::kInvalidArgument, name,
          nearest.empty() ? "is not a known flag; see --help."
                          : "is not a known flag; did you mean " + nearest + "?"};
}

Result<void> check_flags(const ServeFlags& flags) {
  const auto at_least = [](const char* flag, std::int64_t value, std::int64_t least) -> Result<void> {
    if (value >= least) return {};
    return Error{ErrorKind::kInvalidArgument, flag,
                 "is " + std::to_string(value) + "; it must be at least " + std::to_string(least) + "."};
  };
  const auto one_of = [](const char* flag, const std::string& value,
                         std::initializer_list<std::string_view> known) -> Result<void> {
    if (std::ranges::find(known, value) != known.end()) return {};
    std::string list;
    for (const std::string_view name : known)
      list += (list.empty() ? "" : ", ") + (name.empty() ? std::string("nothing") : std::string(name));
    return Error{ErrorKind::kInvalidArgument, flag, "is '" + value + "'; it must be one of: " + list + "."};
  };
  TS_TRY(at_least("--max-num-seqs", flags.max_num_seqs, 1));
  TS_TRY(at_least("--max-num-batched-tokens", flags.max_num_batched_tokens, 1));
  TS_TRY(at_least("--block-size", flags.block_size, 1));
  TS_TRY(at_least("--tensor-parallel-size", flags.tensor_parallel_size, 1));
  if (flags.max_model_len) TS_TRY(at_least("--max-model-len", *flags.max_model_len, 2));
  if (flags.num_gpu_blocks_override)
    TS_TRY(at_least("--num-gpu-blocks-override", *flags.num_gpu_blocks_override, 1));
  if (flags.kv_cache_memory_bytes)
    TS_TRY(at_least("--kv-cache-memory-bytes", *flags.kv_cache_memory_bytes, 1));
  TS_TRY(at_least("--threads", flags.threads, 0));
  TS_TRY(at_least("--http-threads", flags.http_threads, 1));
  TS_TRY(at_least("--max-connections", flags.max_connections, 1));
  TS_TRY(at_least("--max-concurrent-requests", flags.max_concurrent_requests, 1));
  TS_TRY(at_least("--max-waiting", flags.max_waiting, 1));
  TS_TRY(at_least("--drain-seconds", flags.drain_seconds, 0));
  if (flags.port < 0 || flags.port > 65535) {
    return Error{ErrorKind::kInvalidArgument, "--port",
                 "is " + std::to_string(flags.port) + "; it must be between 0 and 65535."};
  }
  TS_TRY(one_of("--kv-cache-dtype", flags.kv_cache_dtype,
                {"auto", "f32", "float32", "bf16", "bfloat16", "fp8", "fp8_e4m3", "fp8_ds_mla"}));
  TS_TRY(one_of("--device", flags.device, {"auto", "cpu", "cuda"}));
  TS_TRY(one_of("--tool-call-parser", flags.tool_call_parser, {"", "kimi_k2"}));
  TS_TRY(one_of("--reasoning-parser", flags.reasoning_parser, {"", "kimi_k2"}));
  TS_TRY(one_of("--log-level", flags.log_level, {"debug", "info", "warning", "error"}));
  TS_TRY(one_of("--generation-config", flags.generation_config, {"auto", "vllm"}));
  TS_TRY(check_json_object("--default-chat-template-kwargs", flags.default_chat_template_kwargs));
  TS_TRY(check_json_object("--override-generation-config", flags.override_generation_config));
  if (flags.enable_auto_tool_choice && flags.tool_call_parser.empty()) {
    return Error{ErrorKind::kInvalidArgument, "--enable-auto-tool-choice",
                 "needs --tool-call-parser, which is not set; use kimi_k2."};
  }
  return {};
}

}  // namespace tessera
