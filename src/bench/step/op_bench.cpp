#include "bench/step/op_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "base/check.h"
#include "bench/step/random_weights.h"
#include "tensor/dtype.h"

namespace tessera::bench {
namespace {

// More than any cache holds: what rotates is of this size together.
constexpr std::int64_t kColdBytes = std::int64_t{256} << 20;
constexpr std::int32_t kBlock = 64;  // tokens in a block of the cache

std::int64_t bytes_in(const std::vector<HostMatrix>& rows) {
  std::int64_t sum = 0;
  for (const HostMatrix& part : rows) sum += part.bytes();
  return sum;
}

}  // namespace

template <class T>
T* OpBench::upload(const std::vector<T>& host) {
  buffers_.push_back(backend_.allocate(host.size() * sizeof(T)));
  backend_.copy_to_device(buffers_.back().get(), host.data(), host.size() * sizeof(T));
  backend_.synchronise();
  return static_cast<T*>(buffers_.back().get());
}

Tensor OpBench::rows(DType dtype, std::int64_t count, std::int64_t cols) {
  buffers_.push_back(backend_.allocate(static_cast<std::size_t>(count * cols * bytes_of(dtype))));
  return Tensor::dense(buffers_.back().get(), dtype, count, cols);
}

Tensor OpBench::random_rows(std::int64_t count, std::int64_t cols) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> pool(65536 + static_cast<std::size_t>(cols));
  for (float& x : pool) x = normal(random);
  const Tensor t = rows(backend_.activation_dtype(), count, cols);
  std::vector<BF16> narrow(static_cast<std::size_t>(cols));
  for (std::int64_t r = 0; r < count; ++r) {
    const std::size_t from = random() % 65536;
    if (t.dtype == DType::kF32) {
      backend_.copy_to_device(t.row_range(r, 1).data, pool.data() + from, static_cast<std::size_t>(cols) * 4);
    } else {
      for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i] = BF16(pool[from + i]);
      backend_.copy_to_device(t.row_range(r, 1).data, narrow.data(), narrow.size() * 2);
    }
  }
  backend_.synchronise();
  return t;
}

OpResult OpBench::time(std::string name, std::int64_t tokens, std::int64_t calls,
                       const std::function<void(std::int64_t)>& call) {
  using Clock = std::chrono::steady_clock;
  const auto all = [&] {
    for (std::int64_t i = 0; i < calls; ++i) call(i);
  };
  call(0);  // warm: scratch grows, modules load
  backend_.synchronise();
  const auto first = Clock::now();
  call(0);
  backend_.synchronise();
  // Of slow calls a few are enough, and move more than a cache holds all the same.
  const double each_s = std::chrono::duration<double>(Clock::now() - first).count();
  calls = std::clamp(static_cast<std::int64_t>(0.1 / std::max(each_s, 1e-7)), std::int64_t{1}, calls);
  const int replays = static_cast<double>(calls) * each_s < 0.01 ? 3 : 1;
  all();
  backend_.synchronise();
  std::unique_ptr<Recording> recording;
  try {
    recording = backend_.record(all);
  } catch (const std::exception&) {  // calls that wait for the device run as they are
  }
  const auto run = [&] { recording ? recording->replay() : all(); };
  run();
  backend_.synchronise();
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 5 || (times.size() < 40 && Clock::now() - begin < std::chrono::milliseconds(60))) {
    const auto start = Clock::now();
    for (int i = 0; i < replays; ++i) run();
    backend_.synchronise();
    const std::chrono::duration<double, std::micro> taken = Clock::now() - start;
    times.push_back(taken.count() / static_cast<double>(replays * calls));
  }
  std::ranges::sort(times);
  return {.name = std::move(name),
          .tokens = tokens,
          .us = times[times.size() / 2],
          .low_us = times.front(),
          .high_us = times.back()};
}

std::vector<OpResult> OpBench::linear(const LinearCase& c, const std::vector<std::int64_t>& tokens) {
  RandomRows random;
  std::vector<WeightStack> copies;
  const std::int64_t bytes = bytes_in(random.rows(c.format, c.out, c.in)) * c.heads;
  const std::int64_t count = std::clamp<std::int64_t>(kColdBytes / bytes + 1, 1, 64);
  for (std::int64_t i = 0; i < count; ++i) {
    copies.push_back(
        backend_.prepare_stack(c.heads, [&](std::int64_t) { return random.rows(c.format, c.out, c.in); }));
  }
  std::vector<OpResult> results;
  for (const std::int64_t n : tokens) {
    const Tensor x = random_rows(n, c.in * c.heads);
    const Tensor y = rows(backend_.activation_dtype(), n, c.out * c.heads);
    OpResult r = time(c.name, n, std::max<std::int64_t>(count, n > 1000 ? 1 : 8), [&](std::int64_t i) {
      backend_.linear_heads(x, c.in, copies[static_cast<std::size_t>(i % count)], y, c.out);
    });
    r.bytes = static_cast<double>(bytes + n * c.heads * (c.in + c.out) * bytes_of(x.dtype));
    r.flops = 2.0 * static_cast<double>(n * c.heads * c.in * c.out);
    results.push_back(r);
    buffers_.clear();
  }
  return results;
}

std::vector<OpResult> OpBench::moe(const MoeCase& c, const std::vector<std::int64_t>& tokens) {
  RandomRows random_weights;
  const WeightStack gate_up = backend_.prepare_stack(
      c.experts, [&](std::int64_t) { return random_weights.rows(c.format, 2 * c.width, c.hidden); });
  const WeightStack down = backend_.prepare_stack(
      c.experts, [&](std::int64_t) { return random_weights.rows(c.format, c.hidden, c.width); });
  const auto expert = static_cast<double>(bytes_in(random_weights.rows(c.format, 2 * c.width, c.hidden)) +
                                          bytes_in(random_weights.rows(c.format, c.hidden, c.width)));
  std::vector<OpResult> results;
  std::mt19937 random(11);
  std::vector<std::int32_t> order(static_cast<std::size_t>(c.experts));
  for (std::size_t e = 0; e < order.size(); ++e) order[e] = static_cast<std::int32_t>(e);
  for (const std::int64_t n : tokens) {
    const Tensor x = random_rows(n, c.hidden);
    const Tensor y = rows(backend_.activation_dtype(), n, c.hidden);
    const std::int64_t draws = n > 1000 ? 1 : 16;  // routings that rotate
    std::vector<Tensor> ids, weights;
    double touched = 0;
    for (std::int64_t d = 0; d < draws; ++d) {
      std::vector<std::int32_t> id;
      std::vector<bool> seen(order.size());
      for (std::int64_t t = 0; t < n; ++t) {
        std::ranges::shuffle(order, random);
        for (std::int64_t k = 0; k < c.top_k; ++k) {
          id.push_back(order[static_cast<std::size_t>(k)]);
          seen[static_cast<std::size_t>(id.back())] = true;
        }
      }
      touched += static_cast<double>(std::ranges::count(seen, true)) / static_cast<double>(draws);
      const std::vector<float> weight(id.size(), 0.3F);
      ids.push_back(Tensor::dense(upload(id), DType::kI32, n, c.top_k));
      weights.push_back(Tensor::dense(upload(weight), DType::kF32, n, c.top_k));
    }
    OpResult r = time("moe " + std::string(name_of(c.format)), n, draws, [&](std::int64_t i) {
      const auto d = static_cast<std::size_t>(i % draws);
      backend_.moe(x, ids[d], weights[d], 0, gate_up, down, y);
    });
    r.bytes = touched * expert + 2.0 * static_cast<double>(n * c.hidden * bytes_of(x.dtype));
    r.flops = 6.0 * static_cast<double>(n * c.top_k * c.hidden * c.width);
    results.push_back(r);
    buffers_.clear();
  }
  return results;
}

KvLayer OpBench::random_pool(KvFormat format, const KvRowShape& shape, std::int64_t blocks) {
  const auto row_bytes = kv_row_bytes(format, shape);
  TS_CHECK(row_bytes.has_value(), name_of(format));
  const std::int64_t bytes = blocks * kBlock * *row_bytes;
  buffers_.push_back(backend_.allocate(static_cast<std::size_t>(bytes)));
  fill_random(backend_, format, buffers_.back().get(), bytes);
  return {.data = buffers_.back().get(),
          .format = format,
          .shape = shape,
          .blocks = static_cast<std::int32_t>(blocks),
          .block_size = kBlock,
          .row_bytes = *row_bytes};
}

std::int64_t OpBench::pool_bytes(const MlaDecodeCase& c) {
  const std::int64_t rows = c.seqs * ((std::int64_t{c.context} + kBlock - 1) / kBlock) * kBlock;
  const std::int64_t set = rows * kv_row_bytes(c.format, KvRowShape::mla(c.latent, c.rope)).value_or(0);
  return set * std::clamp<std::int64_t>(kColdBytes / std::max<std::int64_t>(set, 1) + 1, 1, 64);
}

OpResult OpBench::mla_decode(const MlaDecodeCase& c) {
  const KvRowShape shape = KvRowShape::mla(c.latent, c.rope);
  const std::int64_t each = (c.context + kBlock - 1) / kBlock;  // blocks of a sequence
  const std::int64_t row_bytes = kv_row_bytes(c.format, shape).value_or(0);
  const std::int64_t sets = pool_bytes(c) / (c.seqs * each * kBlock * row_bytes);
  const KvLayer kv = random_pool(c.format, shape, sets * c.seqs * each);
  std::vector<std::int32_t> order(static_cast<std::size_t>(kv.blocks));
  for (std::size_t b = 0; b < order.size(); ++b) order[b] = static_cast<std::int32_t>(b);
  std::mt19937 random(5);
  std::ranges::shuffle(order, random);
  const std::int32_t* tables = upload(order);  // [sets, seqs, each]
  const std::int64_t tokens = c.seqs * c.query;
  std::vector<std::int32_t> starts = {0}, positions, visible;
  double pairs = 0;
  for (std::int32_t s = 0; s < c.seqs; ++s) {
    for (std::int32_t t = 0; t < c.query; ++t) {
      visible.push_back(c.context - c.query + t + 1);
      positions.push_back(visible.back() - 1);
      pairs += visible.back();
    }
    starts.push_back((s + 1) * c.query);
  }
  AttentionBatch batch{.seqs = c.seqs,
                       .tokens = static_cast<std::int32_t>(tokens),
                       .max_query = c.query,
                       .max_blocks = static_cast<std::int32_t>(each),
                       .query_start = upload(starts),
                       .positions = upload(positions),
                       .visible_rows = upload(visible)};
  const Tensor q = random_rows(tokens, c.heads * (c.latent + c.rope));
  const Tensor out = rows(backend_.activation_dtype(), tokens, c.heads * c.latent);
  OpResult r = time("mla_decode " + std::string(name_of(c.format)), tokens, sets, [&](std::int64_t i) {
    batch.block_table = tables + i % sets * c.seqs * each;
    backend_.mla_decode(q, c.heads, 0.07F, batch, kv, out, Tensor{});
  });
  r.bytes = static_cast<double>(c.seqs) * static_cast<double>(c.context * row_bytes) +
            static_cast<double>(tokens * c.heads * (2 * c.latent + c.rope) * bytes_of(q.dtype));
  r.flops = 2 * pairs * static_cast<double>(c.heads * (2 * c.latent + c.rope));
  buffers_.clear();
  return r;
}

OpResult OpBench::prefill(const PrefillCase& c, std::int64_t tokens) {
  constexpr std::int64_t kNope = 128, kRope = 64, kValue = 128, kLatent = 512;
  RandomRows random;
  const auto stack = [&] {
    return backend_.prepare_stack(
        c.heads, [&](std::int64_t) { return random.rows(WeightFormat::kBF16, kNope, kLatent); });
  };
  const WeightStack k_up = stack();
  const WeightStack v_up = stack();
  const std::int64_t total = c.context + tokens;
  const std::int64_t blocks = (total + kBlock - 1) / kBlock;
  const KvLayer kv = random_pool(KvFormat::kBF16, KvRowShape::mla(kLatent, kRope), blocks);
  std::vector<std::int32_t> table, positions, visible;
  for (std::int64_t b = 0; b < blocks; ++b) table.push_back(static_cast<std::int32_t>(b));
  for (std::int64_t t = 0; t < tokens; ++t) {
    positions.push_back(static_cast<std::int32_t>(c.context + t));
    visible.push_back(static_cast<std::int32_t>(c.context + t + 1));
  }
  const std::vector<std::int32_t> start = {0, static_cast<std::int32_t>(tokens)};
  AttentionBatch batch{.seqs = 1,
                       .tokens = static_cast<std::int32_t>(tokens),
                       .max_query = static_cast<std::int32_t>(tokens),
                       .max_blocks = static_cast<std::int32_t>(blocks),
                       .query_start = upload(start),
                       .positions = upload(positions),
                       .visible_rows = upload(visible),
                       .block_table = upload(table)};
  const Tensor q = random_rows(tokens, c.heads * (kNope + kRope));
  const Tensor out = rows(backend_.activation_dtype(), tokens, c.heads * kValue);
  std::vector<OpResult> results;
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = 0; i < 6; ++i) {  // it waits for the device: no recording
    const auto begin = Clock::now();
    backend_.mla_prefill(q, c.heads, 0.1F, batch, kv, k_up, v_up, out, Tensor{});
    backend_.synchronise();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  times.erase(times.begin());  // warm
  std::ranges::sort(times);
  const double pairs =
      static_cast<double>(tokens) * (static_cast<double>(c.context) + 0.5 * static_cast<double>(tokens));
  OpResult r{.name = "mla_prefill, context " + std::to_string(c.context),
             .tokens = tokens,
             .us = times[times.size() / 2],
             .low_us = times.front(),
             .high_us = times.back()};
  r.flops = 2.0 * static_cast<double>(c.heads) *
            (pairs * (kNope + kRope + kValue) + static_cast<double>(total * kLatent * (kNope + kValue)));
  r.bytes = static_cast<double>(tokens * c.heads * (kNope + kRope + kValue) * 2 + total * kv.row_bytes);
  buffers_.clear();
  return r;
}

std::vector<OpResult> OpBench::small_ops(std::int64_t n) {
  constexpr std::int64_t kHidden = 7168, kExperts = 384;
  std::vector<OpResult> results;
  const Tensor x = random_rows(n, kHidden);
  const Tensor y = random_rows(n, kHidden);
  const Tensor z = rows(backend_.activation_dtype(), n, kHidden);
  const VectorWeight w = backend_.prepare_vector(std::vector<float>(kHidden, 1.0F));
  results.push_back(
      time("add_rms_norm", n, 50, [&](std::int64_t) { backend_.add_rms_norm(x, y, w, 1e-6F, z); }));
  results.back().bytes = static_cast<double>(4 * n * kHidden * 2);
  const VectorWeight bias = backend_.prepare_vector(std::vector<float>(kExperts, 0.0F));
  std::vector<float> scores(static_cast<std::size_t>(n * kExperts));
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>((i * 7919) % 1000) * 0.003F;
  const Tensor logits = Tensor::dense(upload(scores), DType::kF32, n, kExperts);
  const Tensor ids = rows(DType::kI32, n, 8);
  const Tensor weights = rows(DType::kF32, n, 8);
  results.push_back(time("route_experts", n, 50, [&](std::int64_t) {
    backend_.route_experts(logits, bias, {.top_k = 8, .scaling = 2.8F}, ids, weights);
  }));
  const RopeTable table = backend_.prepare_rope(4096, std::vector<float>(32, 0.1F), 1.0F);
  const std::int32_t* positions = upload(std::vector<std::int32_t>(static_cast<std::size_t>(n), 77));
  const Tensor q = random_rows(n, 64 * 192);
  results.push_back(time("rope, 64 heads", n, 50, [&](std::int64_t) {
    backend_.rope(q.col_range(128, q.cols - 128), 64, 192, positions, table, RopePairs::kInterleaved);
  }));
  const Tensor gate_up = random_rows(n, 4096);
  const Tensor activated = rows(backend_.activation_dtype(), n, 2048);
  results.push_back(
      time("silu_mul, 2048", n, 50, [&](std::int64_t) { backend_.silu_mul(gate_up, activated); }));
  buffers_.clear();
  return results;
}

}  // namespace tessera::bench
