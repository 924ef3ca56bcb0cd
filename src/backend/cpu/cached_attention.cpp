#include "backend/cpu/cached_attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/block_product.h"
#include "backend/cpu/kv_rows.h"
#include "backend/cpu/softmax_tile.h"

namespace tessera {
namespace {

// Columns of an item: enough to fill two AVX-512 vectors where heads and tokens allow.
constexpr std::int64_t kItemColumns = 32;

// Rows that are widened to f32 at a time where keys and values are apart: 32 x 128 values are 18 KiB, so that
// a piece is used while it is in the L1 cache. MLA's rows of 576 would not fit anyway and are keys and values
// at once.
constexpr std::int64_t kPieceRows = 32;
static_assert(kTileRows % kPieceRows == 0);

constexpr float kNone = -std::numeric_limits<float>::infinity();

constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; }

// Some tokens of one sequence with chunks of one size.
struct TokenGroup {
  std::int32_t seq = 0;
  std::int32_t first = 0;  // token
  std::int32_t count = 0;
  std::int32_t chunks = 0;  // of the token that sees most
};

// Arrays of one item. A "column" is one (token, query head) pair of one kv head.
struct Shapes {
  explicit Shapes(const CachedHeads& h)
      : kv_heads(h.kv_heads),
        group(h.heads / h.kv_heads),
        tokens_in_item(std::max<std::int64_t>(1, kItemColumns / group)),
        columns(round_up(group * tokens_in_item, kColumnMultiple)),
        key_stride(round_up(h.key_dim, 32) + kColumnMultiple),  // off the power of two, for the cache's sets
        value_width(round_up(h.value_dim, 32)),
        value_stride(h.value_in_key ? key_stride : value_width),
        piece_rows(h.value_in_key ? kTileRows : kPieceRows) {}
  std::int64_t kv_heads;
  std::int64_t group;  // query heads of one kv head
  std::int64_t tokens_in_item;
  std::int64_t columns;  // of one kv head
  std::int64_t key_stride;
  std::int64_t value_width;
  std::int64_t value_stride;
  std::int64_t piece_rows;
};

SoftmaxState take_state(Carver& carver, const Shapes& s) {
  SoftmaxState state;
  state.peak = carver.take<float>(s.kv_heads * s.columns);
  state.total = carver.take<float>(s.kv_heads * s.columns);
  state.out = carver.take<float>(s.kv_heads * s.columns * s.value_width);
  state.out_stride = s.value_width;
  return state;
}

SoftmaxState of_head(SoftmaxState state, const Shapes& s, std::int64_t kv_head) {
  state.peak += kv_head * s.columns;
  state.total += kv_head * s.columns;
  state.out += kv_head * s.columns * s.value_width;
  return state;
}

struct Work {
  Work(Carver carver, const Shapes& s, const CachedHeads& h)
      : keys(carver.take<float>(s.kv_heads * kTileRows * s.key_stride +
                                32)),  // a value is read up to 31 past a key
        values(h.value_in_key ? keys : carver.take<float>(s.kv_heads * kTileRows * s.value_stride)),
        queries(carver.take<float>(s.kv_heads * h.key_dim * s.columns)),
        scores(carver.take<float>(kTileRows * s.columns)),
        decay(carver.take<float>(s.columns)),
        visible(carver.take<std::int32_t>(s.columns)),
        chunk(take_state(carver, s)),
        joined(take_state(carver, s)),
        bytes(carver.used()) {}
  float* keys;     // [piece_rows, key_stride]
  float* values;   // [piece_rows, value_stride]
  float* queries;  // [kv_heads, key_dim, columns]
  float* scores;   // [64, columns]
  float* decay;    // [columns]
  std::int32_t* visible;
  SoftmaxState chunk;
  SoftmaxState joined;
  std::size_t bytes;
};

class CachedCall {
 public:
  CachedCall(const CachedHeads& heads, const Tensor& q, const AttentionBatch& batch, const KvLayer& kv)
      : heads_(heads), shapes_(heads), q_(q), batch_(batch), kv_(kv) {}

  // Query columns of a group, transposed: [kv_heads, key_dim, columns].
  void load_queries(const TokenGroup& group, const Work& work) const {
    const std::int64_t cols = group.count * shapes_.group;
    const std::int64_t columns = padded(cols);
    const std::int64_t size = heads_.key_dim * columns;
    if (cols < columns) std::fill_n(work.queries, shapes_.kv_heads * size, 0.0F);
    for (std::int64_t kv_head = 0; kv_head < shapes_.kv_heads; ++kv_head) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const float* src = q_.row<float>(group.first + c / shapes_.group) +
                           (kv_head * shapes_.group + c % shapes_.group) * heads_.key_dim;
        float* dst = work.queries + kv_head * size + c;
        for (std::int64_t k = 0; k < heads_.key_dim; ++k) dst[k * columns] = src[k];
      }
    }
  }

  // The softmax of rows [chunk * size, (chunk + 1) * size) of a group whose queries are loaded.
  void run_chunk(const TokenGroup& group, std::int64_t chunk, const Work& work,
                 const SoftmaxState& state) const {
    const std::int64_t cols = group.count * shapes_.group;
    std::fill_n(state.peak, shapes_.kv_heads * shapes_.columns, kNone);
    std::fill_n(state.total, shapes_.kv_heads * shapes_.columns, 0.0F);
    std::fill_n(state.out, shapes_.kv_heads * shapes_.columns * shapes_.value_width, 0.0F);
    std::int64_t most = 0;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t t = 0; t < group.count; ++t) {
      most = std::max<std::int64_t>(most, batch_.visible_rows[group.first + t]);
      least = std::min<std::int64_t>(least, batch_.visible_rows[group.first + t]);
    }
    const std::int64_t size = chunk_rows(most);
    const std::int64_t end = std::min(most, (chunk + 1) * size);
    for (std::int64_t start = chunk * size; start < end; start += kTileRows) {
      const std::int64_t rows = std::min(kTileRows, end - start);
      for (std::int64_t c = 0; c < padded(cols); ++c) {
        const std::int64_t seen =
            c < cols ? batch_.visible_rows[group.first + c / shapes_.group] - start : std::int64_t{0};
        work.visible[c] = static_cast<std::int32_t>(std::clamp<std::int64_t>(seen, 0, rows));
      }
      for (std::int64_t kv_head = 0; kv_head < shapes_.kv_heads; ++kv_head) {
        run_tile({.seq = group.seq,
                  .kv_head = kv_head,
                  .cols = cols,
                  .start = start,
                  .rows = rows,
                  .ragged = least - start < rows},
                 work, of_head(state, shapes_, kv_head));
      }
    }
  }

  void join(const TokenGroup& group, const SoftmaxState& earlier, const SoftmaxState& later) const {
    for (std::int64_t kv_head = 0; kv_head < shapes_.kv_heads; ++kv_head) {
      join_softmax(of_head(earlier, shapes_, kv_head), of_head(later, shapes_, kv_head),
                   group.count * shapes_.group, shapes_.value_width);
    }
  }

  void finish(const TokenGroup& group, const SoftmaxState& all, const Tensor& out, const Tensor& lse) const {
    for (std::int64_t kv_head = 0; kv_head < shapes_.kv_heads; ++kv_head) {
      const SoftmaxState state = of_head(all, shapes_, kv_head);
      for (std::int64_t c = 0; c < group.count * shapes_.group; ++c) {
        const std::int64_t token = group.first + c / shapes_.group;
        const std::int64_t head = kv_head * shapes_.group + c % shapes_.group;
        const float log_sum =
            finish_column(state, c, heads_.value_dim, out.row<float>(token) + head * heads_.value_dim);
        if (lse.data != nullptr) lse.row<float>(token)[head] = log_sum;
      }
    }
  }

  const Shapes& shapes() const { return shapes_; }

 private:
  // Columns that are computed: an item with few tokens is narrower than its arrays could hold.
  static std::int64_t padded(std::int64_t cols) { return round_up(cols, kColumnMultiple); }

  // One kv head of 64 rows or fewer.
  struct Tile {
    std::int64_t seq = 0;
    std::int64_t kv_head = 0;
    std::int64_t cols = 0;
    std::int64_t start = 0;  // row
    std::int64_t rows = 0;
    bool ragged = false;  // some column does not see all rows
  };

  // `count` values of each of some rows, from value `first` of the row on; the values from `next` on will be
  // wanted soon. Rows of several kv heads are long, so the hardware does not guess what comes next.
  void load(const Tile& tile, std::int64_t from, std::int64_t rows, std::int64_t first, std::int64_t count,
            std::int64_t next, float* dst, std::int64_t stride) const {
    const std::int64_t value_bytes = kv_.row_bytes / kv_.shape.values();
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::byte* row = kv_row(kv_, batch_, tile.seq, tile.start + from + r);
      if (next >= 0) {
        for (std::int64_t b = 0; b < count * value_bytes; b += 64)
          __builtin_prefetch(row + next * value_bytes + b);
      }
      read_row_values(kv_, row, first, count, dst + r * stride);
    }
  }

  void run_tile(const Tile& tile, const Work& work, const SoftmaxState& state) const {
    const std::int64_t columns = padded(tile.cols);
    const std::int64_t key_first = tile.kv_head * heads_.key_dim;
    const std::int64_t value_first = shapes_.kv_heads * heads_.key_dim + tile.kv_head * heads_.value_dim;
    const std::int64_t next_key = tile.kv_head + 1 < shapes_.kv_heads ? key_first + heads_.key_dim : -1;
    for (std::int64_t from = 0; from < tile.rows; from += shapes_.piece_rows) {
      const std::int64_t rows = std::min(shapes_.piece_rows, tile.rows - from);
      load(tile, from, rows, key_first, heads_.key_dim, heads_.value_in_key ? -1 : value_first, work.keys,
           shapes_.key_stride);
      multiply_rows({.a = work.keys,
                     .a_stride = shapes_.key_stride,
                     .b = work.queries + tile.kv_head * heads_.key_dim * columns,
                     .b_stride = columns,
                     .c = work.scores + from * columns,
                     .c_stride = columns,
                     .rows = rows,
                     .cols = columns,
                     .depth = heads_.key_dim});
    }
    softmax_scores({.scores = work.scores,
                    .stride = columns,
                    .rows = tile.rows,
                    .cols = columns,
                    .visible = work.visible,
                    .scale = heads_.scale,
                    .decay = work.decay},
                   state);
    decay_outputs(work.decay, tile.cols, shapes_.value_width, state);
    for (std::int64_t from = 0; from < tile.rows; from += shapes_.piece_rows) {
      const std::int64_t rows = std::min(shapes_.piece_rows, tile.rows - from);
      if (!heads_.value_in_key) {
        load(tile, from, rows, value_first, heads_.value_dim, next_key, work.values, shapes_.value_stride);
      }
      add_values(tile, from, rows, work, state);
    }
  }

  // state.out += weights x values for rows [from, from + rows) of the tile.
  void add_values(const Tile& tile, std::int64_t from, std::int64_t rows, const Work& work,
                  const SoftmaxState& state) const {
    const std::int64_t columns = padded(tile.cols);
    const float* weights = work.scores + from * columns;
    BlockProduct product{.a = weights,
                         .a_stride = columns,
                         .b = work.values,
                         .b_stride = shapes_.value_stride,
                         .c = state.out,
                         .c_stride = state.out_stride,
                         .rows = tile.cols,
                         .cols = shapes_.value_width,
                         .depth = rows,
                         .first = false};
    // A row that only later tokens see has weight 0 for the earlier ones; but 0 x NaN would reach them.
    if (!tile.ragged || all_finite(work.values, shapes_.value_stride, rows, heads_.value_dim)) {
      multiply_columns(product);
      return;
    }
    product.rows = 1;
    for (std::int64_t c = 0; c < tile.cols; ++c) {
      product.a = weights + c;
      product.c = state.out + c * state.out_stride;
      product.depth = std::clamp<std::int64_t>(work.visible[c] - from, 0, rows);
      multiply_columns(product);
    }
  }

  const CachedHeads& heads_;
  Shapes shapes_;
  const Tensor& q_;
  const AttentionBatch& batch_;
  const KvLayer& kv_;
};

// Partial results that are kept at once when chunks of one item go to several threads.
std::int64_t partial_capacity(int threads) { return std::max<std::int64_t>(kMostChunks, 4 * threads); }

// Groups tokens of a sequence; those of one group have chunks of one size, so a group changes no bit.
std::int64_t make_groups(const AttentionBatch& batch, std::int64_t tokens_in_item, TokenGroup* groups) {
  std::int64_t count = 0;
  for (std::int32_t s = 0; s < batch.seqs; ++s) {
    for (std::int32_t t = batch.query_start[s]; t < batch.query_start[s + 1];) {
      const std::int64_t size = chunk_rows(batch.visible_rows[t]);
      std::int32_t most = batch.visible_rows[t];
      std::int32_t end = t + 1;
      while (end < batch.query_start[s + 1] && end - t < tokens_in_item &&
             chunk_rows(batch.visible_rows[end]) == size) {
        most = std::max(most, batch.visible_rows[end]);
        ++end;
      }
      groups[count++] = {.seq = s,
                         .first = t,
                         .count = end - t,
                         .chunks = static_cast<std::int32_t>((most + size - 1) / size)};
      t = end;
    }
  }
  return count;
}

}  // namespace

void reserve_cached(CachedScratch& scratch, int threads, std::int64_t tokens, const CachedHeads& heads) {
  const Shapes shapes(heads);
  scratch.threads.resize(static_cast<std::size_t>(threads));
  for (Scratch& thread : scratch.threads) thread.at_least(Work(Carver(nullptr), shapes, heads).bytes);
  scratch.items.at_least(static_cast<std::size_t>(tokens) * sizeof(TokenGroup));
  Carver one(nullptr);
  take_state(one, shapes);
  scratch.partials.at_least(one.used() * static_cast<std::size_t>(partial_capacity(threads)));
}

void cached_attention(ThreadPool& pool, CachedScratch& scratch, const CachedHeads& heads, const Tensor& q,
                      const AttentionBatch& batch, const KvLayer& kv, const Tensor& out, const Tensor& lse) {
  if (batch.tokens == 0) return;
  reserve_cached(scratch, pool.size(), batch.tokens, heads);
  const CachedCall call(heads, q, batch, kv);
  const Shapes& shapes = call.shapes();
  auto* groups = reinterpret_cast<TokenGroup*>(scratch.items.at_least(0));
  const std::int64_t items = make_groups(batch, shapes.tokens_in_item, groups);
  const auto work_of = [&](int thread) {
    return Work(Carver(scratch.threads[static_cast<std::size_t>(thread)].at_least(0)), shapes, heads);
  };

  if (pool.size() == 1 || items >= 2 * pool.size()) {
    pool.split(items, [&](ItemRange range, int thread) {
      const Work work = work_of(thread);
      for (std::int64_t item = range.first; item < range.last; ++item) {
        const TokenGroup& group = groups[item];
        call.load_queries(group, work);
        call.run_chunk(group, 0, work, work.joined);
        for (std::int64_t chunk = 1; chunk < group.chunks; ++chunk) {
          call.run_chunk(group, chunk, work, work.chunk);
          call.join(group, work.joined, work.chunk);
        }
        call.finish(group, work.joined, out, lse);
      }
    });
    return;
  }

  // Few items: their chunks are shared out, as many items at a time as the partial results have room for.
  Carver one(nullptr);
  take_state(one, shapes);
  std::byte* partials = scratch.partials.at_least(0);
  const auto partial = [&](std::int64_t index) {
    Carver carver(partials + one.used() * static_cast<std::size_t>(index));
    return take_state(carver, shapes);
  };
  const auto chunks_of = [&](std::int64_t item) { return std::max<std::int64_t>(1, groups[item].chunks); };
  for (std::int64_t first = 0; first < items;) {
    std::int64_t last = first;
    std::int64_t chunks = 0;
    while (last < items && chunks + chunks_of(last) <= partial_capacity(pool.size()))
      chunks += chunks_of(last++);
    pool.split(chunks, [&](ItemRange range, int thread) {
      const Work work = work_of(thread);
      std::int64_t base = 0;  // index of the item's first partial
      for (std::int64_t item = first; item < last; base += chunks_of(item++)) {
        const std::int64_t from = std::max(range.first, base);
        const std::int64_t to = std::min(range.last, base + chunks_of(item));
        if (from >= to) continue;
        call.load_queries(groups[item], work);
        for (std::int64_t i = from; i < to; ++i) call.run_chunk(groups[item], i - base, work, partial(i));
      }
    });
    std::int64_t base = 0;
    for (std::int64_t item = first; item < last; base += chunks_of(item++)) {
      const SoftmaxState joined = partial(base);
      for (std::int64_t i = 1; i < chunks_of(item); ++i) call.join(groups[item], joined, partial(base + i));
      call.finish(groups[item], joined, out, lse);
    }
    first = last;
  }
}

}  // namespace tessera
