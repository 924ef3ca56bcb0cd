// Which experts a token goes to, and with what weights.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace tessera {

inline constexpr std::int64_t kMostExperts = 1024;

// One token: logits and bias [experts]; ids and weights [rule.top_k], best choice first. Scores are sigmoids;
// the bias counts for the choice only. With groups, a group's score is the sum of its two best biased scores,
// and experts outside the best `top_groups` groups cannot be chosen. Equal scores go to the lower index. A
// NaN logit loses to every number, and ids are distinct and in range whatever the logits are.
void route_token(std::span<const float> logits, std::span<const float> bias, const RoutingRule& rule,
                 std::span<std::int32_t> ids, std::span<float> weights);

}  // namespace tessera
