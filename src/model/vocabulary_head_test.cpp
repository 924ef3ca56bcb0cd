#include "model/vocabulary_head.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/test_seed.h"
#include "comm/thread_communicator.h"

namespace tessera {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Counts what a rank puts into a gather and what it gets out.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string name() const override { return inner_.name(); }
  void all_reduce(void* data, DType dtype, std::int64_t count) override {
    other_calls += 1;
    inner_.all_reduce(data, dtype, count);
  }
  void all_gather(const void* in, void* out, std::size_t bytes) override {
    received += static_cast<std::int64_t>(bytes) * size();
    inner_.all_gather(in, out, bytes);
  }
  void reduce_scatter(const void* in, void* out, DType dtype, std::int64_t count) override {
    other_calls += 1;
    inner_.reduce_scatter(in, out, dtype, count);
  }
  void all_to_all(const void* in, void* out, std::size_t bytes) override {
    other_calls += 1;
    inner_.all_to_all(in, out, bytes);
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    other_calls += 1;
    inner_.broadcast(data, bytes, root);
  }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int colour, const std::string& name) override {
    return inner_.split(colour, name);
  }

  std::int64_t received = 0;
  int other_calls = 0;

 private:
  Communicator& inner_;
};

struct Outcome {
  std::vector<std::vector<std::int32_t>> tokens;  // [ranks][rows]
  std::vector<std::int64_t> received;             // [ranks] bytes
};

// Rows of whole logits, shared out as VocabularyHead shares them, chosen by `ranks` ranks.
Outcome choose(const std::vector<std::vector<float>>& rows, int ranks,
               const std::vector<std::int32_t>& id_map = {}) {
  const auto vocab = static_cast<std::int64_t>(rows.front().size());
  const auto count = static_cast<std::int64_t>(rows.size());
  auto communicators = make_thread_communicators(ranks, "tp", std::chrono::milliseconds(20'000));
  Outcome outcome{.tokens = std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(ranks)),
                  .received = std::vector<std::int64_t>(static_cast<std::size_t>(ranks))};
  const auto work = [&](int rank) {
    CountingCommunicator tp(*communicators[static_cast<std::size_t>(rank)]);
    const Shard shard{.tp = ranks > 1 ? &tp : nullptr};
    const Share share = shard.padded(vocab);
    const auto backend = make_cpu_backend({.threads = 1});
    std::vector<float> local;
    for (const auto& row : rows) {
      local.insert(local.end(), row.begin() + share.first, row.begin() + share.first + share.count);
    }
    local.push_back(0);  // an empty share has an address too
    std::vector<BestLogit> own(rows.size()), gathered(rows.size() * static_cast<std::size_t>(ranks));
    std::vector<std::int32_t>& tokens = outcome.tokens[static_cast<std::size_t>(rank)];
    tokens.assign(rows.size(), -7);
    sharded_argmax(*backend, shard,
                   {.local = Tensor::dense(local.data(), DType::kF32, count, share.count),
                    .first_token = static_cast<std::int32_t>(share.first),
                    .id_map = id_map.empty() ? nullptr : id_map.data()},
                   {.own = own.data(), .gathered = gathered.data()}, tokens.data());
    EXPECT_EQ(tp.other_calls, 0);
    outcome.received[static_cast<std::size_t>(rank)] = tp.received;
  };
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back(work, r);
  threads.clear();
  return outcome;
}

TEST(ShardedArgmax, EqualsTheArgmaxOfTheWholeRowWithManyTies) {
  std::mt19937 random(test_seed());
  for (const int ranks : {1, 2, 3, 8}) {
    for (const std::size_t vocab : {1, 2, 7, 64, 65, 1000}) {
      std::vector<std::vector<float>> rows(20, std::vector<float>(vocab));
      std::vector<std::int32_t> expected;
      for (auto& row : rows) {
        for (float& x : row) x = static_cast<float>(random() % 5) - 10.0F;  // all below 0: padding would win
        expected.push_back(static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin()));
      }
      for (const auto& tokens : choose(rows, ranks).tokens) {
        EXPECT_EQ(tokens, expected) << ranks << " ranks, " << vocab << " tokens";
      }
    }
  }
}

TEST(ShardedArgmax, WhatRanksExchangeDoesNotGrowWithTheVocabulary) {
  for (const int ranks : {2, 4}) {
    for (const std::size_t vocab : {std::size_t{16}, std::size_t{100'000}}) {
      const std::vector<std::vector<float>> rows(3, std::vector<float>(vocab, 1.0F));
      for (const std::int64_t received : choose(rows, ranks).received) {
        EXPECT_EQ(received, 3 * argmax_exchange_bytes(ranks)) << vocab;
      }
    }
  }
  EXPECT_EQ(argmax_exchange_bytes(8), 64);
  EXPECT_EQ(argmax_exchange_bytes(1), 0);
}

TEST(ShardedArgmax, ANaNOnAnyRankOrARowOfNothingGivesNoToken) {
  std::vector<std::vector<float>> rows(4, std::vector<float>(10, 0.0F));
  rows[0][9] = kNaN;
  rows[1].assign(10, kNone);
  rows[2].assign(10, kNone);
  rows[2][7] = -3;
  rows[3][4] = std::numeric_limits<float>::infinity();
  for (const int ranks : {1, 2, 4}) {
    for (const auto& tokens : choose(rows, ranks).tokens) {
      EXPECT_EQ(tokens, (std::vector<std::int32_t>{-1, -1, 7, 4})) << ranks << " ranks";
    }
  }
}

TEST(ShardedArgmax, TheMapComesAfterTheMerge) {
  const std::vector<std::vector<float>> rows = {{0, 5, 1, 5}, {0, 1, 2, 9}, {kNaN, 1, 2, 9}};
  for (const int ranks : {1, 2, 3}) {
    for (const auto& tokens : choose(rows, ranks, {10, 20, 30, 40}).tokens) {
      EXPECT_EQ(tokens, (std::vector<std::int32_t>{20, 40, -1})) << ranks << " ranks";
    }
  }
}

// The forms that any device may start from say the same as the CPU's own.
TEST(BackendFallbacks, ChooseTheSameTokens) {
  std::mt19937 random(test_seed() + 1);
  const auto backend = make_cpu_backend({.threads = 1});
  std::vector<float> logits(8 * 33);
  for (float& x : logits) x = static_cast<float>(random() % 9);
  logits[40] = kNaN;
  std::fill_n(logits.begin() + 3 * 33, 33, kNone);
  const Tensor rows = Tensor::dense(logits.data(), DType::kF32, 8, 33);
  std::vector<BestLogit> own(8), plain(8);
  backend->argmax_shard(rows, 100, own.data());
  backend->Backend::argmax_shard(rows, 100, plain.data());
  for (std::size_t r = 0; r < 8; ++r) {
    EXPECT_EQ(own[r].token, plain[r].token) << r;
    EXPECT_TRUE(own[r].value == plain[r].value || (std::isnan(own[r].value) && std::isnan(plain[r].value)));
  }
  std::vector<std::int32_t> a(4), b(4);
  backend->merge_argmax(own.data(), 2, 4, nullptr, a.data());
  backend->Backend::merge_argmax(own.data(), 2, 4, nullptr, b.data());
  EXPECT_EQ(a, b);
  EXPECT_EQ(a[1], -1) << "row 1 of the first shard holds a NaN";
}

}  // namespace
}  // namespace tessera
