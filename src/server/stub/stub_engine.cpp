#include "server/stub/stub_engine.h"

#include <algorithm>

namespace tessera {

float stub_logprob(std::int32_t token) { return -0.25F - static_cast<float>(token % 8) * 0.125F; }

StubEngine::StubEngine(StubOptions options) : options_(std::move(options)), thread_([this] { run(); }) {}

StubEngine::~StubEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<RequestId> StubEngine::submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) {
  TS_CHECK(!request.prompt.empty());
  if (options_.on_submit) options_.on_submit(request);
  const std::lock_guard lock(mutex_);
  if (running_.size() >= options_.max_waiting) {
    return Error{ErrorKind::kUnavailable, "",
                 "The queue is full: " + std::to_string(running_.size()) + " requests."};
  }
  const auto needed = static_cast<std::int64_t>(request.prompt.size()) + request.sampling.max_tokens;
  if (needed > options_.info.kv_tokens) {
    return Error{ErrorKind::kInvalidArgument, "",
                 "The request needs " + std::to_string(needed) + " tokens of KV cache, but the pool has " +
                     std::to_string(options_.info.kv_tokens) + "."};
  }
  const RequestId id{next_id_++};
  last_ = request;
  ++stats_.received;
  Running running{.request = std::move(request), .sink = std::move(sink)};
  running.times.arrived = Clock::now();
  running_.emplace(id.value, std::move(running));
  wake_.notify_one();
  return id;
}

void StubEngine::cancel(RequestId id) {
  if (options_.on_cancel) options_.on_cancel();
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(id.value);
  if (found == running_.end()) return;
  found->second.cancelled = true;
  wake_.notify_one();
}

EngineStats StubEngine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats out = stats_;
  (options_.paused ? out.waiting : out.running) = static_cast<std::int64_t>(running_.size());
  return out;
}

void StubEngine::resume() {
  const std::lock_guard lock(mutex_);
  options_.paused = false;
  wake_.notify_one();
}

GenerationRequest StubEngine::last_request() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

void StubEngine::run() {
  std::unique_lock lock(mutex_);
  const auto is_cancelled = [](const auto& entry) { return entry.second.cancelled; };
  while (true) {
    wake_.wait(lock, [&] {
      return stopping_ || (options_.paused ? std::ranges::any_of(running_, is_cancelled) : !running_.empty());
    });
    if (stopping_) return;
    std::vector<std::pair<std::shared_ptr<RequestSink>, RequestOutput>> outputs;
    const std::int64_t generated_before = stats_.generation_tokens;
    for (auto at = running_.begin(); at != running_.end();) {
      if (options_.paused && !at->second.cancelled) {
        ++at;
        continue;
      }
      RequestOutput output = advance(RequestId{at->first}, at->second);
      stats_.generation_tokens += static_cast<std::int64_t>(output.tokens.size());
      if (options_.drafts > 0 && !output.tokens.empty()) {
        SpeculationStats& drafts = stats_.speculation;
        ++drafts.drafts;
        drafts.draft_tokens += options_.drafts;
        drafts.accepted_tokens += output.accepted_drafts;
        for (std::int32_t i = 0; i < options_.drafts; ++i)
          ++drafts.verified_at.at(static_cast<std::size_t>(i));
        for (std::int32_t i = 0; i < output.accepted_drafts; ++i)
          ++drafts.accepted_at.at(static_cast<std::size_t>(i));
      }
      const auto finished = output.finished;
      outputs.emplace_back(at->second.sink, std::move(output));
      if (finished) {
        ++(*finished == FinishReason::kAbort ? stats_.aborted : stats_.finished);
        stats_.prompt_tokens += static_cast<std::int64_t>(at->second.request.prompt.size());
        at = running_.erase(at);
      } else {
        ++at;
      }
    }
    ++stats_.steps;
    stats_.step_tokens.count(stats_.generation_tokens - generated_before);
    lock.unlock();
    for (const auto& [sink, output] : outputs) sink->on_output(output);
    outputs.clear();
    if (options_.step_delay.count() > 0) std::this_thread::sleep_for(options_.step_delay);
    lock.lock();
  }
}

SampledToken StubEngine::sample(const Running& running, std::int32_t token) const {
  const SamplingParams& sampling = running.request.sampling;
  SampledToken out;
  out.token = token;
  out.logprob = stub_logprob(token);
  out.rank = 1;
  for (std::int32_t i = 0; i < sampling.logprobs.value_or(0); ++i) {
    const std::int32_t other = (token + i) % options_.info.vocab;
    out.top.push_back(
        {.token = other, .logprob = stub_logprob(token) - static_cast<float>(i), .rank = i + 1});
  }
  return out;
}

// The wanted token, or where a grammar forbids it the first one that it allows.
std::int32_t StubEngine::constrained(const Running& running, std::int32_t wanted) const {
  if (!running.request.sampling.constraint) return wanted;
  std::vector<std::uint64_t> mask(static_cast<std::size_t>(options_.info.vocab + 63) / 64);
  running.request.sampling.constraint->allowed(mask);
  const auto is_allowed = [&](std::int32_t token) {
    return ((mask[static_cast<std::size_t>(token) / 64] >> (token % 64)) & 1) != 0;
  };
  if (!is_allowed(wanted)) {
    wanted = 0;
    while (wanted + 1 < options_.info.vocab && !is_allowed(wanted)) ++wanted;
  }
  running.request.sampling.constraint->accept(wanted);
  return wanted;
}

RequestOutput StubEngine::advance(RequestId id, Running& running) const {
  const auto now = Clock::now();
  RequestOutput out;
  out.id = id;
  const SamplingParams& sampling = running.request.sampling;
  if (running.cancelled) {
    out.finished = FinishReason::kAbort;
    out.times = running.times;
    return out;
  }
  if (running.times.scheduled == Clock::time_point{}) {
    running.times.scheduled = now;
    if (sampling.prompt_logprobs) {
      for (std::size_t i = 1; i < running.request.prompt.size(); ++i) {
        out.prompt_logprobs.push_back(sample(running, running.request.prompt[i]));
      }
    }
  }
  for (std::size_t i = 0; i < options_.bundle && !out.finished; ++i) {
    if (running.generated >= sampling.max_tokens) {
      out.finished = FinishReason::kLength;
      break;
    }
    const std::int32_t wanted = running.at < options_.script.size() ? options_.script[running.at++]
                                : options_.info.end_tokens.empty()  ? 0
                                                                    : options_.info.end_tokens.front();
    const std::int32_t token = constrained(running, wanted);
    out.tokens.push_back(sample(running, token));
    if (running.generated++ == 0) running.times.first_token = now;
    running.times.last_token = now;
    const auto is_in = [token](const auto& list) { return std::ranges::find(list, token) != list.end(); };
    if ((!sampling.ignore_eos && is_in(options_.info.end_tokens)) || is_in(sampling.stop_token_ids)) {
      out.stop_token = token;
      out.finished = FinishReason::kStop;
    } else if (running.generated >= sampling.max_tokens) {
      out.finished = FinishReason::kLength;
    }
  }
  out.accepted_drafts = std::min(options_.drafts, static_cast<std::int32_t>(out.tokens.size()));
  out.times = running.times;
  return out;
}

}  // namespace tessera
