#include "backend/cuda/activation.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/sample_row.cuh"
#include "backend/cuda/sampler.h"

namespace tessera::cuda {
namespace {

constexpr float kNone = -INFINITY;
constexpr float kGreedyTemperature = 1e-5F;  // below it a temperature means arg max: dividing would overflow

template <class T>
__device__ const T* list(const std::byte* packed, const PackedList& list) {
  return reinterpret_cast<const T*>(packed + list.offset);
}
struct TokenValue {
  std::int32_t token;
  float value;
};
struct TokenCount {
  std::int32_t token;
  std::int32_t count;
};

// Masks, biases, bans and penalties, in this order.
__device__ void edit(float* logits, std::int32_t vocab, const PackedRow& row, const std::byte* packed,
                     std::uint32_t* marks) {
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  const auto inside = [&](std::int32_t token) { return token >= 0 && token < vocab; };
  if (row.has_mask != 0) {
    const auto* allowed = list<std::uint64_t>(packed, row.allowed);
    for (std::int64_t i = thread; i < vocab; i += kRowThreads) {
      if (i / 64 >= row.allowed.count || (allowed[i / 64] >> (i % 64) & 1U) == 0) logits[i] = kNone;
    }
    __syncthreads();
  }
  const auto* bias = list<TokenValue>(packed, row.bias);
  for (std::int64_t i = thread; i < row.bias.count; i += kRowThreads) {
    if (inside(bias[i].token)) atomicAdd(&logits[bias[i].token], bias[i].value);
  }
  __syncthreads();
  const auto* banned = list<std::int32_t>(packed, row.banned);
  for (std::int64_t i = thread; i < row.banned.count; i += kRowThreads) {
    if (inside(banned[i])) logits[banned[i]] = kNone;
  }
  __syncthreads();
  const auto* counts = list<TokenCount>(packed, row.out_counts);
  if (row.repetition != 1.0F) {
    for (std::int64_t i = thread; i < (vocab + 31) / 32; i += kRowThreads) marks[i] = 0;
    __syncthreads();
    const auto penalise = [&](std::int32_t token) {
      if (!inside(token)) return;
      const std::uint32_t bit = 1U << (token % 32);
      if ((atomicOr(&marks[token / 32], bit) & bit) != 0) return;  // once, however often it occurs
      const float logit = logits[token];
      logits[token] = logit > 0 ? logit / row.repetition : logit * row.repetition;
    };
    const auto* prompt = list<std::int32_t>(packed, row.prompt);
    for (std::int64_t i = thread; i < row.prompt.count; i += kRowThreads) penalise(prompt[i]);
    for (std::int64_t i = thread; i < row.out_counts.count; i += kRowThreads) {
      if (counts[i].count > 0) penalise(counts[i].token);
    }
    __syncthreads();
  }
  if (row.frequency != 0.0F || row.presence != 0.0F) {
    for (std::int64_t i = thread; i < row.out_counts.count; i += kRowThreads) {
      if (counts[i].count <= 0 || !inside(counts[i].token)) continue;
      float logit = logits[counts[i].token];
      logit -= __fmul_rn(row.frequency, static_cast<float>(counts[i].count));
      logits[counts[i].token] = logit - row.presence;
    }
    __syncthreads();
  }
}

// exp((logit - peak) / temperature) in units of 2^-40.
__device__ std::uint64_t weight_of(float logit, float peak, float inverse_temperature) {
  const float exponent = (logit - peak) * inverse_temperature;
  return exponent < -87.0F ? 0 : __float2ull_rn(expf(exponent) * 0x1p40F);
}

// The largest order such that the sum of measure(i) over logits of at least that order still reaches `least`.
// Two bits a pass.
template <class Measure>
__device__ std::uint32_t highest_order(RowPasses& passes, const float* logits, std::uint64_t least,
                                       const Measure& measure) {
  std::uint32_t bound = 0;
  for (int shift = 30; shift >= 0; shift -= 2) {
    std::uint64_t at_least[3];
    passes.sum(at_least, [&](std::int32_t i, std::uint64_t(&sums)[3]) {
      const std::uint32_t order = order_of(logits[i]);
      if (order < bound + (1U << shift)) return;
      const std::uint64_t amount = measure(i);
#pragma unroll
      for (std::uint32_t step = 1; step <= 3; ++step) {
        if (order >= bound + (step << shift)) sums[step - 1] += amount;
      }
    });
    for (std::uint32_t step = 3; step >= 1; --step) {
      if (at_least[step - 1] >= least) {
        bound += step << shift;
        break;
      }
    }
  }
  return bound;
}

// From what the row's distribution has more than the draft's, in the order of ids; `logits` is overwritten
// with it.
template <class Kept>
__device__ std::int32_t draw_residual(RowPasses& passes, float* logits, std::int32_t vocab,
                                      const PackedRow& row, const std::byte* packed, const Kept& kept,
                                      std::uint64_t total, std::int32_t drawn) {
  // A thread meets the same ids in each pass, so it may overwrite the logit that it has weighed.
  passes.each([&](std::int32_t i) {
    logits[i] = static_cast<float>(static_cast<double>(kept(i)) / static_cast<double>(total));
  });
  __syncthreads();
  const auto* probs = list<float>(packed, row.draft_probs);
  const auto* ids = list<std::int32_t>(packed, row.draft_ids);
  for (std::int64_t entry = threadIdx.x; entry < row.draft_probs.count; entry += kRowThreads) {
    const std::int64_t token = row.draft_ids.count > 0 ? ids[entry] : entry;
    if (token >= 0 && token < vocab) logits[token] = fmaxf(0.0F, logits[token] - probs[entry]);
  }
  __syncthreads();
  // The rejected token has nothing left: its share is smaller than the draft's. Rounding must not bring it
  // back.
  if (threadIdx.x == 0 && row.draft >= 0 && row.draft < vocab) logits[row.draft] = 0.0F;
  __syncthreads();
  const auto left = [&](std::int32_t i) -> std::uint64_t { return __float2ull_rn(logits[i] * 0x1p40F); };
  const std::uint64_t sum = passes.sum(left);
  if (sum == 0) return drawn;  // the two agree but for rounding: a plain draw is as good
  const auto target = static_cast<std::uint64_t>(row.uniform * static_cast<double>(sum));
  return passes.find(target >= sum ? sum - 1 : target, left);
}

__device__ std::int32_t draw(RowPasses& passes, float* logits, std::int32_t vocab, float peak,
                             const PackedRow& row, const std::byte* packed) {
  const float inverse_temperature = 1.0F / row.temperature;
  std::uint32_t least_order = 0;
  std::uint64_t least_weight = 1;  // tokens without weight are never drawn
  if (row.top_k > 0 && row.top_k < vocab) {
    least_order = highest_order(passes, logits, static_cast<std::uint64_t>(row.top_k),
                                [](std::int32_t) { return std::uint64_t{1}; });
  }
  const float min_p = fminf(row.min_p, 1.0F);
  std::int32_t last_tie = vocab;  // of the logits of the least order, the last that stays
  const auto kept = [&](std::int32_t i) -> std::uint64_t {
    const float logit = logits[i];
    const std::uint32_t order = order_of(logit);
    if (order < least_order || (order == least_order && i > last_tie)) return 0;
    if (min_p > 0.0F && expf((logit - peak) * inverse_temperature) < min_p) return 0;
    const std::uint64_t weight = weight_of(logit, peak, inverse_temperature);
    return weight < least_weight ? 0 : weight;
  };
  std::uint64_t total = passes.sum(kept);
  if (row.top_p < 1.0F) {
    const auto may_drop = static_cast<std::uint64_t>(
        fmax(0.0, (1.0 - static_cast<double>(row.top_p)) * static_cast<double>(total)));
    // What must stay at least; the most likely token stays whatever p is.
    const std::uint64_t stay = may_drop >= total ? 1 : total - may_drop;
    const std::uint32_t order = highest_order(passes, logits, stay, kept);
    std::uint64_t sums[3];  // above the order, at it, and how many are at it
    passes.sum(sums, [&](std::int32_t i, std::uint64_t(&s)[3]) {
      const std::uint32_t own = order_of(logits[i]);
      if (own < order) return;
      const std::uint64_t weight = kept(i);
      s[own == order ? 1 : 0] += weight;
      if (own == order && weight > 0) ++s[2];
    });
    const std::uint64_t each = sums[2] > 0 ? sums[1] / sums[2] : 1;  // equal logits weigh the same
    const std::uint64_t ties = sums[0] >= stay ? 1 : (stay - sums[0] + each - 1) / each;
    const std::int32_t last = passes.find(ties - 1, [&](std::int32_t i) -> std::uint64_t {
      return order_of(logits[i]) == order && kept(i) > 0 ? 1 : 0;
    });
    least_order = order;
    last_tie = last;
    total = passes.sum(kept);
  }
  const auto target = static_cast<std::uint64_t>(row.uniform * static_cast<double>(total));
  const std::int32_t drawn = passes.find(target >= total ? total - 1 : target, kept);
  if (row.draft_probs.count == 0) return drawn;

  // Strictly below: the random number may be 0, and a token that may not be chosen must not pass then.
  const bool is_token = row.draft >= 0 && row.draft < vocab;
  const double share = is_token ? static_cast<double>(kept(row.draft)) / static_cast<double>(total) : 0.0;
  if (row.accept * static_cast<double>(row.draft_prob) < share) return row.draft;
  return draw_residual(passes, logits, vocab, row, packed, kept, total, drawn);
}

__global__ void __launch_bounds__(kRowThreads)
    sample_kernel(Rows<float> rows, std::int32_t vocab, const PackedRow* settings, const std::byte* packed,
                  std::uint32_t* marks, DrawnToken* drawn) {
  __shared__ RowPasses::Shared shared;
  RowPasses passes(shared, vocab);
  float* logits = rows.row(blockIdx.x);
  const PackedRow& row = settings[blockIdx.x];
  const auto nans = [&](std::int32_t i) -> std::uint64_t { return isnan(logits[i]) ? 1 : 0; };
  if (passes.sum(nans) > 0) {
    if (threadIdx.x == 0) drawn[blockIdx.x] = {-1, 1};
    return;
  }
  edit(logits, vocab, row, packed, marks + std::int64_t{blockIdx.x} * ((vocab + 31) / 32));
  float peak = kNone;
  std::int32_t best = -1;
  passes.best(peak, best, [&](std::int32_t i) { return logits[i]; });
  if (peak == kNone || passes.sum(nans) > 0) {
    if (threadIdx.x == 0) drawn[blockIdx.x] = {-1, 1};
    return;
  }
  if (isinf(peak)) {  // infinitely likely tokens share everything
    passes.each([&](std::int32_t i) { logits[i] = isinf(logits[i]) && logits[i] > 0 ? 0.0F : kNone; });
    peak = 0;
    __syncthreads();
  }
  const std::int32_t token =
      row.temperature < kGreedyTemperature ? best : draw(passes, logits, vocab, peak, row, packed);
  if (threadIdx.x == 0) drawn[blockIdx.x] = {token, 0};
}

__global__ void __launch_bounds__(kRowThreads) score_kernel(ScoreLaunch launch, std::int32_t vocab) {
  __shared__ RowPasses::Shared shared;
  __shared__ double partial[kRowWarps];
  RowPasses passes(shared, vocab);
  const std::int64_t r = blockIdx.x;
  const std::int32_t top = min(launch.top[r], vocab);
  const std::int32_t target = launch.targets ? launch.targets[r] : launch.drawn[r].token;
  const float* logits = static_cast<const float*>(launch.logits.data) + r * launch.logits.stride;
  const auto nans = [&](std::int32_t i) -> std::uint64_t { return isnan(logits[i]) ? 1 : 0; };
  float peak = kNone;
  std::int32_t best = -1;
  if (top >= 0 && target >= 0) passes.best(peak, best, [&](std::int32_t i) { return logits[i]; });
  if (peak == kNone || passes.sum(nans) > 0) {
    if (threadIdx.x == 0) launch.scored[r] = {target, 1, 0.0F, 0};
    return;
  }
  double sum = 0;
  passes.each([&](std::int32_t i) { sum += static_cast<double>(expf(logits[i] - peak)); });
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < kRowWarps; ++w) total += partial[w];
  const double log_sum = static_cast<double>(peak) + log(total);
  const float own = logits[target];
  const std::uint64_t better = passes.sum([&](std::int32_t i) -> std::uint64_t {
    return logits[i] > own || (logits[i] == own && i < target) ? 1 : 0;
  });
  if (threadIdx.x == 0) {
    launch.scored[r] = {target, 0, static_cast<float>(static_cast<double>(own) - log_sum),
                        static_cast<std::int32_t>(better) + 1};
  }
  for (std::int32_t n = 0; n < top; ++n) {
    if (threadIdx.x == 0) {
      launch.top_tokens[r * launch.top_stride + n] = best;
      launch.top_logprobs[r * launch.top_stride + n] =
          static_cast<float>(static_cast<double>(peak) - log_sum);
    }
    const float last = peak;
    const std::int32_t last_index = best;
    passes.best(peak, best, [&](std::int32_t i) {
      return logits[i] < last || (logits[i] == last && i > last_index) ? logits[i] : NAN;
    });
  }
}

}  // namespace

void launch_sample(const SampleLaunch& launch, cudaStream_t stream) {
  if (launch.logits.rows == 0) return;
  sample_kernel<<<static_cast<unsigned>(launch.logits.rows), kRowThreads, 0, stream>>>(
      rows_of<float>(launch.logits), static_cast<std::int32_t>(launch.logits.cols), launch.rows,
      launch.packed, launch.marks, launch.drawn);
  TS_CUDA(cudaGetLastError());
}

void launch_score(const ScoreLaunch& launch, cudaStream_t stream) {
  if (launch.logits.rows == 0) return;
  score_kernel<<<static_cast<unsigned>(launch.logits.rows), kRowThreads, 0, stream>>>(
      launch, static_cast<std::int32_t>(launch.logits.cols));
  TS_CUDA(cudaGetLastError());
}

}  // namespace tessera::cuda
