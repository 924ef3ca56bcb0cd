#include "backend/cpu/expanded_attention.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/block_product.h"
#include "backend/cpu/cached_attention.h"
#include "backend/cpu/kv_rows.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/softmax_tile.h"

namespace tessera {
namespace {

constexpr std::int64_t kQueryTile = 32;  // columns of one score tile: two AVX-512 vectors

// Queries that share one expansion. More would not make it much cheaper (expanding costs as much as 400
// queries' attention at Kimi's shapes) and would push queries and sums out of the L2 cache.
constexpr std::int64_t kQueryChunk = 1024;

constexpr float kNone = -std::numeric_limits<float>::infinity();

constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; }

struct Strides {
  explicit Strides(const ExpandedShape& s)
      : cached(s.latent + s.rope),
        key(round_up(s.nope + s.rope, 32) + kColumnMultiple),
        value(round_up(s.value, 32)) {}
  std::int64_t cached;
  std::int64_t key;
  std::int64_t value;
};

struct Work {
  Work(Carver carver, const ExpandedShape& s, std::int64_t queries_at_once)
      : Work(carver, s, Strides(s), round_up(queries_at_once, kQueryTile)) {}

  float* cached;   // [64, latent + rope]
  float* keys;     // [64, key]
  float* values;   // [64, value]
  float* queries;  // [tiles, nope + rope, 32]
  float* scores;   // [64, 32]
  float* decay;    // [32]
  std::int32_t* visible;
  SoftmaxState state;  // [queries]
  std::size_t bytes;

 private:
  Work(Carver& carver, const ExpandedShape& s, const Strides& strides, std::int64_t columns)
      : cached(carver.take<float>(kTileRows * strides.cached)),
        keys(carver.take<float>(kTileRows * strides.key)),
        values(carver.take<float>(kTileRows * strides.value)),
        queries(carver.take<float>((s.nope + s.rope) * columns)),
        scores(carver.take<float>(kTileRows * kQueryTile)),
        decay(carver.take<float>(kQueryTile)),
        visible(carver.take<std::int32_t>(kQueryTile)) {
    state.peak = carver.take<float>(columns);
    state.total = carver.take<float>(columns);
    state.out = carver.take<float>(columns * strides.value);
    state.out_stride = strides.value;
    bytes = carver.used();
  }
};

class ExpandedCall {
 public:
  ExpandedCall(const ExpandedShape& shape, float scale, const Tensor& q, const AttentionBatch& batch,
               const KvLayer& kv, const WeightStack& k_up, const WeightStack& v_up)
      : shape_(shape),
        strides_(shape),
        scale_(scale),
        q_(q),
        batch_(batch),
        kv_(kv),
        k_up_(k_up),
        v_up_(v_up) {}

  // One head of tokens [first, last) of one sequence.
  void run(std::int64_t seq, std::int64_t head, std::int64_t first, std::int64_t last, const Work& work,
           const Tensor& out, const Tensor& lse) const {
    const std::int64_t count = last - first;
    const std::int64_t columns = round_up(count, kQueryTile);
    load_queries(head, first, count, work);
    std::fill_n(work.state.peak, columns, kNone);
    std::fill_n(work.state.total, columns, 0.0F);
    std::fill_n(work.state.out, columns * strides_.value, 0.0F);
    const std::int64_t end = *std::max_element(batch_.visible_rows + first, batch_.visible_rows + last);
    for (std::int64_t start = 0; start < end; start += kTileRows) {
      const std::int64_t rows = std::min(kTileRows, end - start);
      expand(seq, head, start, rows, work);
      for (std::int64_t c = 0; c < count; c += kQueryTile) {
        run_tile(first, c, std::min(kQueryTile, count - c), start, rows, work);
      }
    }
    for (std::int64_t c = 0; c < count; ++c) {
      const float log_sum =
          finish_column(work.state, c, shape_.value, out.row<float>(first + c) + head * shape_.value);
      if (lse.data != nullptr) lse.row<float>(first + c)[head] = log_sum;
    }
  }

 private:
  void load_queries(std::int64_t head, std::int64_t first, std::int64_t count, const Work& work) const {
    const std::int64_t dim = shape_.nope + shape_.rope;
    std::fill_n(work.queries, dim * round_up(count, kQueryTile), 0.0F);
    for (std::int64_t c = 0; c < count; ++c) {
      const float* src = q_.row<float>(first + c) + head * dim;
      float* dst = work.queries + c / kQueryTile * dim * kQueryTile + c % kQueryTile;
      for (std::int64_t k = 0; k < dim; ++k) dst[k * kQueryTile] = src[k];
    }
  }

  // Keys [rows, nope | rope] and values [rows, value] of one head.
  void expand(std::int64_t seq, std::int64_t head, std::int64_t start, std::int64_t rows,
              const Work& work) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* cached = work.cached + r * strides_.cached;
      read_row_values(kv_, kv_row(kv_, batch_, seq, start + r), 0, shape_.latent + shape_.rope, cached);
      std::copy_n(cached + shape_.latent, shape_.rope, work.keys + r * strides_.key + shape_.nope);
    }
    linear_here(packed(k_up_, head), rows, work.cached, work.keys, strides_.key);
    linear_here(packed(v_up_, head), rows, work.cached, work.values, strides_.value);
  }

  void linear_here(const PackedMatrix& matrix, std::int64_t rows, const float* x, float* y,
                   std::int64_t y_stride) const {
    const LinearRows all{.x = x, .x_stride = strides_.cached, .y = y, .y_stride = y_stride, .rows = rows};
    const std::int64_t items = linear_items(matrix, rows);
    for (std::int64_t item = 0; item < items; ++item) run_linear_item(matrix, all, item);
  }

  // Queries [c, c + cols) of the chunk that begins at token `first` against `rows` expanded rows from `start`
  // on.
  void run_tile(std::int64_t first, std::int64_t c, std::int64_t cols, std::int64_t start, std::int64_t rows,
                const Work& work) const {
    bool any = false;
    bool ragged = false;
    for (std::int64_t i = 0; i < kQueryTile; ++i) {
      const std::int64_t seen = i < cols ? batch_.visible_rows[first + c + i] - start : std::int64_t{0};
      work.visible[i] = static_cast<std::int32_t>(std::clamp<std::int64_t>(seen, 0, rows));
      if (i < cols) {
        any |= work.visible[i] > 0;
        ragged |= work.visible[i] < rows;
      }
    }
    if (!any) return;
    const std::int64_t dim = shape_.nope + shape_.rope;
    SoftmaxState state = work.state;
    state.peak += c;
    state.total += c;
    state.out += c * state.out_stride;
    multiply_rows({.a = work.keys,
                   .a_stride = strides_.key,
                   .b = work.queries + c * dim,
                   .b_stride = kQueryTile,
                   .c = work.scores,
                   .c_stride = kQueryTile,
                   .rows = rows,
                   .cols = kQueryTile,
                   .depth = dim});
    softmax_scores({.scores = work.scores,
                    .stride = kQueryTile,
                    .rows = rows,
                    .cols = kQueryTile,
                    .visible = work.visible,
                    .scale = scale_,
                    .decay = work.decay},
                   state);
    decay_outputs(work.decay, cols, strides_.value, state);
    BlockProduct product{.a = work.scores,
                         .a_stride = kQueryTile,
                         .b = work.values,
                         .b_stride = strides_.value,
                         .c = state.out,
                         .c_stride = state.out_stride,
                         .rows = cols,
                         .cols = strides_.value,
                         .depth = rows,
                         .first = false};
    // A row that only later tokens see has weight 0 for the earlier ones; but 0 x NaN would reach them.
    if (!ragged || all_finite(work.values, strides_.value, rows, shape_.value)) {
      multiply_columns(product);
      return;
    }
    product.rows = 1;
    for (std::int64_t i = 0; i < cols; ++i) {
      product.a = work.scores + i;
      product.c = state.out + i * state.out_stride;
      product.depth = work.visible[i];
      multiply_columns(product);
    }
  }

  const ExpandedShape& shape_;
  Strides strides_;
  float scale_;
  const Tensor& q_;
  const AttentionBatch& batch_;
  const KvLayer& kv_;
  const WeightStack& k_up_;
  const WeightStack& v_up_;
};

}  // namespace

void reserve_expanded(ExpandedScratch& scratch, int threads, std::int64_t tokens,
                      const ExpandedShape& shape) {
  scratch.threads.resize(static_cast<std::size_t>(threads));
  const std::size_t bytes = Work(Carver(nullptr), shape, std::min(tokens, kQueryChunk)).bytes;
  for (Scratch& thread : scratch.threads) thread.at_least(bytes);
}

void expanded_attention(ThreadPool& pool, ExpandedScratch& scratch, const ExpandedShape& shape, float scale,
                        const Tensor& q, const AttentionBatch& batch, const KvLayer& kv,
                        const WeightStack& k_up, const WeightStack& v_up, const Tensor& out,
                        const Tensor& lse) {
  if (batch.tokens == 0) return;
  const std::int64_t at_once = std::min<std::int64_t>(batch.max_query, kQueryChunk);
  reserve_expanded(scratch, pool.size(), at_once, shape);
  const ExpandedCall call(shape, scale, q, batch, kv, k_up, v_up);
  // Items in the order sequence, chunk of its queries, head; sequences differ in length, so they are walked.
  const auto chunks_of = [&](std::int64_t s) {
    return (batch.query_start[s + 1] - batch.query_start[s] + kQueryChunk - 1) / kQueryChunk;
  };
  std::int64_t items = 0;
  for (std::int64_t s = 0; s < batch.seqs; ++s) items += chunks_of(s) * shape.heads;
  pool.split(items, [&](ItemRange range, int thread) {
    const Work work(Carver(scratch.threads[static_cast<std::size_t>(thread)].at_least(0)), shape, at_once);
    std::int64_t base = 0;
    for (std::int64_t s = 0; s < batch.seqs; ++s) {
      const std::int64_t here = chunks_of(s) * shape.heads;
      for (std::int64_t i = std::max(range.first, base); i < std::min(range.last, base + here); ++i) {
        const std::int64_t first = batch.query_start[s] + (i - base) / shape.heads * kQueryChunk;
        const std::int64_t last = std::min<std::int64_t>(batch.query_start[s + 1], first + kQueryChunk);
        call.run(s, (i - base) % shape.heads, first, last, work, out, lse);
      }
      base += here;
    }
  });
}

}  // namespace tessera
