// One completion request on its way through the engine: submits its choices, turns their tokens into the
// answer, cancels what nobody waits for any more. Lives on the connection's thread; the engine's thread only
// mails to it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_client.h"
#include "server/answer_format.h"
#include "server/http/exchange.h"
#include "server/metrics.h"
#include "server/output/choice_output.h"
#include "server/protocol/api_error.h"
#include "server/protocol/generation_options.h"

namespace tessera {

// All that the engine and the answer need to know; made by prepare.h from a request's JSON.
struct PreparedGeneration {
  std::vector<std::vector<std::int32_t>> prompts;  // choices are numbered prompt by prompt, n each
  GenerationOptions options;                       // sampling.max_tokens is resolved for each prompt
  std::vector<std::int32_t> max_tokens;            // [prompts]
  std::vector<ChoiceOptions> choices;              // [prompts]
  // A new constraint for one choice; empty: none.
  std::function<std::shared_ptr<TokenConstraint>(std::size_t prompt)> constrain;
  bool echo = false;                    // completions: the prompt is part of the text
  bool report_prompt_logprobs = false;  // in a field of their own
  std::function<std::unique_ptr<AnswerFormat>()> make_format;
};

struct GenerationSettings {
  std::string id;  // of the HTTP request, for the log
  std::chrono::milliseconds ping_interval{15'000};
  std::vector<std::pair<std::string, std::string>> headers;  // of the answer: request id, CORS
};

// How a generation ended, for the access log.
struct GenerationSummary {
  int status = 200;
  std::string_view finish = "stop";
  Usage usage;
  Clock::duration to_first_token{};
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Borrows engine, tokenizer and metrics. `done` is called once, at the end, whatever it is.
  Generation(EngineClient& engine, const Tokenizer& tokenizer, Metrics& metrics,
             std::shared_ptr<http::Exchange> exchange, PreparedGeneration prepared,
             GenerationSettings settings, std::function<void(const GenerationSummary&)> done);
  ~Generation();

  // Submits everything or answers with the error, also what the engine throws. From here on the exchange owns
  // this object.
  void start();

 private:
  struct Choice;
  class Sink;

  void guarded(const std::function<void()>& work);
  void submit_all();
  void on_output(std::size_t index, RequestOutput& output);
  void take_tokens(Choice& choice, RequestOutput& output);
  void finish_choice(Choice& choice, const RequestOutput& output);
  void end_choice(Choice& choice, Outcome outcome);
  void publish(Choice& choice);
  void complete();
  void fail(const ApiError& error);
  void cancel_rest(Outcome outcome);
  Usage usage() const;
  void write(std::string bytes);
  void tell_done(int status, std::string_view finish);

  EngineClient& engine_;
  const Tokenizer& tokenizer_;
  Metrics& metrics_;
  std::shared_ptr<http::Exchange> exchange_;
  PreparedGeneration prepared_;
  GenerationSettings settings_;
  std::function<void(const GenerationSummary&)> done_;
  std::unique_ptr<AnswerFormat> format_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::size_t open_choices_ = 0;
  Clock::time_point last_write_;
  Clock::duration to_first_token_{};
  std::string_view last_finish_ = "stop";
};

}  // namespace tessera
