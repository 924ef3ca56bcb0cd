// A server over a StubEngine: the real HTTP, protocol and output code with a scripted model, for client
// tests.
//
//   stub_server MODEL_FOLDER [--port N] [--text TEXT] [--delay-us N] [--bundle N] [--drafts N] [--parsers]
//   [--api-key KEY]...
//               [--max-model-len N] [--paused]
//
// TEXT may spell control tokens. Prints "listening on PORT" when it is ready; SIGTERM drains it.
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "server/server.h"
#include "server/stub/stub_engine.h"

namespace tessera {
namespace {

struct Arguments {
  std::string model;
  std::string text = "Hello! I am a stub.";
  ServerOptions server;
  StubOptions engine;
};

Result<Arguments> read_arguments(int count, char** values) {
  Arguments out;
  out.server.http.host = "127.0.0.1";
  out.server.http.port = 0;
  out.server.served_names = {"stub"};
  out.engine.info.max_model_len = 8192;
  for (int i = 1; i < count; ++i) {
    const std::string_view flag = values[i];
    if (!flag.starts_with("--")) {
      out.model = flag;
    } else if (flag == "--parsers") {
      out.server.tool_call_parser = out.server.reasoning_parser = "kimi_k2";
      out.server.enable_auto_tool_choice = true;
    } else if (flag == "--paused") {
      out.engine.paused = true;
    } else if (i + 1 == count) {
      return Error{ErrorKind::kInvalidArgument, std::string(flag), "The flag needs a value, or is unknown."};
    } else {
      const std::string value = values[++i];
      if (flag == "--text") {
        out.text = value;
      } else if (flag == "--api-key") {
        out.server.api_keys.push_back(value);
      } else if (flag == "--port") {
        out.server.http.port = static_cast<std::uint16_t>(std::stoi(value));
      } else if (flag == "--delay-us") {
        out.engine.step_delay = std::chrono::microseconds(std::stoi(value));
      } else if (flag == "--bundle") {
        out.engine.bundle = static_cast<std::size_t>(std::stoi(value));
      } else if (flag == "--drafts") {
        out.engine.drafts = out.engine.info.most_drafts = std::stoi(value);
      } else if (flag == "--max-model-len") {
        out.engine.info.max_model_len = std::stoi(value);
      } else {
        return Error{ErrorKind::kInvalidArgument, std::string(flag), "Unknown flag."};
      }
    }
  }
  return out;
}

Result<void> serve(Arguments arguments) {
  // Before any thread starts, so that only sigwait below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  ReadyState ready;
  Server server(arguments.server, ready);
  TS_TRY(server.start());
  ready.set_phase("reading the tokenizer");
  TS_TRY(const Tokenizer tokenizer, Tokenizer::load(arguments.model));
  TS_TRY(const ChatTemplate chat, ChatTemplate::load(arguments.model));
  TS_TRY(arguments.engine.script, tokenizer.encode(arguments.text, ControlTokens::kRecognise));
  EngineInfo& info = arguments.engine.info;
  info.vocab = tokenizer.vocab_size();
  info.kv_tokens = 1'000'000;
  info.block_size = 64;
  info.kv_cache_dtype = "none";
  info.fingerprint = "stub";
  for (const char* text : {"<|im_end|>", "[EOS]"}) {
    if (const auto id = tokenizer.id_of(text)) info.end_tokens.push_back(*id);
  }
  StubEngine engine(std::move(arguments.engine));
  server.attach({.engine = &engine, .tokenizer = &tokenizer, .chat_template = &chat});
  ready.set_ready();
  std::printf("listening on %d\n", server.port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  server.drain(std::chrono::seconds(10));
  server.stop();
  return {};
}

}  // namespace
}  // namespace tessera

int main(int count, char** values) {
  auto arguments = tessera::read_arguments(count, values);
  const auto done =
      arguments ? tessera::serve(*std::move(arguments)) : tessera::Result<void>(arguments.error());
  if (done) return 0;
  std::fprintf(stderr, "stub_server: %s\n", done.error().message().c_str());
  return 1;
}
