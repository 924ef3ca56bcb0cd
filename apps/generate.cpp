#include "generate.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine_setup.h"
#include "generation_defaults.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace tessera {
namespace {

// Prints text as it comes, on the engine's thread: a terminal is the one client here.
class Printer final : public RequestSink {
 public:
  explicit Printer(const Tokenizer& tokenizer) : text_(tokenizer) {}

  void on_output(const RequestOutput& output) override {
    const std::lock_guard lock(mutex_);
    for (const SampledToken& token : output.tokens) {
      ++tokens_;
      fmt::print("{}", text_.push(token.token));
    }
    if (output.finished) {
      fmt::print("{}\n", text_.flush());
      last_ = output;
      done_ = true;
      wake_.notify_all();
    }
    std::fflush(stdout);
  }
  RequestOutput wait() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return done_; });
    return last_;
  }
  int tokens() const { return tokens_; }

 private:
  Detokenizer text_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  int tokens_ = 0;
  RequestOutput last_;
};

Result<std::string> read_prompt(const GenerateFlags& flags) {
  if (flags.prompt_file.empty()) return flags.prompt;
  std::ifstream in(flags.prompt_file, std::ios::binary);
  if (!in) return Error{ErrorKind::kNotFound, flags.prompt_file, "cannot be read."};
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Result<std::vector<std::int32_t>> encode_prompt(const GenerateFlags& flags, const Tokenizer& tokenizer) {
  TS_TRY(const std::string text, read_prompt(flags));
  if (!flags.chat) {
    TS_TRY(std::vector<std::int32_t> ids, tokenizer.encode(text, ControlTokens::kRecognise));
    ids.insert(ids.begin(), tokenizer.text_prefix().begin(), tokenizer.text_prefix().end());
    return ids;
  }
  TS_TRY(const ChatTemplate chat, ChatTemplate::load(flags.engine.model));
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", text}}};
  return encode_chat(chat, tokenizer, {.messages = messages});
}

Result<void> generate(const GenerateFlags& flags, Processes* processes) {
  TS_TRY(const Checkpoint checkpoint, Checkpoint::open(flags.engine.model));
  TS_TRY(const Tokenizer tokenizer, Tokenizer::load(flags.engine.model));
  TS_TRY(const std::vector<std::int32_t> prompt, encode_prompt(flags, tokenizer));
  TS_TRY(SamplingParams sampling, generation_defaults(flags.engine.model, flags.engine.generation_config));
  sampling.max_tokens = flags.max_tokens;
  sampling.ignore_eos = flags.ignore_eos;
  if (flags.temperature >= 0) sampling.temperature = flags.temperature;
  if (flags.top_p >= 0) sampling.top_p = flags.top_p;
  if (flags.top_k >= 0) sampling.top_k = flags.top_k;
  sampling.seed = flags.seed;

  const auto printer = std::make_shared<Printer>(tokenizer);
  LaunchHooks hooks;
  hooks.processes = processes;
  TS_TRY(LaunchedEngine launched, launch_engine(flags.engine, checkpoint, hooks));
  TS_TRY(launched.engine->submit({.prompt = prompt, .sampling = sampling}, printer));
  const RequestOutput end = printer->wait();
  if (end.error) return *end.error;
  if (!flags.quiet) {
    const auto ms = [](auto from, auto to) {
      return std::chrono::duration<double, std::milli>(to - from).count();
    };
    const double prefill = ms(end.times.scheduled, end.times.first_token);
    const double decode = ms(end.times.first_token, end.times.last_token);
    fmt::print(
        stderr,
        "prompt {} tokens in {:.1f} ms ({:.0f} tokens/s), output {} tokens in {:.1f} ms ({:.1f} tokens/s)\n",
        prompt.size(), prefill, 1e3 * static_cast<double>(prompt.size()) / prefill, printer->tokens(), decode,
        printer->tokens() > 1 ? 1e3 * (printer->tokens() - 1) / decode : 0.0);
  }
  return {};
}

}  // namespace

int run_generate(const GenerateFlags& flags, Processes* processes) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("tessera"));
  spdlog::set_level(flags.quiet ? spdlog::level::err : spdlog::level::from_str(flags.engine.log_level));
  const auto done = generate(flags, processes);
  if (done) return processes == nullptr || processes->finish() ? 0 : 1;
  spdlog::error("{}", done.error().message());
  return 1;
}

}  // namespace tessera
