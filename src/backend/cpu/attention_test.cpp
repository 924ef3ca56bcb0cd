#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/test_data.h"

namespace tessera {
namespace {

using test::Batch;
using test::Cache;
using test::Random;
using test::rows_of;

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Scores of some units, rounded to f32, then exponentials of them.
constexpr double kTolerance = 2e-5;

using Rows = std::vector<std::vector<double>>;  // [rows][dim]

struct Attended {
  std::vector<double> out;
  double lse = 0;
};

// One query over some keys and values, the textbook way.
Attended attend(const std::vector<double>& q, const Rows& keys, const Rows& values, std::size_t value_dim,
                double scale) {
  Attended result{.out = std::vector<double>(value_dim, 0.0), .lse = static_cast<double>(kNone)};
  if (keys.empty()) return result;
  std::vector<double> scores;
  for (const auto& key : keys) {
    double dot = 0;
    for (std::size_t i = 0; i < q.size(); ++i) dot += q[i] * key[i];
    scores.push_back(dot * scale);
  }
  const double peak = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (const double score : scores) total += std::exp(score - peak);
  for (std::size_t r = 0; r < keys.size(); ++r) {
    for (std::size_t i = 0; i < value_dim; ++i)
      result.out[i] += std::exp(scores[r] - peak) / total * values[r][i];
  }
  result.lse = peak + std::log(total);
  return result;
}

// What a reader of the format must see, decoded from the row's bytes by the format's definition.
std::vector<double> decode(const KvLayer& kv, std::int64_t slot) {
  const auto* row = static_cast<const std::uint8_t*>(kv.data) + slot * kv.row_bytes;
  std::vector<double> values;
  const auto bf16_at = [&](std::int64_t offset) {
    BF16 value;
    std::memcpy(&value.bits, row + offset, 2);
    return static_cast<double>(static_cast<float>(value));
  };
  const auto fp8_at = [&](std::int64_t offset) {
    F8E4M3 value;
    value.bits = row[offset];
    return static_cast<double>(static_cast<float>(value));
  };
  for (std::int64_t i = 0; i < kv.shape.values(); ++i) {
    switch (kv.format) {
      case KvFormat::kF32: {
        float value = 0;
        std::memcpy(&value, row + i * 4, 4);
        values.push_back(static_cast<double>(value));
        break;
      }
      case KvFormat::kBF16:
        values.push_back(bf16_at(i * 2));
        break;
      case KvFormat::kFp8:
        values.push_back(fp8_at(i) * static_cast<double>(kv.scale));
        break;
      case KvFormat::kFp8Grouped: {
        const std::int64_t latent = kv.shape.latent;
        if (i < latent) {
          float scale = 0;
          std::memcpy(&scale, row + latent + i / 128 * 4, 4);
          values.push_back(fp8_at(i) * static_cast<double>(scale));
        } else {
          values.push_back(bf16_at(latent + latent / 128 * 4 + (i - latent) * 2));
        }
        break;
      }
    }
  }
  return values;
}

// Writes rows [from, to) of sequence `seq` from `source` [rows, values].
void write_rows(Backend& backend, const Cache& cache, std::size_t seq, std::int32_t from, std::int32_t to,
                std::vector<float>& source) {
  const KvRowShape& shape = cache.layer.shape;
  std::vector<std::int64_t> slots;
  for (std::int32_t r = from; r < to; ++r) slots.push_back(cache.slot(seq, r));
  AttentionBatch batch;
  batch.tokens = to - from;
  batch.slots = slots.data();
  const Tensor all =
      rows_of(source, static_cast<std::int64_t>(source.size()) / shape.values(), shape.values());
  const Tensor rows = all.row_range(from, to - from);
  if (shape.is_mla()) {
    backend.write_kv_mla(rows.col_range(0, shape.latent), rows.col_range(shape.latent, shape.rope), batch,
                         cache.layer);
  } else {
    const std::int64_t width = std::int64_t{shape.kv_heads} * shape.head_dim;
    backend.write_kv_gqa(rows.col_range(0, width), rows.col_range(width, width), batch, cache.layer);
  }
}

void fill(Backend& backend, Random& random, const Cache& cache, const std::vector<std::int32_t>& lengths) {
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    std::vector<float> source = random.normals(lengths[s] * cache.layer.shape.values());
    if (lengths[s] > 0) write_rows(backend, cache, s, 0, lengths[s], source);
  }
}

Rows cached_rows(const Cache& cache, std::size_t seq, std::int32_t visible) {
  Rows rows;
  for (std::int32_t r = 0; r < visible; ++r) rows.push_back(decode(cache.layer, cache.slot(seq, r)));
  return rows;
}

std::vector<double> slice(const std::vector<float>& values, std::int64_t first, std::int64_t count) {
  return {values.begin() + first, values.begin() + first + count};
}

Rows columns(const Rows& rows, std::int64_t first, std::int64_t count) {
  Rows some;
  for (const auto& row : rows) some.emplace_back(row.begin() + first, row.begin() + first + count);
  return some;
}

const std::vector<std::int32_t> kLengths = {1, 63, 64, 65, 500, 129, 7};
const std::vector<std::int32_t> kQueries = {1, 2, 1, 3, 8, 0, 7};

struct Case {
  KvFormat format;
  std::int32_t block_size;
};
const std::vector<Case> kCases = {
    {KvFormat::kF32, 64}, {KvFormat::kF32, 1},         {KvFormat::kF32, 16},      {KvFormat::kBF16, 64},
    {KvFormat::kFp8, 16}, {KvFormat::kFp8Grouped, 64}, {KvFormat::kFp8Grouped, 1}};

TEST(MlaDecode, AgreesWithF64OverEveryFormatAndBlockSize) {
  Random random(1);
  const auto backend = make_cpu_backend({.threads = 2});
  for (const Case& c : kCases) {
    for (const std::int64_t heads : {1, 8, 33}) {
      if (heads != 8 && (c.format != KvFormat::kF32 || c.block_size != 64))
        continue;  // the reference is slow
      const std::int64_t latent = c.format == KvFormat::kFp8Grouped ? 256 : 40;
      const std::int64_t rope = 6;
      const std::int64_t dim = latent + rope;
      Cache cache(random, c.format,
                  KvRowShape::mla(static_cast<std::int32_t>(latent), static_cast<std::int32_t>(rope)),
                  c.block_size, kLengths);
      cache.layer.scale = c.format == KvFormat::kFp8 ? 0.37F : 1.0F;
      fill(*backend, random, cache, kLengths);
      const Batch batch(cache, kLengths, kQueries);
      const std::int64_t tokens = batch.view.tokens;
      std::vector<float> q = random.normals(tokens * heads * dim);
      std::vector<float> out(static_cast<std::size_t>(tokens * heads * latent));
      std::vector<float> lse(static_cast<std::size_t>(tokens * heads));
      const float scale = 0.1F;
      backend->mla_decode(rows_of(q, tokens, heads * dim), heads, scale, batch.view, cache.layer,
                          rows_of(out, tokens, heads * latent), rows_of(lse, tokens, heads));
      std::vector<double> want, want_lse;
      for (std::size_t s = 0; s < kLengths.size(); ++s) {
        for (std::int32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) {
          const Rows keys = cached_rows(cache, s, batch.visible[static_cast<std::size_t>(t)]);
          for (std::int64_t h = 0; h < heads; ++h) {
            const Attended one = attend(slice(q, (t * heads + h) * dim, dim), keys, keys,
                                        static_cast<std::size_t>(latent), static_cast<double>(scale));
            want.insert(want.end(), one.out.begin(), one.out.end());
            want_lse.push_back(one.lse);
          }
        }
      }
      EXPECT_EQ(test::first_difference(out, want, heads * latent, kTolerance), "")
          << name_of(c.format) << " blocks of " << c.block_size << ", heads " << heads;
      EXPECT_EQ(test::first_difference(lse, want_lse, heads, kTolerance), "") << name_of(c.format);
    }
  }
}

TEST(MlaDecode, GivesATokenTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  Random random(2);
  const std::int64_t heads = 5, latent = 64, dim = 80;
  const std::vector<std::int32_t> lengths = {4500, 300, 70, 1, 4097};
  const auto one = make_cpu_backend({.threads = 1});
  Cache cache(random, KvFormat::kBF16, KvRowShape::mla(64, 16), 16, lengths);
  fill(*one, random, cache, lengths);
  const Batch all(cache, lengths, {9, 9, 9, 1, 5});
  const std::int64_t tokens = all.view.tokens;
  std::vector<float> q = random.normals(tokens * heads * dim);
  std::vector<float> alone(static_cast<std::size_t>(tokens * heads * latent));
  std::vector<float> lse_alone(static_cast<std::size_t>(tokens * heads));
  // Each token as a batch of its own.
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    for (std::int32_t t = all.query_start[s]; t < all.query_start[s + 1]; ++t) {
      const std::int32_t start[] = {0, 1};
      AttentionBatch single = all.view;
      single.seqs = single.tokens = single.max_query = 1;
      single.query_start = start;
      single.positions += t;
      single.visible_rows += t;
      single.block_table += static_cast<std::int32_t>(s) * cache.max_blocks;
      one->mla_decode(rows_of(q, tokens, heads * dim).row_range(t, 1), heads, 0.1F, single, cache.layer,
                      rows_of(alone, tokens, heads * latent).row_range(t, 1),
                      rows_of(lse_alone, tokens, heads).row_range(t, 1));
    }
  }
  for (const int threads : {1, 2, 3, 16, 64}) {
    const auto backend = make_cpu_backend({.threads = threads});
    std::vector<float> out(alone.size());
    std::vector<float> lse(lse_alone.size());
    backend->mla_decode(rows_of(q, tokens, heads * dim), heads, 0.1F, all.view, cache.layer,
                        rows_of(out, tokens, heads * latent), rows_of(lse, tokens, heads));
    EXPECT_EQ(test::first_bit_difference(out.data(), alone.data(), tokens * heads * latent), "") << threads;
    EXPECT_EQ(test::first_bit_difference(lse.data(), lse_alone.data(), tokens * heads), "") << threads;
  }
}

TEST(MlaDecode, GivesZerosAndMinusInfinityWhereNothingIsVisible) {
  Random random(3);
  const auto backend = make_cpu_backend({.threads = 2});
  const std::vector<std::int32_t> lengths = {0, 3, 0};
  Cache cache(random, KvFormat::kF32, KvRowShape::mla(32, 8), 16, lengths);
  fill(*backend, random, cache, lengths);
  Batch batch(cache, {1, 3, 3}, {0, 3, 0});
  // Sequence 0 and 2 own no rows here; sequence 1's first token sees none either (its rows are on other
  // ranks).
  batch.query_start = {0, 2, 5, 6};
  batch.visible = {0, 0, 0, 1, 3, 0};
  batch.positions.assign(6, 9);
  batch.view.query_start = batch.query_start.data();
  batch.view.visible_rows = batch.visible.data();
  batch.view.positions = batch.positions.data();
  batch.view.tokens = 6;
  std::vector<float> q = random.normals(6 * 2 * 40);
  std::vector<float> out(6 * 2 * 32, 9.0F);
  std::vector<float> lse(6 * 2, 9.0F);
  backend->mla_decode(rows_of(q, 6, 80), 2, 0.3F, batch.view, cache.layer, rows_of(out, 6, 64),
                      rows_of(lse, 6, 2));
  for (std::size_t t = 0; t < 6; ++t) {
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(lse[t * 2 + i] == kNone, batch.visible[t] == 0) << t;
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(out[t * 64 + i] == 0.0F, batch.visible[t] == 0) << t;
  }
}

TEST(MlaDecode, ANaNRowReachesOnlyTokensThatSeeIt) {
  Random random(4);
  const auto backend = make_cpu_backend({.threads = 1});
  const std::vector<std::int32_t> lengths = {70};
  Cache cache(random, KvFormat::kF32, KvRowShape::mla(32, 8), 16, lengths);
  fill(*backend, random, cache, lengths);
  std::vector<float> bad(70 * 40, std::numeric_limits<float>::quiet_NaN());
  write_rows(*backend, cache, 0, 67, 68, bad);
  const Batch batch(cache, lengths, {6});  // positions 64 to 69
  std::vector<float> q = random.normals(6 * 2 * 40);
  std::vector<float> out(6 * 2 * 32);
  backend->mla_decode(rows_of(q, 6, 80), 2, 0.3F, batch.view, cache.layer, rows_of(out, 6, 64), {});
  for (std::size_t t = 0; t < 6; ++t) {
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(out[t * 64 + i]), t >= 3) << t << ' ' << i;
  }
}

TEST(MlaPrefill, AgreesWithF64OverEveryFormatAndBlockSize) {
  Random random(5);
  const auto backend = make_cpu_backend({.threads = 2});
  const std::int64_t heads = 3, nope = 20, value = 24;
  for (const Case& c : kCases) {
    const std::int64_t latent = c.format == KvFormat::kFp8Grouped ? 128 : 40;
    const std::int64_t rope = 6;
    const std::int64_t dim = nope + rope;
    const std::vector<std::int32_t> queries = {1, 63, 40, 65, 130, 0, 7};
    Cache cache(random, c.format,
                KvRowShape::mla(static_cast<std::int32_t>(latent), static_cast<std::int32_t>(rope)),
                c.block_size, kLengths);
    cache.layer.scale = c.format == KvFormat::kFp8 ? 0.37F : 1.0F;
    fill(*backend, random, cache, kLengths);
    std::vector<float> k_values = random.normals(heads * nope * latent, 0.15F);
    std::vector<float> v_values = random.normals(heads * value * latent, 0.15F);
    const WeightStack k_up = backend->prepare_stack_f32(WeightFormat::kF32, heads, nope, latent, k_values);
    const WeightStack v_up = backend->prepare_stack_f32(WeightFormat::kF32, heads, value, latent, v_values);
    const Batch batch(cache, kLengths, queries);
    const std::int64_t tokens = batch.view.tokens;
    std::vector<float> q = random.normals(tokens * heads * dim);
    std::vector<float> out(static_cast<std::size_t>(tokens * heads * value));
    std::vector<float> lse(static_cast<std::size_t>(tokens * heads));
    const float scale = 0.2F;
    backend->mla_prefill(rows_of(q, tokens, heads * dim), heads, scale, batch.view, cache.layer, k_up, v_up,
                         rows_of(out, tokens, heads * value), rows_of(lse, tokens, heads));
    std::vector<double> want(out.size()), want_lse(lse.size());
    for (std::size_t s = 0; s < kLengths.size(); ++s) {
      const Rows cached = cached_rows(cache, s, kLengths[s]);
      for (std::int64_t h = 0; h < heads; ++h) {
        Rows keys, values;
        for (const auto& row : cached) {
          std::vector<double> key, val;
          for (std::int64_t o = 0; o < nope + value; ++o) {
            const float* w = o < nope ? k_values.data() + (h * nope + o) * latent
                                      : v_values.data() + (h * value + o - nope) * latent;
            double sum = 0;
            for (std::int64_t l = 0; l < latent; ++l)
              sum += static_cast<double>(w[l]) * row[static_cast<std::size_t>(l)];
            (o < nope ? key : val).push_back(sum);
          }
          key.insert(key.end(), row.begin() + latent, row.end());
          keys.push_back(key);
          values.push_back(val);
        }
        for (std::int32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) {
          const auto visible = static_cast<std::size_t>(batch.visible[static_cast<std::size_t>(t)]);
          const Attended one = attend(slice(q, (t * heads + h) * dim, dim),
                                      {keys.begin(), keys.begin() + static_cast<long>(visible)}, values,
                                      static_cast<std::size_t>(value), static_cast<double>(scale));
          std::copy(one.out.begin(), one.out.end(), want.begin() + (t * heads + h) * value);
          want_lse[static_cast<std::size_t>(t * heads + h)] = one.lse;
        }
      }
    }
    EXPECT_EQ(test::first_difference(out, want, heads * value, kTolerance), "")
        << name_of(c.format) << " blocks of " << c.block_size;
    EXPECT_EQ(test::first_difference(lse, want_lse, heads, kTolerance), "") << name_of(c.format);
  }
}

TEST(MlaPrefill, ANaNRowReachesOnlyTokensThatSeeIt) {
  Random random(14);
  const auto backend = make_cpu_backend({.threads = 1});
  const std::vector<std::int32_t> lengths = {70};
  Cache cache(random, KvFormat::kF32, KvRowShape::mla(32, 8), 16, lengths);
  fill(*backend, random, cache, lengths);
  std::vector<float> bad(70 * 40, std::numeric_limits<float>::quiet_NaN());
  write_rows(*backend, cache, 0, 67, 68, bad);
  const std::vector<float> values = random.normals(2 * 16 * 32, 0.2F);
  const WeightStack up = backend->prepare_stack_f32(WeightFormat::kF32, 2, 16, 32, values);
  const Batch batch(cache, lengths, {70});
  std::vector<float> q = random.normals(70 * 2 * 24);
  std::vector<float> out(70 * 2 * 16);
  backend->mla_prefill(rows_of(q, 70, 48), 2, 0.3F, batch.view, cache.layer, up, up, rows_of(out, 70, 32),
                       {});
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 32 >= 67) << i / 32;
}

TEST(MlaPrefill, GivesATokenTheSameBitsHoweverThePromptIsCut) {
  Random random(6);
  const std::int64_t heads = 2, nope = 16, value = 16, latent = 32, dim = 24;
  const std::vector<std::int32_t> lengths = {1300, 65};
  const auto one = make_cpu_backend({.threads = 1});
  Cache cache(random, KvFormat::kF32, KvRowShape::mla(32, 8), 64, lengths);
  fill(*one, random, cache, lengths);
  std::vector<float> up = random.normals(heads * nope * latent, 0.2F);
  const WeightStack stack = one->prepare_stack_f32(WeightFormat::kBF16, heads, nope, latent, up);
  const std::int64_t tokens = 1300 + 65;
  std::vector<float> q = random.normals(tokens * heads * dim);
  std::vector<float> whole(static_cast<std::size_t>(tokens * heads * value));
  const Batch all(cache, lengths, lengths);
  one->mla_prefill(rows_of(q, tokens, heads * dim), heads, 0.2F, all.view, cache.layer, stack, stack,
                   rows_of(whole, tokens, heads * value), {});
  for (const int threads : {1, 3}) {
    const auto backend = make_cpu_backend({.threads = threads});
    std::vector<float> out(whole.size());
    // Pieces of sequence 0, with all of sequence 1 beside the second.
    for (std::int32_t from = 0; from < 1300;) {
      const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(1300 - from, random.whole(1, 400)));
      const bool both = from > 0 && from < 700;
      const Batch piece(cache, {from + count, 65}, {count, both ? 65 : 0});
      std::vector<float> q_piece(q.begin() + from * heads * dim, q.begin() + (from + count) * heads * dim);
      if (both) q_piece.insert(q_piece.end(), q.begin() + 1300 * heads * dim, q.end());
      std::vector<float> out_piece(static_cast<std::size_t>(piece.view.tokens * heads * value));
      backend->mla_prefill(rows_of(q_piece, piece.view.tokens, heads * dim), heads, 0.2F, piece.view,
                           cache.layer, stack, stack, rows_of(out_piece, piece.view.tokens, heads * value),
                           {});
      EXPECT_EQ(test::first_bit_difference(out_piece.data(), whole.data() + from * heads * value,
                                           count * heads * value),
                "")
          << "from " << from << " count " << count;
      if (both) {
        EXPECT_EQ(test::first_bit_difference(out_piece.data() + count * heads * value,
                                             whole.data() + 1300 * heads * value, 65 * heads * value),
                  "");
      }
      from += count;
    }
  }
}

TEST(GqaAttention, AgreesWithF64OverEveryFormatAndGroupSize) {
  Random random(7);
  const auto backend = make_cpu_backend({.threads = 2});
  const std::int64_t dim = 18;
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kBF16, KvFormat::kFp8}) {
    for (const auto& [heads, kv_heads] : {std::pair{4, 4}, {8, 2}, {35, 1}}) {
      Cache cache(random, format, KvRowShape::gqa(kv_heads, static_cast<std::int32_t>(dim)), 16, kLengths);
      fill(*backend, random, cache, kLengths);
      const Batch batch(cache, kLengths, kQueries);
      const std::int64_t tokens = batch.view.tokens;
      std::vector<float> q = random.normals(tokens * heads * dim);
      std::vector<float> out(q.size());
      std::vector<float> lse(static_cast<std::size_t>(tokens * heads));
      backend->gqa_attention(rows_of(q, tokens, heads * dim), heads, 0.25F, batch.view, cache.layer,
                             rows_of(out, tokens, heads * dim), rows_of(lse, tokens, heads));
      std::vector<double> want, want_lse;
      for (std::size_t s = 0; s < kLengths.size(); ++s) {
        for (std::int32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) {
          const Rows rows = cached_rows(cache, s, batch.visible[static_cast<std::size_t>(t)]);
          for (std::int64_t h = 0; h < heads; ++h) {
            const std::int64_t kv_head = h / (heads / kv_heads);
            const Attended one =
                attend(slice(q, (t * heads + h) * dim, dim), columns(rows, kv_head * dim, dim),
                       columns(rows, (kv_heads + kv_head) * dim, dim), static_cast<std::size_t>(dim), 0.25);
            want.insert(want.end(), one.out.begin(), one.out.end());
            want_lse.push_back(one.lse);
          }
        }
      }
      EXPECT_EQ(test::first_difference(out, want, heads * dim, kTolerance), "")
          << name_of(format) << " heads " << heads << " / " << kv_heads;
      EXPECT_EQ(test::first_difference(lse, want_lse, heads, kTolerance), "");
    }
  }
}

TEST(GqaAttention, GivesATokenTheSameBitsInAnyBatch) {
  Random random(8);
  const std::int64_t heads = 6, dim = 32;
  const std::vector<std::int32_t> lengths = {700, 256};
  const auto one = make_cpu_backend({.threads = 1});
  Cache cache(random, KvFormat::kF32, KvRowShape::gqa(3, 32), 64, lengths);
  fill(*one, random, cache, lengths);
  const Batch all(cache, lengths, lengths);
  const std::int64_t tokens = all.view.tokens;
  std::vector<float> q = random.normals(tokens * heads * dim);
  std::vector<float> whole(q.size());
  one->gqa_attention(rows_of(q, tokens, heads * dim), heads, 0.2F, all.view, cache.layer,
                     rows_of(whole, tokens, heads * dim), {});
  const auto three = make_cpu_backend({.threads = 3});
  for (const std::int32_t at : {0, 63, 64, 255, 256, 257, 699}) {
    const Batch single(cache, {at + 1, 256}, {1, 0});
    std::vector<float> q_one(q.begin() + at * heads * dim, q.begin() + (at + 1) * heads * dim);
    std::vector<float> out(q_one.size());
    three->gqa_attention(rows_of(q_one, 1, heads * dim), heads, 0.2F, single.view, cache.layer,
                         rows_of(out, 1, heads * dim), {});
    EXPECT_EQ(test::first_bit_difference(out.data(), whole.data() + at * heads * dim, heads * dim), "") << at;
  }
}

TEST(KvRows, PrefillAndDecodeWriteTheSameBytesAndLeaveOtherRowsAlone) {
  Random random(9);
  const auto backend = make_cpu_backend({.threads = 2});
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kBF16, KvFormat::kFp8, KvFormat::kFp8Grouped}) {
    Random same(10);
    Cache whole(same, format, KvRowShape::mla(512, 64), 64, {512});
    Random again(10);
    Cache single(again, format, KvRowShape::mla(512, 64), 64, {512});
    std::vector<float> source = random.normals(512 * 576, 3);
    write_rows(*backend, whole, 0, 0, 511, source);
    for (std::int32_t r = 0; r < 511; ++r) write_rows(*backend, single, 0, r, r + 1, source);
    EXPECT_EQ(whole.bytes, single.bytes) << name_of(format);
    const auto unwritten = whole.bytes.begin() + whole.slot(0, 511) * whole.layer.row_bytes;
    EXPECT_TRUE(std::all_of(unwritten, unwritten + whole.layer.row_bytes,
                            [](std::byte b) { return b == std::byte{0xff}; }));
  }
}

TEST(KvRows, StoreEachFormatAsItIsDefined) {
  Random random(11);
  const auto backend = make_cpu_backend({.threads = 1});
  for (const float scale : {1.0F, 0.25F, 3.7F}) {
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kBF16, KvFormat::kFp8, KvFormat::kFp8Grouped}) {
      Cache cache(random, format, KvRowShape::mla(512, 64), 16, {20});
      cache.layer.scale = scale;
      std::vector<float> source = random.normals(20 * 576, 2);
      source[5] = 1e6F;
      source[6] = -1e6F;
      for (std::size_t i = 128; i < 256; ++i) source[576 + i] = 0;  // an all-zero group in row 1
      write_rows(*backend, cache, 0, 0, 20, source);
      for (std::int32_t r = 0; r < 20; ++r) {
        const std::vector<double> stored = decode(cache.layer, cache.slot(0, r));
        for (std::size_t i = 0; i < 576; ++i) {
          const float x = source[static_cast<std::size_t>(r) * 576 + i];
          double want = static_cast<double>(x);
          if (format == KvFormat::kBF16 || (format == KvFormat::kFp8Grouped && i >= 512)) {
            want = static_cast<double>(static_cast<float>(BF16(x)));
          } else if (format == KvFormat::kFp8) {
            want = static_cast<double>(static_cast<float>(F8E4M3(x / scale))) * static_cast<double>(scale);
          } else if (format == KvFormat::kFp8Grouped) {
            float largest = 0;
            for (std::size_t j = i / 128 * 128; j < i / 128 * 128 + 128; ++j) {
              largest = std::max(largest, std::fabs(source[static_cast<std::size_t>(r) * 576 + j]));
            }
            // Half a step of e4m3 at the value, or of its subnormals.
            const double step = std::max(std::fabs(want) / 16, static_cast<double>(largest) / 448 / 1024);
            EXPECT_NEAR(stored[i], want, step * 1.0001) << r << ' ' << i;
            continue;
          }
          EXPECT_EQ(stored[i], want) << name_of(format) << ' ' << r << ' ' << i;
        }
      }
    }
  }
}

TEST(KvRows, ReadersAcceptAnyGroupScale) {
  Random random(12);
  const auto backend = make_cpu_backend({.threads = 1});
  Cache cache(random, KvFormat::kFp8Grouped, KvRowShape::mla(128, 8), 4, {1});
  std::vector<float> source = random.normals(136);
  write_rows(*backend, cache, 0, 0, 1, source);
  const float scale = 0.7133F;
  std::memcpy(cache.bytes.data() + cache.slot(0, 0) * cache.layer.row_bytes + 128, &scale, 4);
  const Batch batch(cache, {1}, {1});
  std::vector<float> q = random.normals(136);
  std::vector<float> out(128);
  backend->mla_decode(rows_of(q, 1, 136), 1, 1.0F, batch.view, cache.layer, rows_of(out, 1, 128), {});
  const std::vector<double> stored = decode(cache.layer, cache.slot(0, 0));
  EXPECT_EQ(test::first_difference(out, std::vector<double>(stored.begin(), stored.begin() + 128), 128, 1e-6),
            "");
}

TEST(KvRows, TokensWithoutASlotAreNotWritten) {
  Random random(13);
  const auto backend = make_cpu_backend({.threads = 1});
  Cache cache(random, KvFormat::kF32, KvRowShape::gqa(1, 8), 4, {4});
  const std::vector<std::byte> before = cache.bytes;
  const std::int64_t slots[] = {-1, -1};
  AttentionBatch batch;
  batch.tokens = 2;
  batch.slots = slots;
  std::vector<float> values = random.normals(16);
  backend->write_kv_gqa(rows_of(values, 2, 8), rows_of(values, 2, 8), batch, cache.layer);
  EXPECT_EQ(cache.bytes, before);
}

}  // namespace
}  // namespace tessera
