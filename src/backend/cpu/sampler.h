// Draws one token from one row of logits (backend/sampling.h says in which order of steps), and reports
// log-probs.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/scratch.h"
#include "backend/sampling.h"

namespace tessera {

std::size_t sampler_scratch_bytes(std::int64_t vocab);

// `logits` [vocab] are overwritten. Allocates only for SampledToken::top.
void sample_row(std::span<float> logits, const SamplingRow& row, Scratch& scratch, SampledToken& result);

// The same for a row that confirms or replaces a draft (Backend::verify).
void verify_row(std::span<float> logits, const SamplingRow& row, const DraftDraw& draft, Scratch& scratch,
                SampledToken& result);

// Statistics of `target` under the softmax of `logits`, and the `top` most likely tokens.
void row_logprobs(std::span<const float> logits, std::int32_t target, std::int32_t top, SampledToken& result);

}  // namespace tessera
