// The protocol of the one-shot all-reduce on threads of the host, each a block of a rank: the same template
// as on the device, with delays where a device has them. Under the thread sanitizer, what the flags do not
// order is a data race.
#include "comm/peer/peer_protocol.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/test_seed.h"

namespace tessera {
namespace {

// One lane a block.
class HostMachine {
 public:
  struct Pack {
    float value[4];
  };
  using Sum = Pack;

  HostMachine(std::uint64_t seed, std::chrono::milliseconds patience, bool has_delays)
      : random_(seed), patience_(patience), has_delays_(has_delays) {}

  int lane() const { return 0; }
  int lanes() const { return 1; }
  void together() { delay(); }
  Pack load(const std::byte* from) { return copied(from); }
  Pack load_received(const std::byte* from) { return copied(from); }
  void store(std::byte* to, const Pack& pack) { std::memcpy(to, &pack, sizeof pack); }
  void before_publishing() { delay(); }
  void publish(std::byte* flag, std::uint32_t number) {
    delay();
    std::atomic_ref(*reinterpret_cast<std::uint32_t*>(flag)).store(number, std::memory_order_release);
  }
  bool await(const std::byte* flag, std::uint32_t number) {
    const auto end = std::chrono::steady_clock::now() + patience_;
    auto& word = *reinterpret_cast<std::uint32_t*>(const_cast<std::byte*>(flag));
    while (std::atomic_ref(word).load(std::memory_order_acquire) != number) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  void complain(PeerTrouble& trouble, const PeerTrouble& what) {
    if (std::atomic_ref(trouble.happened).exchange(1) == 0) {
      trouble.missing = what.missing;
      trouble.block = what.block;
      trouble.call = what.call;
    }
  }
  static void add(Sum& sum, const Pack& pack) {
    for (int i = 0; i < 4; ++i) sum.value[i] += pack.value[i];
  }
  static Pack round(const Sum& sum) { return sum; }
  static std::uint32_t take_ticket(std::uint32_t& counter) { return std::atomic_ref(counter).fetch_add(1); }

 private:
  static Pack copied(const std::byte* from) {
    Pack pack;
    std::memcpy(&pack, from, sizeof pack);
    return pack;
  }
  void delay() {
    if (has_delays_ && random_() % 8 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 60));
  }

  std::mt19937_64 random_;
  std::chrono::milliseconds patience_;
  bool has_delays_;
};

// Ranks whose kernels are threads.
class Ranks {
 public:
  Ranks(int ranks, std::int64_t slot_packs) : layout_{.ranks = ranks, .slot_bytes = slot_packs * kPeerPack} {
    for (int r = 0; r < ranks; ++r) {
      // uint64 for alignment; slots hold NaN until somebody writes.
      auto& mailbox = mailboxes_.emplace_back(static_cast<std::size_t>(layout_.bytes() + 7) / 8, 0);
      auto* floats = reinterpret_cast<float*>(mailbox.data());
      std::fill_n(floats, layout_.slot(2, 0) / 4, std::numeric_limits<float>::quiet_NaN());
    }
    counters_.resize(static_cast<std::size_t>(ranks));
    troubles_.resize(static_cast<std::size_t>(ranks));
  }

  PeerCall call(int rank, std::vector<float>& data, int blocks) {
    PeerCall call{.layout = layout_,
                  .rank = rank,
                  .counters = &counters_[static_cast<std::size_t>(rank)],
                  .trouble = &troubles_[static_cast<std::size_t>(rank)],
                  .data = data.data(),
                  .packs = static_cast<std::int64_t>(data.size() / 4),
                  .blocks = blocks};
    for (int r = 0; r < layout_.ranks; ++r)
      call.mailboxes[r] = reinterpret_cast<std::byte*>(mailboxes_[static_cast<std::size_t>(r)].data());
    return call;
  }
  // A kernel: its blocks at the same time; it has ended when all have.
  void launch(const PeerCall& call, std::uint64_t seed, std::chrono::milliseconds patience, bool has_delays) {
    std::vector<std::thread> blocks;
    for (int b = 1; b < call.blocks; ++b) {
      blocks.emplace_back([&, b] {
        HostMachine machine(seed * 31 + static_cast<std::uint64_t>(b), patience, has_delays);
        run_peer_block(machine, call, b);
      });
    }
    HostMachine machine(seed * 31, patience, has_delays);
    run_peer_block(machine, call, 0);
    for (std::thread& block : blocks) block.join();
  }
  const PeerTrouble& trouble(int rank) const { return troubles_[static_cast<std::size_t>(rank)]; }
  PeerCounters& counters(int rank) { return counters_[static_cast<std::size_t>(rank)]; }
  MailboxLayout layout() const { return layout_; }

 private:
  MailboxLayout layout_;
  std::vector<std::vector<std::uint64_t>> mailboxes_;
  std::vector<PeerCounters> counters_;
  std::vector<PeerTrouble> troubles_;
};

// Small whole numbers, so that sums are exact in any order, different for every call, rank and place.
float value_of(int call, int rank, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(call * 131 + rank * 17) + i * 7) % 1021);
}

struct Shape {
  std::int64_t packs;
  int blocks;
};
void expect_sums(int ranks, int calls, std::uint64_t seed, std::uint32_t first_call = 0) {
  constexpr std::int64_t kSlot = 96;
  Ranks group(ranks, kSlot);
  for (int r = 0; r < ranks; ++r) group.counters(r).calls = first_call;
  std::mt19937_64 random(seed);
  std::vector<Shape> shapes;
  for (int c = 0; c < calls; ++c) {
    const auto packs = static_cast<std::int64_t>(1 + random() % kSlot);
    shapes.push_back({packs, static_cast<int>(1 + random() % 3)});
  }
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      std::vector<float> data;
      for (int c = 0; c < calls; ++c) {
        const Shape shape = shapes[static_cast<std::size_t>(c)];
        data.resize(static_cast<std::size_t>(shape.packs) * 4);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = value_of(c, r, i);
        group.launch(group.call(r, data, shape.blocks), seed + static_cast<std::uint64_t>(c * ranks + r),
                     std::chrono::seconds(60), true);
        for (std::size_t i = 0; i < data.size(); ++i) {
          float sum = 0;
          for (int s = 0; s < ranks; ++s) sum += value_of(c, s, i);
          if (data[i] == sum) continue;
          failures[static_cast<std::size_t>(r)] =
              "call " + std::to_string(c) + ", element " + std::to_string(i);
          return;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(failures[static_cast<std::size_t>(r)], "") << "rank " << r << " of " << ranks;
    EXPECT_EQ(group.trouble(r).happened, 0U);
    EXPECT_EQ(group.counters(r).calls, first_call + static_cast<std::uint32_t>(calls));
    EXPECT_EQ(group.counters(r).tickets, 0U);
  }
}

TEST(PeerProtocol, SumsWhateverTheSizesTheBlocksAndTheDelays) {
  const auto seed = test_seed();
  SCOPED_TRACE(seed);
  for (const int ranks : {2, 3, 4, 8}) expect_sums(ranks, 120, seed + static_cast<std::uint64_t>(ranks));
}

TEST(PeerProtocol, TakesSixteenRanks) { expect_sums(kPeerMostRanks, 20, 5); }

TEST(PeerProtocol, GoesOnWhenTheCountOfCallsWraps) {
  expect_sums(2, 40, 11, std::numeric_limits<std::uint32_t>::max() - 20);
}

// A rank that runs ahead by one call must not overwrite what a slow one still reads.
TEST(PeerProtocol, SetsAndSourcesAndBlocksShareNothing) {
  const MailboxLayout layout{.ranks = 4, .slot_bytes = 256};
  std::vector<char> used(static_cast<std::size_t>(layout.bytes()), 0);
  const auto take = [&](std::int64_t at, std::int64_t bytes) {
    for (std::int64_t i = at; i < at + bytes; ++i) EXPECT_EQ(used[static_cast<std::size_t>(i)]++, 0) << i;
  };
  for (std::uint32_t set = 0; set < 2; ++set) {
    for (int source = 0; source < 4; ++source) {
      take(layout.slot(set, source), layout.slot_bytes);
      for (int block = 0; block < kPeerMostBlocks; ++block)
        take(layout.flag(set, block, source), MailboxLayout::kFlagLine);
    }
  }
  EXPECT_EQ(std::count(used.begin(), used.end(), 1), layout.bytes());
}

TEST(PeerProtocol, SlicesCoverEveryPackOnce) {
  for (std::int64_t packs = 0; packs < 70; ++packs) {
    for (int blocks = 1; blocks <= kPeerMostBlocks; ++blocks) {
      PeerCall call;
      call.packs = packs;
      call.blocks = blocks;
      std::int64_t next = 0;
      for (int b = 0; b < blocks; ++b) {
        const PeerSlice slice = peer_slice(call, b);
        EXPECT_EQ(slice.first, next);
        EXPECT_LE(slice.first, slice.last);
        next = slice.last;
      }
      EXPECT_EQ(next, packs);
    }
  }
}

TEST(PeerProtocol, NamesTheRankThatDoesNotCome) {
  Ranks group(3, 8);
  std::vector<std::vector<float>> data(3, std::vector<float>(32, 1.0F));
  std::vector<std::thread> threads;
  for (const int r : {0, 2}) {
    threads.emplace_back([&, r] {
      group.launch(group.call(r, data[static_cast<std::size_t>(r)], 1), 1, std::chrono::milliseconds(50),
                   false);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int r : {0, 2}) {
    EXPECT_EQ(group.trouble(r).happened, 1U);
    EXPECT_EQ(group.trouble(r).missing, 1);
    EXPECT_EQ(group.trouble(r).call, 1U);
  }
}

}  // namespace
}  // namespace tessera
