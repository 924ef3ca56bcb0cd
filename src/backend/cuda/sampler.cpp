#include "backend/cuda/sampler.h"

#include <algorithm>
#include <cstring>

#include "backend/uniform_draw.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

template <class T>
std::size_t list_bytes(std::span<const T> list) {
  return sampler_aligned(list.size_bytes());
}
std::size_t lists_of(const SamplingRow& row, const DraftDraw& draft) {
  return list_bytes(draft.probs) + list_bytes(draft.ids) + list_bytes(row.allowed) +
         list_bytes(row.logit_bias) + list_bytes(row.banned) + list_bytes(row.prompt_tokens) +
         list_bytes(row.out_counts);
}

}  // namespace

void Sampler::reserve(std::int64_t vocab, std::int64_t kv_tokens) {
  if (vocab <= layout_.vocab && kv_tokens <= layout_.list_limit) return;
  layout_ = sampler_layout(std::max(vocab, layout_.vocab), std::max(kv_tokens, layout_.list_limit));
  host_packed_ = allocate_pinned(layout_.packed);
  device_packed_ = allocate_device(layout_.packed);
  marks_ = allocate_device(layout_.marks);
  raw_ = allocate_device(layout_.raw);
  device_results_ = allocate_device(layout_.results);
  host_results_ = allocate_pinned(layout_.results);
}

std::size_t Sampler::pack(const SamplingRow& row, const DraftDraw& draft, std::size_t index,
                          std::size_t used) {
  PackedRow packed{.temperature = row.temperature,
                   .top_p = row.top_p,
                   .min_p = row.min_p,
                   .repetition = row.repetition_penalty,
                   .frequency = row.frequency_penalty,
                   .presence = row.presence_penalty,
                   .top_k = row.top_k,
                   .has_mask = row.allowed.empty() ? 0 : 1,
                   .uniform = uniform_draw(row.seed, row.draw),
                   .accept = uniform_draw(row.seed, row.draw, DrawFor::kAccept),
                   .draft = draft.token,
                   .draft_prob = draft.prob,
                   .allowed = {},
                   .bias = {},
                   .banned = {},
                   .prompt = {},
                   .out_counts = {},
                   .draft_probs = {},
                   .draft_ids = {}};
  const auto put = [&]<class T>(PackedList& to, std::span<const T> list) {
    to = {.offset = static_cast<std::int64_t>(used), .count = static_cast<std::int64_t>(list.size())};
    if (!list.empty()) std::memcpy(host_packed_.get() + used, list.data(), list.size_bytes());
    used += list_bytes(list);
  };
  put(packed.allowed, row.allowed);
  put(packed.bias, row.logit_bias);
  put(packed.banned, row.banned);
  put(packed.prompt, row.prompt_tokens);
  put(packed.out_counts, row.out_counts);
  put(packed.draft_probs, draft.probs);
  put(packed.draft_ids, draft.ids);
  std::memcpy(host_packed_.get() + index * sizeof(PackedRow), &packed, sizeof(packed));
  return used;
}

void Sampler::sample(const Tensor& logits, std::span<const SamplingRow> rows,
                     std::span<const DraftDraw> drafts, std::span<SampledToken> results) {
  reserve(logits.cols, 0);
  const std::size_t lists = sampler_aligned(kWave * sizeof(PackedRow));
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t used = lists;
    std::int64_t tops = 0;
    std::size_t count = 0;
    while (first + count < rows.size() && count < kWave) {
      const SamplingRow& row = rows[first + count];
      const DraftDraw draft = drafts.empty() ? DraftDraw{} : drafts[first + count];
      const std::int64_t most =
          std::max<std::int64_t>(tops, std::min<std::int64_t>(row.logprobs, logits.cols));
      const bool fits = used + lists_of(row, draft) <= layout_.packed &&
                        most * static_cast<std::int64_t>(count + 1) <= layout_.top_limit;
      if (!fits && count > 0) break;
      TS_CHECK(fits, lists_of(row, draft), layout_.packed, row.logprobs);
      used = pack(row, draft, count, used);
      tops = most;
      ++count;
    }
    TS_CUDA(cudaMemcpyAsync(device_packed_.get(), host_packed_.get(), used, cudaMemcpyHostToDevice, stream_));
    sample_wave(logits.row_range(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)),
                rows.subspan(first, count), results.subspan(first, count));
    first += count;
  }
}

void Sampler::sample_wave(const Tensor& logits, std::span<const SamplingRow> rows,
                          std::span<SampledToken> results) {
  const SamplerResultLayout layout(kWave, layout_.top_limit);
  std::byte* device = device_results_.get();
  std::byte* host = host_results_.get();
  const bool scores = std::ranges::any_of(rows, [](const SamplingRow& row) { return row.logprobs >= 0; });
  const auto count = static_cast<std::int64_t>(rows.size());
  const Tensor raw = Tensor::dense(raw_.get(), DType::kF32, count, logits.cols);
  if (scores) {
    TS_CUDA(cudaMemcpy2DAsync(raw.data, static_cast<std::size_t>(raw.stride) * 4, logits.data,
                              static_cast<std::size_t>(logits.stride) * 4,
                              static_cast<std::size_t>(logits.cols) * 4, rows.size(),
                              cudaMemcpyDeviceToDevice, stream_));
  }
  auto* drawn = reinterpret_cast<DrawnToken*>(device + SamplerResultLayout::kDrawn);
  launch_sample({.logits = logits,
                 .rows = reinterpret_cast<const PackedRow*>(device_packed_.get()),
                 .packed = device_packed_.get(),
                 .marks = reinterpret_cast<std::uint32_t*>(marks_.get()),
                 .drawn = drawn},
                stream_);
  std::int32_t tops[kWave];
  std::int32_t top_stride = 0;
  if (scores) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      tops[i] = static_cast<std::int32_t>(std::min<std::int64_t>(rows[i].logprobs, logits.cols));
      top_stride = std::max(top_stride, tops[i]);
    }
    std::memcpy(host + layout.tops, tops, rows.size() * 4);
    TS_CUDA(cudaMemcpyAsync(device + layout.tops, host + layout.tops, rows.size() * 4, cudaMemcpyHostToDevice,
                            stream_));
    launch_score({.logits = raw,
                  .targets = nullptr,
                  .drawn = drawn,
                  .top = reinterpret_cast<const std::int32_t*>(device + layout.tops),
                  .top_stride = top_stride,
                  .scored = reinterpret_cast<ScoredToken*>(device + layout.scored),
                  .top_tokens = reinterpret_cast<std::int32_t*>(device + layout.tokens),
                  .top_logprobs = reinterpret_cast<float*>(device + layout.logprobs)},
                 stream_);
    take_scores(count, top_stride, std::span(tops, rows.size()), results);
  }
  TS_CUDA(cudaMemcpyAsync(host, drawn, rows.size() * sizeof(DrawnToken), cudaMemcpyDeviceToHost, stream_));
  wait_.wait();
  const auto* tokens = reinterpret_cast<const DrawnToken*>(host);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    SampledToken& result = results[i];
    if (rows[i].logprobs < 0 || tokens[i].invalid != 0) {
      result.logprob = 0;
      result.rank = 0;
      result.top.clear();
    }
    result.token = tokens[i].token;
    result.invalid = tokens[i].invalid != 0;
  }
}

// Copies scores over and waits for them; rows that asked for none are left alone.
void Sampler::take_scores(std::int64_t rows, std::int32_t top_stride, std::span<const std::int32_t> tops,
                          std::span<SampledToken> results) {
  const SamplerResultLayout layout(kWave, layout_.top_limit);
  std::byte* host = host_results_.get();
  const auto fetch = [&](std::size_t offset, std::int64_t bytes) {
    if (bytes == 0) return;
    TS_CUDA(cudaMemcpyAsync(host + offset, device_results_.get() + offset, static_cast<std::size_t>(bytes),
                            cudaMemcpyDeviceToHost, stream_));
  };
  fetch(layout.scored, rows * static_cast<std::int64_t>(sizeof(ScoredToken)));
  fetch(layout.tokens, rows * top_stride * 4);
  fetch(layout.logprobs, rows * top_stride * 4);
  wait_.wait();
  const auto* scored = reinterpret_cast<const ScoredToken*>(host + layout.scored);
  const auto* tokens = reinterpret_cast<const std::int32_t*>(host + layout.tokens);
  const auto* logprobs = reinterpret_cast<const float*>(host + layout.logprobs);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
    if (tops[i] < 0) continue;
    SampledToken& result = results[i];
    result.token = scored[i].token;
    result.invalid = scored[i].invalid != 0;
    result.logprob = scored[i].logprob;
    result.rank = scored[i].rank;
    result.top.clear();
    if (result.invalid) continue;
    for (std::int32_t n = 0; n < tops[i]; ++n) {
      const std::size_t at = i * static_cast<std::size_t>(top_stride) + static_cast<std::size_t>(n);
      result.top.push_back({.token = tokens[at], .logprob = logprobs[at], .rank = n + 1});
    }
  }
}

void Sampler::score(const Tensor& logits, std::span<const std::int32_t> targets, std::int32_t top,
                    std::span<SampledToken> results) {
  reserve(logits.cols, 0);
  const SamplerResultLayout layout(kWave, layout_.top_limit);
  const auto most = static_cast<std::int32_t>(std::clamp<std::int64_t>(top, 0, logits.cols));
  const std::int64_t wave = most > 0 ? std::min(kWave, layout_.top_limit / most) : kWave;
  for (std::int64_t first = 0; first < logits.rows; first += wave) {
    const std::int64_t count = std::min(wave, logits.rows - first);
    const auto rows = static_cast<std::size_t>(count);
    std::int32_t tops[kWave];
    std::fill_n(tops, rows, most);
    std::byte* host = host_results_.get();
    std::byte* device = device_results_.get();
    std::memcpy(host + layout.tops, tops, rows * 4);
    std::memcpy(host + layout.targets, targets.data() + first, rows * 4);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::int32_t target = targets[static_cast<std::size_t>(first) + i];
      TS_CHECK(target >= 0 && target < logits.cols, target, logits.cols);
    }
    for (const std::size_t offset : {layout.tops, layout.targets}) {
      TS_CUDA(cudaMemcpyAsync(device + offset, host + offset, rows * 4, cudaMemcpyHostToDevice, stream_));
    }
    launch_score({.logits = logits.row_range(first, count),
                  .targets = reinterpret_cast<const std::int32_t*>(device + layout.targets),
                  .drawn = nullptr,
                  .top = reinterpret_cast<const std::int32_t*>(device + layout.tops),
                  .top_stride = most,
                  .scored = reinterpret_cast<ScoredToken*>(device + layout.scored),
                  .top_tokens = reinterpret_cast<std::int32_t*>(device + layout.tokens),
                  .top_logprobs = reinterpret_cast<float*>(device + layout.logprobs)},
                 stream_);
    take_scores(count, most, std::span(tops, rows), results.subspan(static_cast<std::size_t>(first), rows));
  }
}

}  // namespace tessera::cuda
