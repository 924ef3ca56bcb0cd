#include "serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "engine_setup.h"
#include "generation_defaults.h"
#include "server/server.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tessera {
namespace {

constexpr const char* kVersion = TESSERA_VERSION;

int fail(const Error& error) {
  spdlog::error("{}", error.message());
  return 1;
}

// SIGINT and SIGTERM are taken by wait_for_end alone: blocked here, before any thread starts, so that all
// threads inherit it.
sigset_t block_end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a client that is gone is an error of one write
  return signals;
}

// A template given on the command line, as a file or as text, or the checkpoint's own; nothing when there is
// none.
Result<std::optional<ChatTemplate>> load_chat_template(const ServeFlags& flags) {
  if (!flags.chat_template.empty()) {
    std::string source = flags.chat_template;
    if (std::filesystem::exists(flags.chat_template)) {
      std::ifstream in(flags.chat_template);
      std::stringstream text;
      text << in.rdbuf();
      source = text.str();
    } else if (source.find('{') == std::string::npos) {
      return Error{ErrorKind::kNotFound, "--chat-template",
                   "'" + source + "' is neither a file nor a template."};
    }
    TS_TRY(ChatTemplate chat, ChatTemplate::parse(std::move(source), "--chat-template"));
    return std::optional<ChatTemplate>(std::move(chat));
  }
  auto own = ChatTemplate::load(flags.model);
  if (own) return std::optional<ChatTemplate>(*std::move(own));
  if (own.error().kind == ErrorKind::kNotFound) return std::optional<ChatTemplate>();
  return std::move(own).error();
}

ServerOptions server_options(const ServeFlags& flags, const SamplingParams& defaults) {
  ServerOptions options;
  options.http.host = flags.host;
  options.http.port = static_cast<std::uint16_t>(flags.port);
  options.http.io_threads = flags.http_threads;
  options.http.max_connections = flags.max_connections;
  options.http.max_body_bytes = static_cast<std::size_t>(flags.max_body_bytes);
  options.root_path = flags.root_path;
  options.served_names = flags.served_model_names;
  if (options.served_names.empty()) {
    options.served_names.push_back(std::filesystem::path(flags.model).lexically_normal().filename().string());
    if (options.served_names.front().empty()) options.served_names.front() = flags.model;  // "models/x/"
  }
  options.model_path = flags.model;
  options.version = kVersion;
  options.api_keys = flags.api_keys;
  options.cors_origins = flags.allowed_origins;
  options.cors_credentials = flags.allow_credentials;
  options.access_log = flags.enable_log_requests;
  options.page = !flags.no_ui;
  options.record_folder = flags.record_requests;
  options.record_folder_bytes = flags.record_requests_max_bytes;
  options.always_include_usage = flags.always_include_usage;
  options.max_concurrent_requests = flags.max_concurrent_requests;
  options.response_role = flags.response_role;
  options.chat_template_kwargs = flags.default_chat_template_kwargs;
  options.max_logprobs = flags.max_logprobs;
  options.default_sampling = defaults;
  options.tool_call_parser = flags.tool_call_parser;
  options.enable_auto_tool_choice = flags.enable_auto_tool_choice;
  options.reasoning_parser = flags.reasoning_parser;
  options.control_tokens_in_messages = flags.recognise_control_tokens_in_messages;
  return options;
}

// vLLM's statistics line, for the interval since the last one; silent while nothing happens.
class StatsLog {
 public:
  explicit StatsLog(double interval_seconds) : interval_(interval_seconds) {}

  void look(const Engine& engine) {
    const auto now = std::chrono::steady_clock::now();
    const double elapsed = std::chrono::duration<double>(now - last_time_).count();
    if (interval_ <= 0 || elapsed < interval_) return;
    const EngineStats stats = engine.stats();
    const auto prompt = stats.prompt_tokens - last_.prompt_tokens;
    const auto generated = stats.generation_tokens - last_.generation_tokens;
    if (prompt > 0 || generated > 0 || stats.running > 0 || stats.waiting > 0) {
      const double queries = static_cast<double>(stats.prefix_queries - last_.prefix_queries);
      spdlog::info(
          "Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} tokens/s, Running: {} "
          "reqs, Waiting: {} reqs, "
          "KV cache usage: {:.1f}%, Prefix cache hit rate: {:.1f}%",
          static_cast<double>(prompt) / elapsed, static_cast<double>(generated) / elapsed, stats.running,
          stats.waiting, stats.kv_usage * 100,
          queries > 0 ? 100.0 * static_cast<double>(stats.prefix_hits - last_.prefix_hits) / queries : 0.0);
    }
    last_ = stats;
    last_time_ = now;
  }

 private:
  double interval_;
  std::chrono::steady_clock::time_point last_time_ = std::chrono::steady_clock::now();
  EngineStats last_;
};

}  // namespace

int run_serve(const ServeFlags& flags, Processes* processes) {
  const sigset_t end_signals = block_end_signals();
  spdlog::set_default_logger(spdlog::stderr_color_mt("tessera"));
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  for (const std::string& note : flags.notes) spdlog::info("{}", note);

  auto checkpoint = Checkpoint::open(flags.model);
  if (!checkpoint) return fail(checkpoint.error());
  if (flags.dry_run) {
    const auto plan = plan_memory(flags, *checkpoint, processes);
    if (!plan) return fail(plan.error());
    fmt::print("{}\n", describe(*plan));
    return 0;
  }

  const auto started = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  };
  auto defaults = generation_defaults(flags.model, flags.generation_config, flags.override_generation_config);
  if (!defaults) return fail(defaults.error());
  auto tokenizer = Tokenizer::load(flags.model);
  if (!tokenizer) return fail(tokenizer.error());
  auto chat_template = load_chat_template(flags);
  if (!chat_template) return fail(chat_template.error());
  if (!chat_template->has_value())
    spdlog::warn("the model has no chat template: /v1/chat/completions is refused, /v1/completions works");

  ReadyState ready;
  Server server(server_options(flags, *defaults), ready);
  if (const auto listening = server.start(); !listening) return fail(listening.error());
  spdlog::info("listening on http://{}:{}, loading {}", flags.host, server.port(), flags.model);
  if (!flags.record_requests.empty())
    spdlog::warn(
        "requests and answers are recorded, prompts included, in {}, up to {} MiB; then the oldest are "
        "deleted",
        flags.record_requests, flags.record_requests_max_bytes >> 20);

  std::atomic<bool> is_fatal{false};
  const LaunchHooks hooks{
      .on_progress = [&](double fraction,
                         const std::string& line) { ready.set_phase("loading weights", fraction, line); },
      .on_fatal =
          [&](const Error& error) {
            spdlog::critical("the engine has stopped: {}", error.message());
            ready.set_failed(error.message());
            is_fatal = true;
          },
      .logits_tap = {},
      .processes = processes};
  auto launched = launch_engine(flags, *checkpoint, hooks);
  if (!launched) {
    server.stop();
    return fail(launched.error());
  }
  spdlog::info("{}", describe(launched->plan));
  for (const auto& [rank, memory] : launched->memory) {
    spdlog::info("memory: rank {} took {:.1f} MB besides its KV cache and {:.1f} MB for it", rank,
                 static_cast<double>(memory.without_kv()) / 1e6,
                 static_cast<double>(memory.kv_cache + memory.draft_cache) / 1e6);
  }

  server.attach({.engine = launched->engine.get(),
                 .tokenizer = &*tokenizer,
                 .chat_template = chat_template->has_value() ? &**chat_template : nullptr});
  ready.set_ready();
  spdlog::info("ready after {:.2f} s", seconds());

  StatsLog stats_log(flags.log_stats_interval);
  while (!is_fatal) {
    const timespec moment{.tv_sec = 0, .tv_nsec = 200'000'000};
    const int signal_number = sigtimedwait(&end_signals, nullptr, &moment);
    if (signal_number > 0) {
      spdlog::info("{}: draining for at most {} s", signal_number == SIGINT ? "SIGINT" : "SIGTERM",
                   flags.drain_seconds);
      ready.set_phase("draining");
      server.drain(std::chrono::seconds(flags.drain_seconds));
      break;
    }
    stats_log.look(*launched->engine);
  }
  server.stop();
  if (is_fatal) {
    // A rank may be stuck for good: end without waiting for its thread.
    std::fflush(nullptr);
    std::_Exit(1);
  }
  launched->engine->drain(std::chrono::milliseconds(0));
  launched->engine.reset();  // the other processes end with it
  if (processes != nullptr && !processes->finish()) {
    spdlog::error("the other processes did not end in time; they are aborted");
    return 1;
  }
  spdlog::info("ended");
  return 0;
}

}  // namespace tessera
