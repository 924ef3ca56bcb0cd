#include <algorithm>
#include <limits>

#include "cuda/device_fixture.h"

namespace tessera::test {
namespace {

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kBF16, KvFormat::kFp8, KvFormat::kFp8Grouped};

class Attention : public OnGpu {
 protected:
  // The cache's pool on the device. The host's copy is what the CPU reads.
  KvLayer layer_of(const Cache& cache) {
    KvLayer layer = cache.layer;
    layer.data = upload(cache.bytes);
    return layer;
  }
  AttentionBatch batch_of(const Cache& cache, const Batch& batch) {
    AttentionBatch view = batch.view;
    view.query_start = upload(batch.query_start);
    view.positions = upload(batch.positions);
    view.visible_rows = upload(batch.visible);
    view.slots = upload(batch.slots);
    view.block_table = upload(cache.table);
    return view;
  }
  // Fills every row of a cache, in the CPU's memory.
  void fill(Cache& cache, const std::vector<std::int32_t>& lengths, float scale = 1) {
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      if (lengths[s] == 0) continue;
      std::vector<std::int64_t> slots;
      for (std::int32_t r = 0; r < lengths[s]; ++r) slots.push_back(cache.slot(s, r));
      write(*cpu_, cache.layer, slots, values(lengths[s] * cache.layer.shape.values(), scale), slots.data());
    }
  }
  void write(Backend& backend, const KvLayer& layer, const std::vector<std::int64_t>& slots,
             const std::vector<float>& source, const std::int64_t* device_slots) {
    const KvRowShape& shape = layer.shape;
    const auto rows = static_cast<std::int64_t>(slots.size());
    AttentionBatch batch;
    batch.tokens = static_cast<std::int32_t>(rows);
    batch.slots = device_slots;
    std::vector<float> host = source;
    const Tensor all = &backend == gpu_.get() ? upload_rows(source, rows, shape.values())
                                              : rows_of(host, rows, shape.values());
    if (shape.is_mla()) {
      backend.write_kv_mla(all.col_range(0, shape.latent), all.col_range(shape.latent, shape.rope), batch,
                           layer);
    } else {
      const std::int64_t width = std::int64_t{shape.kv_heads} * shape.head_dim;
      backend.write_kv_gqa(all.col_range(0, width), all.col_range(width, width), batch, layer);
    }
    backend.synchronise();
  }
  std::vector<std::byte> bytes_of_pool(const KvLayer& layer, const Cache& cache) {
    std::vector<std::byte> bytes(cache.bytes.size());
    gpu_->copy_to_host(bytes.data(), layer.data, bytes.size());
    gpu_->synchronise();
    return bytes;
  }
  void expect_lse(const Tensor& found, const std::vector<float>& want, double tolerance,
                  const std::string& what) {
    expect_lse(download(found), want, tolerance, what);
  }
  static void expect_lse(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                         const std::string& what) {
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (std::isinf(want[i])) {
        ASSERT_EQ(got[i], want[i]) << what << ", element " << i;
      } else {
        ASSERT_NEAR(got[i], want[i], tolerance) << what << ", element " << i;
      }
    }
  }

  void check_decode(KvFormat format, std::int32_t block_size, std::int64_t heads, std::int32_t latent,
                    std::int32_t rope, const std::vector<std::int32_t>& lengths,
                    const std::vector<std::int32_t>& queries) {
    Cache cache(random_, format, KvRowShape::mla(latent, rope), block_size, lengths);
    cache.layer.scale = format == KvFormat::kFp8 ? 0.37F : 1.0F;
    fill(cache, lengths);
    const Batch batch(cache, lengths, queries);
    const std::int64_t tokens = batch.view.tokens;
    std::vector<float> q = values(tokens * heads * (latent + rope), 0.5F);
    std::vector<float> want(static_cast<std::size_t>(tokens * heads * latent));
    std::vector<float> want_lse(static_cast<std::size_t>(tokens * heads));
    cpu_->mla_decode(rows_of(q, tokens, heads * (latent + rope)), heads, 0.1F, batch.view, cache.layer,
                     rows_of(want, tokens, heads * latent), rows_of(want_lse, tokens, heads));
    const Tensor out = result(tokens, heads * latent);
    const Tensor lse = poisoned(DType::kF32, tokens, heads);
    gpu_->mla_decode(upload_rows(q, tokens, heads * (latent + rope)), heads, 0.1F, batch_of(cache, batch),
                     layer_of(cache), out, lse);
    const std::string what = std::string(name_of(format)) + ", blocks of " + std::to_string(block_size) +
                             ", " + std::to_string(heads) + " heads, latent " + std::to_string(latent);
    EXPECT_EQ(far_row(download(out), want, latent, bound(1e-2, 2e-5)), "") << what;
    expect_lse(lse, want_lse, bound(1e-2, 2e-5), what);
    buffers_.clear();
  }

  // With gpu_ as it is, whose prefill is this card's own form, and again with the form of every card.
  template <class F>
  void with_both_forms(const F& check) {
    check("own form");
    if (exact()) return;
    if (other_ == nullptr) other_ = make({.portable = true});
    std::swap(gpu_, other_);
    check("portable form");
    std::swap(gpu_, other_);
  }

  struct PrefillCase {
    std::int64_t heads;
    std::int32_t latent, rope, nope, value;
  };
  static constexpr PrefillCase kWide = {.heads = 4, .latent = 512, .rope = 64, .nope = 128, .value = 128};

  // One prefill with its weights and queries, for both back-ends.
  struct Prefill {
    PrefillCase shape;
    std::vector<float> k_up, v_up, q;
  };
  Prefill prefill_of(const PrefillCase& c, std::int64_t tokens) {
    const float spread = 1.0F / std::sqrt(static_cast<float>(c.latent));
    return {.shape = c,
            .k_up = values(c.heads * c.nope * c.latent, spread),
            .v_up = values(c.heads * c.value * c.latent, spread),
            .q = values(tokens * c.heads * (c.nope + c.rope))};
  }
  struct Attended {
    std::vector<float> out;  // [tokens, heads * value]
    std::vector<float> lse;  // [tokens, heads]
  };
  static WeightStack stack_of(Backend& backend, const PrefillCase& c, std::int64_t out,
                              const std::vector<float>& w) {
    return backend.prepare_stack_f32(WeightFormat::kF32, c.heads, out, c.latent, w);
  }
  Attended on_cpu(Prefill& p, const Cache& cache, const Batch& batch) {
    const PrefillCase& c = p.shape;
    const std::int64_t tokens = batch.view.tokens;
    Attended found{.out = std::vector<float>(static_cast<std::size_t>(tokens * c.heads * c.value)),
                   .lse = std::vector<float>(static_cast<std::size_t>(tokens * c.heads))};
    cpu_->mla_prefill(rows_of(p.q, tokens, c.heads * (c.nope + c.rope)), c.heads, 0.12F, batch.view,
                      cache.layer, stack_of(*cpu_, c, c.nope, p.k_up), stack_of(*cpu_, c, c.value, p.v_up),
                      rows_of(found.out, tokens, c.heads * c.value), rows_of(found.lse, tokens, c.heads));
    return found;
  }
  Attended on_gpu(const Prefill& p, const Cache& cache, const Batch& batch) {
    const PrefillCase& c = p.shape;
    const std::int64_t tokens = batch.view.tokens;
    const Tensor out = result(tokens, c.heads * c.value);
    const Tensor lse = poisoned(DType::kF32, tokens, c.heads);
    const WeightStack k_up = stack_of(*gpu_, c, c.nope, p.k_up);
    const WeightStack v_up = stack_of(*gpu_, c, c.value, p.v_up);
    gpu_->mla_prefill(upload_rows(p.q, tokens, c.heads * (c.nope + c.rope)), c.heads, 0.12F,
                      batch_of(cache, batch), layer_of(cache), k_up, v_up, out, lse);
    Attended found{.out = download(out), .lse = download(lse)};
    buffers_.clear();
    return found;
  }
  void check_prefill(const PrefillCase& c, const Cache& cache, const Batch& batch) {
    Prefill p = prefill_of(c, batch.view.tokens);
    const Attended want = on_cpu(p, cache, batch);
    with_both_forms([&](const char* form) {
      const Attended got = on_gpu(p, cache, batch);
      const std::string what = std::string(form) + ", " + std::string(name_of(cache.layer.format)) + ", " +
                               std::to_string(c.heads) + " heads, nope " + std::to_string(c.nope);
      EXPECT_EQ(far_row(got.out, want.out, c.value, bound(1.5e-2, 3e-5)), "") << what;
      expect_lse(got.lse, want.lse, bound(2e-2, 3e-5), what);
    });
  }
  void check_prefill(KvFormat format, std::int32_t block_size, const PrefillCase& c,
                     const std::vector<std::int32_t>& lengths, const std::vector<std::int32_t>& queries) {
    Cache cache(random_, format, KvRowShape::mla(c.latent, c.rope), block_size, lengths);
    cache.layer.scale = format == KvFormat::kFp8 ? 0.37F : 1.0F;
    fill(cache, lengths);
    check_prefill(c, cache, Batch(cache, lengths, queries));
  }

  std::unique_ptr<Backend> other_;
};
INSTANTIATE_TEST_SUITE_P(Cuda, Attention, testing::Bool(),
                         [](const auto& exact) { return exact.param ? "f32" : "bf16"; });

TEST_P(Attention, RowsAreWrittenBitForBitAsTheCpuWritesThem) {
  for (const KvFormat format : kFormats) {
    for (const bool mla : {true, false}) {
      if (!mla && format == KvFormat::kFp8Grouped) continue;
      const KvRowShape shape = mla ? KvRowShape::mla(512, 64) : KvRowShape::gqa(3, 40);
      const std::vector<std::int32_t> lengths = {70};
      Cache cache(random_, format, shape, 16, lengths);
      cache.layer.scale = format == KvFormat::kFp8 ? 0.037F : 1.0F;  // some values saturate
      std::vector<float> source = values(70 * shape.values(), 8);
      for (std::size_t i = 0; i < static_cast<std::size_t>(shape.values()); ++i) source[i] = 0;  // row 0
      for (std::size_t i = 0; i < 200; ++i) source[static_cast<std::size_t>(shape.values()) + i] *= 0x1p-13F;
      std::vector<std::int64_t> slots;
      for (std::int32_t r = 0; r < 70; ++r) slots.push_back(r == 33 ? -1 : cache.slot(0, r));
      const KvLayer here = layer_of(cache);
      write(*cpu_, cache.layer, slots, source, slots.data());
      write(*gpu_, here, slots, source, upload(slots));
      EXPECT_TRUE(bytes_of_pool(here, cache) == cache.bytes) << name_of(format) << (mla ? " mla" : " gqa");
    }
  }
}

// Against the same device's separate calls, which are held against the CPU's above and in row_ops_test.cpp.
TEST_P(Attention, RowsAreStoredInOneCallAsInSeparateOnes) {
  const std::int64_t heads = 5;
  const std::vector<std::int32_t> lengths = {3, 70};
  const RopeTable angles = gpu_->prepare_rope(128, std::vector<float>(32, 0.37F), 1.1F);
  const VectorWeight norm = gpu_->prepare_vector(values(512));
  for (const KvFormat format : kFormats) {
    Cache cache(random_, format, KvRowShape::mla(512, 64), 16, lengths);
    cache.layer.scale = format == KvFormat::kFp8 ? 0.037F : 1.0F;
    Batch batch(cache, lengths, {2, 65});
    batch.slots[1] = -1;
    const std::int64_t tokens = batch.view.tokens;
    const AttentionBatch view = batch_of(cache, batch);
    const std::vector<float> x = values(tokens * 580);
    const std::vector<float> queries = values(tokens * heads * 192);
    struct Outcome {
      std::vector<float> latent, key, q, q_rotated;
      bool cache_holds_rows;
    };
    const auto outcome = [&](bool one_call, bool in_place) {
      const Tensor row = upload_rows(x, tokens, 580, 588);
      const Tensor q = upload_rows(queries, tokens * heads, 192);
      const Tensor absorbed = upload_rows(std::vector<float>(static_cast<std::size_t>(tokens * heads * 576)),
                                          tokens * heads, 576);
      const Tensor q_rope = q.col_range(128, 64);
      const MlaRows rows{.latent = row.col_range(0, 512),
                         .rope_key = row.col_range(512, 64),
                         .heads = heads,
                         .q_rope = q_rope,
                         .q_rotated = in_place ? q_rope : absorbed.col_range(512, 64)};
      const KvLayer layer = layer_of(cache);
      if (one_call) {
        gpu_->store_mla(rows, norm, 1e-6F, angles, view, layer);
      } else {
        gpu_->Backend::store_mla(rows, norm, 1e-6F, angles, view, layer);
      }
      // What the cache must hold now: the rows as they were left, written by the call that is tested above.
      const KvLayer again = layer_of(cache);
      gpu_->write_kv_mla(rows.latent, rows.rope_key, view, again);
      return Outcome{download(rows.latent), download(rows.rope_key), download(q), download(absorbed),
                     bytes_of_pool(layer, cache) == bytes_of_pool(again, cache)};
    };
    for (const bool in_place : {true, false}) {
      const Outcome found = outcome(true, in_place);
      const Outcome want = outcome(false, in_place);
      EXPECT_EQ(far_row(found.latent, want.latent, 512, bound(1e-3, 1e-6)), "") << name_of(format);
      EXPECT_EQ(far_row(found.key, want.key, 64, bound(1e-3, 1e-6)), "") << name_of(format);
      EXPECT_EQ(far_row(found.q_rotated, want.q_rotated, 576, bound(1e-3, 1e-6)), "") << name_of(format);
      if (in_place) {
        EXPECT_EQ(far_row(found.q, want.q, 192, bound(1e-3, 1e-6)), "") << name_of(format);
      }
      EXPECT_TRUE(found.cache_holds_rows) << name_of(format);
    }
    buffers_.clear();
  }
}

TEST_P(Attention, DecodeAgreesForEveryNumberOfHeads) {
  for (const KvFormat format : kFormats) {
    for (const std::int64_t heads : {1, 4, 8, 12, 16, 64, 128}) {
      if (heads > 16 && format != KvFormat::kBF16) continue;  // the reference is slow
      check_decode(format, 64, heads, 512, 64, {1, 63, 64, 65, 300}, {1, 1, 1, 1, 1});
    }
  }
}

TEST_P(Attention, DecodeAgreesForEveryNumberOfQueryTokensRaggedOrNot) {
  for (const KvFormat format : kFormats) {
    for (const std::int32_t q : {2, 5, 8}) check_decode(format, 64, 8, 512, 64, {64, 65, 130}, {q, q, q});
    check_decode(format, 64, 8, 512, 64, {64, 65, 130, 7, 500}, {1, 9, 0, 7, 100});
  }
}

TEST_P(Attention, DecodeAgreesForLongSequences) {
  check_decode(KvFormat::kBF16, 64, 4, 512, 64, {4097, 1, 64}, {1, 1, 1});
}

TEST_P(Attention, DecodeTakesShapesAndBlocksThatTheFastKernelsDoNot) {
  check_decode(KvFormat::kBF16, 16, 3, 512, 64, {100, 17}, {1, 2});
  check_decode(KvFormat::kF32, 1, 5, 40, 6, {100, 17}, {1, 2});
  check_decode(KvFormat::kFp8Grouped, 16, 2, 256, 32, {100, 17}, {3, 2});
}

TEST_P(Attention, NothingVisibleGivesZerosAndMinusInfinity) {
  const std::vector<std::int32_t> lengths = {0, 3, 0};
  for (const bool ragged : {false, true}) {
    Cache cache(random_, KvFormat::kBF16, KvRowShape::mla(512, 64), 64, lengths);
    fill(cache, lengths);
    Batch batch(cache, {1, 3, 3}, {0, 3, 0});
    batch.query_start =
        ragged ? std::vector<std::int32_t>{0, 1, 5, 6} : std::vector<std::int32_t>{0, 2, 4, 6};
    batch.visible =
        ragged ? std::vector<std::int32_t>{0, 0, 0, 1, 3, 0} : std::vector<std::int32_t>{0, 0, 0, 3, 0, 0};
    batch.positions.assign(6, 9);
    batch.slots.assign(6, -1);
    batch.view.tokens = 6;
    batch.view.max_query = ragged ? 4 : 2;
    const std::int64_t heads = 8;
    const Tensor out = result(6, heads * 512);
    const Tensor lse = poisoned(DType::kF32, 6, heads);
    gpu_->mla_decode(upload_rows(values(6 * heads * 576), 6, heads * 576), heads, 0.1F,
                     batch_of(cache, batch), layer_of(cache), out, lse);
    const std::vector<float> got = download(out);
    const std::vector<float> sums = download(lse);
    for (std::size_t t = 0; t < 6; ++t) {
      EXPECT_EQ(std::isinf(sums[t * 8]), batch.visible[t] == 0) << t;
      EXPECT_EQ(std::all_of(got.begin() + static_cast<long>(t * 4096),
                            got.begin() + static_cast<long>(t * 4096 + 4096), [](float x) { return x == 0; }),
                batch.visible[t] == 0)
          << t;
    }
    for (const std::int32_t width : {64, 128}) {
      const PrefillCase c{.heads = heads, .latent = 512, .rope = 64, .nope = width, .value = width};
      const Prefill p = prefill_of(c, 6);
      with_both_forms([&](const char* form) {
        const Attended found = on_gpu(p, cache, batch);
        for (std::size_t t = 0; t < 6; ++t) {
          const float first = found.out[t * static_cast<std::size_t>(heads * width)];
          EXPECT_EQ(std::isinf(found.lse[t * 8]), batch.visible[t] == 0) << form << ", token " << t;
          EXPECT_EQ(first == 0, batch.visible[t] == 0) << form << ", token " << t;
          EXPECT_FALSE(std::isnan(first)) << form << ", token " << t;
        }
      });
    }
  }
}

TEST_P(Attention, PrefillAgreesForEveryFormatAndShape) {
  const std::vector<std::int32_t> lengths = {1, 63, 64, 65, 500, 129, 7, 300};
  const std::vector<std::int32_t> queries = {1, 63, 40, 65, 130, 0, 7, 300};
  for (const KvFormat format : kFormats) {
    check_prefill(format, 64, {.heads = 4, .latent = 512, .rope = 64, .nope = 128, .value = 128}, lengths,
                  queries);
    check_prefill(format, 16, {.heads = 3, .latent = 512, .rope = 64, .nope = 64, .value = 64}, lengths,
                  queries);
    check_prefill(format, 16, {.heads = 3, .latent = 128, .rope = 6, .nope = 20, .value = 24}, lengths,
                  queries);
  }
  for (const std::int64_t heads : {1, 8, 12, 16}) {
    check_prefill(KvFormat::kBF16, 64, {.heads = heads, .latent = 512, .rope = 64, .nope = 128, .value = 128},
                  {65, 200}, {65, 70});
  }
}

// A tile has 64 or 128 query tokens and 64 or 128 rows.
TEST_P(Attention, PrefillAgreesAtTheEdgesOfTiles) {
  const std::vector<std::int32_t> queries = {1, 63, 64, 65, 127, 128, 129, 257};
  for (const std::int32_t earlier : {0, 1, 63, 127, 128, 193}) {
    std::vector<std::int32_t> lengths = queries;
    for (std::int32_t& length : lengths) length += earlier;
    check_prefill(KvFormat::kBF16, 64, kWide, lengths, queries);
  }
  PrefillCase c = kWide;
  for (const std::int64_t heads : {1, 8, 64}) {
    c.heads = heads;
    check_prefill(KvFormat::kBF16, 64, c, {129, 128, 1}, {129, 65, 1});
  }
}

TEST_P(Attention, PrefillTakesAnyNumberOfRounds) {
  for (const PrefillCase& c : {PrefillCase{.heads = 2, .latent = 512, .rope = 64, .nope = 128, .value = 128},
                               PrefillCase{.heads = 2, .latent = 40, .rope = 6, .nope = 20, .value = 24}}) {
    check_prefill(KvFormat::kBF16, 64, c, {4097, 100, 9000, 4096, 64}, {130, 100, 65, 3, 64});
  }
  // A later round that only some tokens see, and a whole tile of others does not.
  PrefillCase c = kWide;
  c.heads = 1;
  check_prefill(KvFormat::kBF16, 64, c, {4300, 8193}, {400, 2});
}

// What a rank of a context-parallel group holds of a sequence: fewer rows than tokens before it, some none.
TEST_P(Attention, PrefillTakesAnyNumberOfVisibleRows) {
  const std::vector<std::int32_t> lengths = {4200, 333, 140};
  const std::vector<std::int32_t> queries = {300, 333, 140};
  Cache cache(random_, KvFormat::kBF16, KvRowShape::mla(512, 64), 64, lengths);
  fill(cache, lengths);
  Batch batch(cache, lengths, queries);
  for (std::size_t t = 0; t < batch.visible.size(); ++t) {
    batch.visible[t] = t % 7 == 3 ? 0 : static_cast<std::int32_t>(random_.whole(0, batch.visible[t]));
  }
  for (std::size_t t = 640; t < batch.visible.size(); ++t) batch.visible[t] = 0;  // nothing of a whole tile
  PrefillCase c = kWide;
  c.heads = 2;
  check_prefill(c, cache, batch);
}

TEST_P(Attention, PrefillKeepsANanInsideItsSequence) {
  const std::vector<std::int32_t> lengths = {65, 100, 193};
  Cache cache(random_, KvFormat::kBF16, KvRowShape::mla(512, 64), 64, lengths);
  fill(cache, lengths);
  const Batch batch(cache, lengths, lengths);
  const Prefill p = prefill_of(kWide, batch.view.tokens);
  with_both_forms([&](const char* form) {
    const Attended clean = on_gpu(p, cache, batch);
    Cache broken = cache;
    std::fill_n(broken.bytes.begin() + cache.slot(1, 70) * cache.layer.row_bytes, cache.layer.row_bytes,
                std::byte{0xff});
    const Attended found = on_gpu(p, broken, batch);
    const auto width = static_cast<std::size_t>(kWide.heads * kWide.value);
    for (std::size_t t = 0; t < static_cast<std::size_t>(batch.view.tokens); ++t) {
      const std::vector<float> row(found.out.begin() + static_cast<long>(t * width),
                                   found.out.begin() + static_cast<long>((t + 1) * width));
      if (t < 65 || t >= 165) {
        ASSERT_TRUE(std::equal(row.begin(), row.end(), clean.out.begin() + static_cast<long>(t * width)))
            << form << ", token " << t;
      } else if (t >= 65 + 70) {
        ASSERT_TRUE(std::all_of(row.begin(), row.end(), [](float x) { return std::isnan(x); }))
            << form << ", token " << t;
      }
    }
    // Nothing of it stays in scratch.
    const Attended again = on_gpu(p, cache, batch);
    EXPECT_EQ(again.out, clean.out) << form;
    EXPECT_EQ(again.lse, clean.lse) << form;
  });
}

TEST_P(Attention, GroupedQueriesAgree) {
  struct Case {
    std::int64_t heads;
    std::int32_t kv_heads, head_dim;
  };
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kBF16, KvFormat::kFp8}) {
    for (const Case& c :
         {Case{8, 2, 64}, Case{4, 4, 128}, Case{32, 8, 128}, Case{2, 1, 256}, Case{3, 1, 40}}) {
      const std::vector<std::int32_t> lengths = {1, 63, 64, 65, 500, 7};
      Cache cache(random_, format, KvRowShape::gqa(c.kv_heads, c.head_dim), 16, lengths);
      cache.layer.scale = format == KvFormat::kFp8 ? 0.37F : 1.0F;
      fill(cache, lengths);
      const Batch batch(cache, lengths, {1, 2, 64, 1, 3, 0});
      const std::int64_t tokens = batch.view.tokens;
      std::vector<float> q = values(tokens * c.heads * c.head_dim);
      std::vector<float> want(q.size());
      std::vector<float> want_lse(static_cast<std::size_t>(tokens * c.heads));
      cpu_->gqa_attention(rows_of(q, tokens, c.heads * c.head_dim), c.heads, 0.1F, batch.view, cache.layer,
                          rows_of(want, tokens, c.heads * c.head_dim), rows_of(want_lse, tokens, c.heads));
      const Tensor out = result(tokens, c.heads * c.head_dim);
      const Tensor lse = poisoned(DType::kF32, tokens, c.heads);
      gpu_->gqa_attention(upload_rows(q, tokens, c.heads * c.head_dim), c.heads, 0.1F, batch_of(cache, batch),
                          layer_of(cache), out, lse);
      EXPECT_EQ(far_row(download(out), want, c.head_dim, bound(4e-3, 2e-5)), "") << name_of(format);
      expect_lse(lse, want_lse, 2e-5, std::string(name_of(format)));
    }
  }
}

}  // namespace
}  // namespace tessera::test
