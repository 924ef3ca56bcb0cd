// Draws a draft's token from its logits and says what it was drawn from: what rejection sampling must know.
#pragma once

#include <cstdint>
#include <span>

namespace tessera {

// probs = softmax(logits / temperature), [draft vocab]; returns the entry drawn with number `uniform` in
// [0, 1), or -1 when a logit is NaN or none is finite. Temperature alone: what else the request asks for is
// the target's business.
std::int32_t draw_draft(std::span<const float> logits, float temperature, double uniform,
                        std::span<float> probs);

}  // namespace tessera
