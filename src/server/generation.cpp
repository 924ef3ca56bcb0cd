#include "server/generation.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/http/failure.h"

namespace tessera {

// One choice of one prompt: one request of the engine.
struct Generation::Choice {
  Choice(const Tokenizer& tokenizer, const ChoiceOptions& options) : output(tokenizer, options) {}

  std::size_t prompt = 0;  // index
  RequestId id;
  ChoiceOutput output;
  ChoicePiece piece;  // the whole message, or in a stream what was not written yet
  std::vector<SampledToken> prompt_logprobs;
  std::int64_t tokens = 0;
  std::int32_t cached = 0;
  RequestTimes times;
  bool submitted = false;
  bool ended = false;  // nothing of it counts any more
};

namespace {

// In an answer that is sent whole, the deltas of one call are one call.
void merge_tools(std::vector<ToolDelta>& tools) {
  std::vector<ToolDelta> merged;
  for (ToolDelta& delta : tools) {
    if (delta.id.empty() && !merged.empty() && merged.back().index == delta.index) {
      merged.back().arguments += delta.arguments;
    } else {
      merged.push_back(std::move(delta));
    }
  }
  tools = std::move(merged);
}

}  // namespace

// What the engine holds. It knows the way back, and keeps nothing alive.
class Generation::Sink final : public RequestSink {
 public:
  Sink(std::shared_ptr<http::Mailbox> mailbox, std::weak_ptr<Generation> generation, std::size_t choice)
      : mailbox_(std::move(mailbox)), generation_(std::move(generation)), choice_(choice) {}
  void on_output(const RequestOutput& output) override {
    mailbox_->mail([generation = generation_, choice = choice_, copy = output]() mutable {
      const auto alive = generation.lock();
      if (alive) alive->guarded([&] { alive->on_output(choice, copy); });
    });
  }

 private:
  std::shared_ptr<http::Mailbox> mailbox_;  // shared with the loop, which may end before the engine does
  std::weak_ptr<Generation> generation_;
  std::size_t choice_;
};

Generation::Generation(EngineClient& engine, const Tokenizer& tokenizer, Metrics& metrics,
                       std::shared_ptr<http::Exchange> exchange, PreparedGeneration prepared,
                       GenerationSettings settings, std::function<void(const GenerationSummary&)> done)
    : engine_(engine),
      tokenizer_(tokenizer),
      metrics_(metrics),
      exchange_(std::move(exchange)),
      prepared_(std::move(prepared)),
      settings_(std::move(settings)),
      done_(std::move(done)) {}

Generation::~Generation() {
  cancel_rest(Outcome::kAborted);
  tell_done(499, "abort");
}

// A border: an exception ends this request, with an answer, and no other.
void Generation::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    spdlog::error("id={}: answering the request failed: {}", settings_.id, http::describe_failure());
    fail({.status = 500,
          .message = "The server failed to answer this request.",
          .type = "server_error",
          .code = "internal_error"});
  }
}

void Generation::start() {
  guarded([this] { submit_all(); });
}

void Generation::submit_all() {
  format_ = prepared_.make_format();
  const GenerationOptions& options = prepared_.options;
  for (std::size_t p = 0; p < prepared_.prompts.size(); ++p) {
    for (std::int32_t c = 0; c < options.n; ++c) {
      auto choice = std::make_unique<Choice>(tokenizer_, prepared_.choices[p]);
      choice->prompt = p;
      choice->piece.index = static_cast<std::int32_t>(choices_.size());
      choice->piece.is_first = true;
      choices_.push_back(std::move(choice));
    }
  }
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = *choices_[i];
    GenerationRequest request{.prompt = prepared_.prompts[choice.prompt],
                              .sampling = options.sampling,
                              .priority = options.priority,
                              .cache_salt = options.cache_salt};
    request.sampling.max_tokens = prepared_.max_tokens[choice.prompt];
    // Choices of one seeded request differ from each other, and are the same every time.
    if (request.sampling.seed) *request.sampling.seed += i % static_cast<std::size_t>(options.n);
    if (prepared_.constrain) request.sampling.constraint = prepared_.constrain(choice.prompt);
    choice.times.arrived = Clock::now();
    const auto id =
        engine_.submit(std::move(request), std::make_shared<Sink>(exchange_->mailbox(), weak_from_this(), i));
    if (!id) return fail(from_error(id.error()));
    choice.id = *id;
    choice.submitted = true;
    metrics_.received();
    ++open_choices_;
  }
  exchange_->on_gone([self = shared_from_this()] {
    self->cancel_rest(Outcome::kAborted);
    self->tell_done(499, "abort");
  });
  if (!options.stream) return;
  http::Response head{.content_type = "text/event-stream; charset=utf-8", .headers = settings_.headers};
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");  // proxies of the nginx kind would collect the stream
  exchange_->begin_stream(std::move(head));
  last_write_ = Clock::now();
  exchange_->on_tick([weak = weak_from_this()](Clock::time_point now) {
    const auto self = weak.lock();
    if (self && now - self->last_write_ >= self->settings_.ping_interval) self->write(": ping\n\n");
  });
}

void Generation::on_output(std::size_t index, RequestOutput& output) {
  Choice& choice = *choices_[index];
  if (choice.ended) return;  // tokens that were on their way when a stop string was found
  choice.cached = output.cached_tokens;
  std::ranges::move(output.prompt_logprobs, std::back_inserter(choice.prompt_logprobs));
  if (!output.tokens.empty()) take_tokens(choice, output);
  choice.times = output.times;
  if (output.error) {
    ApiError error = from_error(*output.error);
    if (error.status == 400) error.status = 500;  // accepted once, so no fault of the client's
    return fail(error);
  }
  if (const auto& stop = choice.output.stopped_by()) {
    choice.piece.finished = FinishedReason{"stop", *stop};
    end_choice(choice, Outcome::kStop);
    engine_.cancel(choice.id);
  } else if (output.finished == FinishReason::kAbort || output.finished == FinishReason::kError) {
    return fail({.status = 503,
                 .message = "The request was ended because the server is shutting down.",
                 .type = "service_unavailable",
                 .code = "aborted",
                 .retry_after_s = 1});
  } else if (output.finished) {
    finish_choice(choice, output);
  }
  if (prepared_.options.stream) publish(choice);
  if (open_choices_ == 0) complete();
}

void Generation::take_tokens(Choice& choice, RequestOutput& output) {
  const RequestTimes& times = output.times;
  if (choice.tokens == 0) {
    metrics_.first_token(times.first_token - times.arrived);
    if (to_first_token_ == Clock::duration{}) to_first_token_ = times.first_token - times.arrived;
    if (output.tokens.size() > 1)
      metrics_.next_tokens(times.last_token - times.first_token, output.tokens.size() - 1);
  } else {
    metrics_.next_tokens(times.last_token - choice.times.last_token, output.tokens.size());
  }
  std::int32_t drafts = output.accepted_drafts;  // a step's tokens begin with them
  for (SampledToken& token : output.tokens) {
    if (choice.piece.drafted) publish(choice);  // the token before this one
    ++choice.tokens;
    const bool is_terminator = output.stop_token == token.token && &token == &output.tokens.back();
    if (is_terminator && !prepared_.options.include_stop) break;
    if (prepared_.options.report_drafts) choice.piece.drafted = drafts-- > 0;
    choice.output.push(token.token, choice.piece.delta);
    if (prepared_.options.sampling.logprobs && !is_terminator)
      choice.piece.tokens.push_back(std::move(token));
    if (choice.output.stopped_by()) break;
  }
}

void Generation::finish_choice(Choice& choice, const RequestOutput& output) {
  const bool stopped = output.finished == FinishReason::kStop;
  choice.output.finish(stopped, choice.piece.delta);
  FinishedReason reason{stopped ? "stop" : "length", {}};
  if (const auto& stop = choice.output.stopped_by()) {
    reason = {"stop", *stop};  // found in the last of the text
  } else if (stopped && choice.output.calls() > 0) {
    reason.name = "tool_calls";
  } else if (stopped && output.stop_token) {
    const auto& ids = prepared_.options.sampling.stop_token_ids;
    if (std::ranges::find(ids, *output.stop_token) != ids.end()) reason.stop = *output.stop_token;
  }
  choice.piece.finished = reason;
  end_choice(choice, reason.name == "length"       ? Outcome::kLength
                     : reason.name == "tool_calls" ? Outcome::kToolCalls
                                                   : Outcome::kStop);
}

void Generation::end_choice(Choice& choice, Outcome outcome) {
  choice.ended = true;
  --open_choices_;
  if (choice.piece.finished) last_finish_ = choice.piece.finished->name;
  metrics_.ended({.outcome = outcome,
                  .prompt_tokens = static_cast<std::int64_t>(prepared_.prompts[choice.prompt].size()),
                  .cached_tokens = choice.cached,
                  .generation_tokens = choice.tokens,
                  .max_tokens = prepared_.max_tokens[choice.prompt],
                  .n = prepared_.options.n,
                  .times = choice.times});
}

// Streams what is new of a choice.
void Generation::publish(Choice& choice) {
  ChoicePiece& piece = choice.piece;
  // Prompt logprobs come over several steps, and belong into one piece.
  if (piece.is_first && choice.tokens == 0 && !choice.ended) return;
  if (piece.is_first && prepared_.echo) {
    piece.echo = prepared_.prompts[choice.prompt];
    piece.prompt_logprobs = choice.prompt_logprobs;
  }
  const Usage now = usage();
  const bool in_chunks = prepared_.options.continuous_usage && prepared_.options.include_usage;
  std::string events;
  format_->append_events(events, piece, in_chunks ? &now : nullptr);
  const std::int32_t index = piece.index;
  piece = ChoicePiece{.index = index};
  if (!events.empty()) write(std::move(events));
}

void Generation::complete() {
  std::int64_t most_tokens = 0;
  for (const auto& choice : choices_) most_tokens = std::max(most_tokens, choice->tokens);
  metrics_.answered(most_tokens);
  const Usage total = usage();
  if (prepared_.options.stream) {
    std::string tail;
    if (prepared_.options.include_usage) format_->append_usage_event(tail, total);
    tail += "data: [DONE]\n\n";
    write(std::move(tail));
    exchange_->end_stream();
  } else {
    std::vector<ChoicePiece> pieces;
    for (const auto& choice : choices_) {
      ChoicePiece& piece = choice->piece;
      if (prepared_.echo) piece.echo = prepared_.prompts[choice->prompt];
      if (prepared_.echo || prepared_.report_prompt_logprobs) piece.prompt_logprobs = choice->prompt_logprobs;
      if (prepared_.report_prompt_logprobs) piece.prompt = prepared_.prompts[choice->prompt];
      if (piece.delta.reasoning_was_content) piece.delta.reasoning.clear();
      merge_tools(piece.delta.tools);
      pieces.push_back(std::move(piece));
    }
    exchange_->respond({.body = format_->whole(pieces, total), .headers = settings_.headers});
  }
  tell_done(200, last_finish_);
}

// One broken choice ends the request: half an answer would be taken for a whole one.
void Generation::fail(const ApiError& error) {
  cancel_rest(error.status == 503 ? Outcome::kAborted : Outcome::kFailed);
  if (prepared_.options.stream && last_write_ != Clock::time_point{}) {
    write("data: " + error.to_json() + "\n\ndata: [DONE]\n\n");
    exchange_->end_stream();
  } else {
    http::Response response{.status = error.status, .body = error.to_json(), .headers = settings_.headers};
    if (error.retry_after_s > 0)
      response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
    exchange_->respond(std::move(response));
  }
  tell_done(error.status, "error");
}

void Generation::cancel_rest(Outcome outcome) {
  for (const auto& choice : choices_) {
    if (!choice->submitted || choice->ended) continue;
    end_choice(*choice, outcome);
    engine_.cancel(choice->id);
  }
}

Usage Generation::usage() const {
  Usage out;
  std::size_t counted = SIZE_MAX;  // a prompt counts once, however many choices it has
  for (const auto& choice : choices_) {
    if (choice->prompt != counted) {
      counted = choice->prompt;
      out.prompt_tokens += static_cast<std::int64_t>(prepared_.prompts[counted].size());
      out.cached_tokens += choice->cached;
    }
    out.completion_tokens += choice->tokens;
    out.reasoning_tokens += choice->output.reasoning_tokens();
  }
  return out;
}

void Generation::write(std::string bytes) {
  last_write_ = Clock::now();
  exchange_->write(bytes);
}

void Generation::tell_done(int status, std::string_view finish) {
  if (const auto done = std::exchange(done_, nullptr)) {
    done({.status = status, .finish = finish, .usage = usage(), .to_first_token = to_first_token_});
  }
}

}  // namespace tessera
