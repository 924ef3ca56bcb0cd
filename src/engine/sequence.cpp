#include "engine/sequence.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"

namespace tessera {
namespace {

Error refused(std::string what) { return {ErrorKind::kInvalidArgument, "request", std::move(what)}; }

Result<void> check_prompt(const std::vector<std::int32_t>& prompt, std::int32_t vocab) {
  if (prompt.empty()) return refused("The prompt has no tokens; at least 1 is needed.");
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= vocab)
      return refused("Token " + std::to_string(i) + " of the prompt is " + std::to_string(prompt[i]) +
                     ", but the vocabulary has ids from 0 to " + std::to_string(vocab - 1) + ".");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Sequence>> prepare_sequence(RequestId id, GenerationRequest request,
                                                   std::shared_ptr<RequestSink> sink, std::uint64_t seed,
                                                   const SequenceLimits& limits) {
  TS_TRY(request.sampling.validate(limits.vocab));
  TS_TRY(check_prompt(request.prompt, limits.vocab));

  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t room = limits.max_model_len - prompt;
  const std::int32_t wanted = request.sampling.max_tokens;
  if (room < (wanted > 0 ? 1 : 0))
    return refused("The prompt has " + std::to_string(prompt) + " tokens and " + std::to_string(wanted) +
                   " more are asked for, but the context holds " + std::to_string(limits.max_model_len) +
                   ".");
  const auto max_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(wanted, room));

  const std::int64_t needed = prompt + max_tokens;
  const std::int64_t needed_blocks = (needed + limits.block_size - 1) / limits.block_size;
  if (needed_blocks > limits.kv_blocks)
    return refused("The request needs " + std::to_string(needed) + " tokens of KV cache (prompt " +
                   std::to_string(prompt) + " + output " + std::to_string(max_tokens) + ", " +
                   std::to_string(needed_blocks) + " blocks), but the pool has " +
                   std::to_string(std::int64_t{limits.kv_blocks} * limits.block_size) + " (" +
                   std::to_string(limits.kv_blocks) + " blocks of " + std::to_string(limits.block_size) +
                   ").");

  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->priority = request.priority;
  sequence->sink = std::move(sink);
  sequence->sampling = std::move(request.sampling);
  sequence->sampling.max_tokens = max_tokens;
  sequence->is_open_ended = max_tokens == room;
  sequence->seed = sequence->sampling.seed.value_or(seed);
  if (!sequence->sampling.ignore_eos) sequence->stop_tokens = limits.end_tokens;
  const auto& stops = sequence->sampling.stop_token_ids;
  sequence->stop_tokens.insert(sequence->stop_tokens.end(), stops.begin(), stops.end());
  sequence->tokens = std::move(request.prompt);
  sequence->prompt_size = static_cast<std::int32_t>(prompt);
  // Without prefix caching a sequence still finds its own blocks again after a preemption, and nobody else's.
  const std::string salt =
      limits.prefix_caching ? "shared:" + request.cache_salt : "request:" + std::to_string(id.value);
  sequence->root = root_hash(limits.hash_key, salt);
  extend_hashes(*sequence, sequence->prompt_size, limits.block_size, limits.hash_key);
  return sequence;
}

void extend_hashes(Sequence& sequence, std::int32_t tokens, std::int32_t block_size, HashKey key) {
  TS_DCHECK(tokens <= sequence.size(), tokens, sequence.size());
  const auto full = static_cast<std::size_t>(tokens / block_size);
  const auto width = static_cast<std::size_t>(block_size);
  while (sequence.hashes.size() < full) {
    const BlockHash parent = sequence.hashes.empty() ? sequence.root : sequence.hashes.back();
    const auto block = std::span(sequence.tokens).subspan(sequence.hashes.size() * width, width);
    sequence.hashes.push_back(block_hash(key, parent, block));
  }
}

}  // namespace tessera
