// No operation allocates once reserve() has been called: every operator new and aligned_alloc of the process
// counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/test_data.h"
#include "base/slowdown.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
void note() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

// new and delete are both malloc's here; g++ sees only half of that under some sanitizers.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t bytes) {
  note();
  if (void* data = std::malloc(bytes)) return data;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  note();
  return std::malloc(bytes);
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }

// The back-end's own scratch comes from here.
extern "C" void* aligned_alloc(std::size_t align, std::size_t bytes) noexcept {
  note();
  void* data = nullptr;
  return posix_memalign(&data, align, bytes) == 0 ? data : nullptr;
}

namespace tessera {
namespace {

using test::Batch;
using test::Cache;
using test::Random;
using test::rows_of;

template <class Call>
int allocations_of(const Call& call) {
  allocations = 0;
  counting = true;
  call();
  counting = false;
  return allocations;
}

TEST(Allocation, TheCounterSeesOperatorNewAndAlignedAlloc) {
  if (kThreadSanitized) GTEST_SKIP() << "operator new is the sanitizer's";
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(8)); }), 1);
  EXPECT_GE(allocations_of([] { (void)make_cpu_backend({.threads = 1})->allocate(1000); }), 2);
}

TEST(Allocation, NoOperationAllocatesAfterReserve) {
  Random random(1);
  const auto backend = make_cpu_backend({.threads = 3});
  const std::int64_t heads = 4, latent = 128, rope = 16, nope = 32, value = 32, hidden = 96, width = 64,
                     vocab = 3000;
  const std::int64_t experts = 8, top_k = 2, tokens = 300;
  const std::vector<std::int32_t> lengths = {300, 5000, 1};
  const std::vector<std::int32_t> queries = {250, 49, 1};
  Cache mla(random, KvFormat::kFp8Grouped, KvRowShape::mla(latent, rope), 16, lengths);
  Cache gqa(random, KvFormat::kBF16, KvRowShape::gqa(2, 64), 16, lengths);
  std::fill(mla.bytes.begin(), mla.bytes.end(), std::byte{0x3f});
  std::fill(gqa.bytes.begin(), gqa.bytes.end(), std::byte{0x3f});
  const Batch batch(mla, lengths, queries);
  const Batch gqa_batch(gqa, lengths, queries);

  const test::OwnedMatrix matrix = test::random_matrix(random, WeightFormat::kBF16, vocab, hidden);
  const Weight weight = backend->prepare({&matrix.view, 1});
  const test::OwnedMatrix gate_up_matrix =
      test::random_matrix(random, WeightFormat::kInt4Group32, 2 * width, hidden);
  const test::OwnedMatrix down_matrix =
      test::random_matrix(random, WeightFormat::kInt4Group32, hidden, width);
  const auto same = [](const test::OwnedMatrix& m) {
    return [&m](std::int64_t) { return std::vector<HostMatrix>{m.view}; };
  };
  const WeightStack gate_up = backend->prepare_stack(experts, same(gate_up_matrix));
  const WeightStack down = backend->prepare_stack(experts, same(down_matrix));
  const WeightStack k_up = backend->prepare_stack_f32(WeightFormat::kBF16, heads, nope, latent,
                                                      random.normals(heads * nope * latent));
  const VectorWeight norm = backend->prepare_vector(random.normals(hidden));
  const VectorWeight bias = backend->prepare_vector(random.normals(experts));
  const RopeTable table = backend->prepare_rope(5000, random.normals(8), 1.0F);

  std::vector<float> x = random.normals(tokens * hidden), y(x.size()),
                     logits = random.normals(tokens * vocab);
  std::vector<float> q = random.normals(tokens * heads * (latent + rope)), out(q.size()),
                     lse(static_cast<std::size_t>(tokens * heads));
  std::vector<float> scores = random.normals(tokens * experts), mix(static_cast<std::size_t>(tokens * top_k));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * top_k)),
      words(static_cast<std::size_t>(tokens), 5);
  std::vector<SamplingRow> rows(static_cast<std::size_t>(tokens),
                                {.top_k = 50, .top_p = 0.9F, .repetition_penalty = 1.1F});
  std::vector<SampledToken> sampled(rows.size());
  const std::vector<float> draft_probs(static_cast<std::size_t>(vocab), 1.0F / static_cast<float>(vocab));
  const std::vector<DraftDraw> drafts(rows.size(),
                                      {.token = 3, .prob = draft_probs.front(), .probs = draft_probs});
  std::vector<BestLogit> best(rows.size());
  const std::vector<std::int32_t> prompt = {1, 2, 3};
  for (SamplingRow& row : rows) row.prompt_tokens = prompt;

  backend->reserve({.tokens = tokens,
                    .seqs = 3,
                    .heads = heads,
                    .head_dim = latent + rope,
                    .kv_tokens = 5000,
                    .vocab = vocab,
                    .width = vocab,
                    .top_k = top_k,
                    .gate_up = 2 * width});
  const Tensor no_lse;
  EXPECT_EQ(
      allocations_of([&] {
        for (const std::int64_t n : {tokens, std::int64_t{1}, std::int64_t{2}}) {
          const Tensor xs = rows_of(x, n, hidden), ys = rows_of(y, n, hidden);
          backend->embed(words.data(), weight, 0, xs);
          backend->rms_norm(xs, norm, 1e-6F, ys);
          backend->add_rms_norm(xs, ys, norm, 1e-6F, ys);
          backend->add(xs, ys, ys);
          backend->linear(xs, weight, rows_of(logits, n, vocab));
          backend->linear_heads(rows_of(q, n, heads * latent), latent, k_up, rows_of(out, n, heads * nope),
                                nope);
          backend->silu_mul(rows_of(q, n, 2 * width), rows_of(out, n, width));
          backend->copy(xs, ys);
          backend->gather_rows(xs, std::vector<std::int32_t>().data(), ys.row_range(0, 0));
          backend->route_experts(rows_of(scores, n, experts), bias, {.top_k = top_k}, rows_of(ids, n, top_k),
                                 rows_of(mix, n, top_k));
          backend->moe(xs, rows_of(ids, n, top_k), rows_of(mix, n, top_k), 0, gate_up, down, ys);
          backend->sample(rows_of(logits, n, vocab), {rows.data(), static_cast<std::size_t>(n)},
                          {sampled.data(), static_cast<std::size_t>(n)});
          backend->verify(rows_of(logits, n, vocab), {rows.data(), static_cast<std::size_t>(n)},
                          {drafts.data(), static_cast<std::size_t>(n)},
                          {sampled.data(), static_cast<std::size_t>(n)});
          backend->argmax_shard(rows_of(logits, n, vocab), 0, best.data());
          backend->merge_argmax(best.data(), 1, n, nullptr, words.data());
        }
        backend->rope(rows_of(q, tokens, heads * (latent + rope)), heads, latent + rope,
                      batch.positions.data(), table, RopePairs::kInterleaved);
        backend->write_kv_mla(rows_of(q, tokens, latent), rows_of(q, tokens, rope), batch.view, mla.layer);
        backend->mla_decode(rows_of(q, tokens, heads * (latent + rope)), heads, 0.1F, batch.view, mla.layer,
                            rows_of(out, tokens, heads * latent), rows_of(lse, tokens, heads));
        backend->mla_prefill(rows_of(q, tokens, heads * (nope + rope)), heads, 0.1F, batch.view, mla.layer,
                             k_up, k_up, rows_of(out, tokens, heads * value), no_lse);
        backend->write_kv_gqa(rows_of(q, tokens, 128), rows_of(q, tokens, 128), gqa_batch.view, gqa.layer);
        backend->gqa_attention(rows_of(q, tokens, heads * 64), heads, 0.1F, gqa_batch.view, gqa.layer,
                               rows_of(out, tokens, heads * 64), no_lse);
        // One long sequence alone: its chunks go to several threads.
        AttentionBatch one = batch.view;
        const std::int32_t start[] = {0, 1};
        one.seqs = one.tokens = one.max_query = 1;
        one.query_start = start;
        one.visible_rows = batch.visible.data() + 298;
        one.block_table = mla.table.data() + mla.max_blocks;
        backend->mla_decode(rows_of(q, 1, heads * (latent + rope)), heads, 0.1F, one, mla.layer,
                            rows_of(out, 1, heads * latent), rows_of(lse, 1, heads));
      }),
      0);
}

TEST(Allocation, ReserveSaysHowMuchItHoldsAndASmallerOneKeepsIt) {
  const auto backend = make_cpu_backend({.threads = 2});
  const std::size_t large =
      backend->reserve({.tokens = 100, .heads = 8, .head_dim = 576, .vocab = 4096, .width = 512, .top_k = 4});
  EXPECT_GT(large, 100U * 4 * 512 * 4);
  EXPECT_EQ(backend->reserve({.tokens = 1, .heads = 8, .head_dim = 64, .vocab = 10, .width = 16, .top_k = 1}),
            large);
}

}  // namespace
}  // namespace tessera
