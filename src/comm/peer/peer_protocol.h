// A one-shot all-reduce between devices that can write to each other's memory: everybody writes its data into
// a slot of everybody's mailbox, says so, waits until all slots of its own mailbox are full, and adds them up
// in rank order. One exchange, and the same bits on every rank.
//
// Only writes cross between devices: reads of a peer's memory are slower, and on some machines wrong without
// a word (docs/explanation/several-gpus.md).
//
// Nothing waits at the end of a call. A mailbox has two sets of slots, used in turn. When a rank writes to
// set s in call n + 2, it has left call n + 1, so it has seen everybody's flag of n + 1; each of them had
// ended call n before, and reads set s no more. This needs calls of one rank to follow each other, as kernels
// of one stream do, and the same calls on every rank. How many calls there have been is counted on the
// device, so replayed graphs and single calls mix.
//
// The steps are templates over the machine that runs them: a block of GPU threads, or in tests one thread of
// the host, under a sanitizer that knows what a missing release is.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define TS_PEER __host__ __device__ inline
#else
#define TS_PEER inline
#endif

namespace tessera {

inline constexpr int kPeerMostRanks = 16;
inline constexpr int kPeerMostBlocks = 8;  // of a call; each has flags of its own
inline constexpr int kPeerPack = 16;       // bytes that travel at once

// Where things lie in a rank's mailbox, in bytes.
struct MailboxLayout {
  int ranks = 0;
  std::int64_t slot_bytes = 0;  // the largest call; a multiple of kPeerPack

  // What `source` has written in a call of this set.
  TS_PEER std::int64_t slot(std::uint32_t set, int source) const {
    return (static_cast<std::int64_t>(set) * ranks + source) * slot_bytes;
  }
  // The call of this set for which `source` has written what block `block` reads; a line of its own.
  TS_PEER std::int64_t flag(std::uint32_t set, int block, int source) const {
    return slot(2, 0) +
           ((static_cast<std::int64_t>(set) * kPeerMostBlocks + block) * ranks + source) * kFlagLine;
  }
  TS_PEER std::int64_t bytes() const { return flag(2, 0, 0); }

  static constexpr std::int64_t kFlagLine = 128;
};

// A rank's own counters, on its device.
struct PeerCounters {
  std::uint32_t calls = 0;    // that are complete
  std::uint32_t tickets = 0;  // blocks of the call under way that are done
};

// What a wait that was given up leaves for the host.
struct PeerTrouble {
  std::uint32_t happened = 0;  // 1: the rest says what; any other than 0: waits end at once
  std::int32_t missing = 0;    // the rank that was waited for
  std::int32_t block = 0;
  std::uint32_t call = 0;
};

struct PeerCall {
  MailboxLayout layout;
  int rank = 0;
  std::byte* mailboxes[kPeerMostRanks] = {};  // by rank, as this rank reaches them
  PeerCounters* counters = nullptr;
  PeerTrouble* trouble = nullptr;
  void* data = nullptr;    // in and out; aligned to kPeerPack
  std::int64_t packs = 0;  // of kPeerPack bytes
  int blocks = 1;          // at most kPeerMostBlocks
};

// Packs [first, last) of a block.
struct PeerSlice {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
TS_PEER PeerSlice peer_slice(const PeerCall& call, int block) {
  const std::int64_t each = (call.packs + call.blocks - 1) / call.blocks;
  const std::int64_t first = each * block < call.packs ? each * block : call.packs;
  const std::int64_t last = first + each < call.packs ? first + each : call.packs;
  return {first, last};
}

// One block's part of a call. `Machine` says how its threads load, store, publish and wait:
//
//   lane(), lanes()                this thread among the block's
//   together()                     all lanes have come here, and see what the others did before
//   load(from) -> Pack, store(to, pack)
//   publish(flag, value)           what this block has stored, wherever it lies, is seen by whoever sees the
//   flag await(flag, value) -> bool     false: given up add(Sum&, pack, source)        in f32 round(sum) ->
//   Pack take_ticket(counter) -> value before
#ifdef __CUDACC__
#pragma nv_exec_check_disable  // the machine's side is the only one it is called on
#endif
template <class Machine>
TS_PEER void run_peer_block(Machine& machine, const PeerCall& call, int block) {
  const MailboxLayout& layout = call.layout;
  const std::uint32_t number = call.counters->calls + 1;  // changes only when all blocks have read it
  const std::uint32_t set = number & 1U;
  const PeerSlice slice = peer_slice(call, block);
  auto* const data = static_cast<std::byte*>(call.data);

  for (std::int64_t i = slice.first + machine.lane(); i < slice.last; i += machine.lanes()) {
    const auto pack = machine.load(data + i * kPeerPack);
    for (int k = 0; k < layout.ranks; ++k) {  // each rank begins with itself, so that not all write to one
      const int peer = (call.rank + k) % layout.ranks;
      machine.store(call.mailboxes[peer] + layout.slot(set, call.rank) + i * kPeerPack, pack);
    }
  }
  machine.before_publishing();
  machine.together();
  for (int peer = machine.lane(); peer < layout.ranks; peer += machine.lanes())
    machine.publish(call.mailboxes[peer] + layout.flag(set, block, call.rank), number);

  const std::byte* const own = call.mailboxes[call.rank];
  for (int source = machine.lane(); source < layout.ranks; source += machine.lanes()) {
    if (!machine.await(own + layout.flag(set, block, source), number))
      machine.complain(*call.trouble, {.happened = 1, .missing = source, .block = block, .call = number});
  }
  machine.together();

  for (std::int64_t i = slice.first + machine.lane(); i < slice.last; i += machine.lanes()) {
    typename Machine::Sum sum{};
    for (int source = 0; source < layout.ranks; ++source)
      machine.add(sum, machine.load_received(own + layout.slot(set, source) + i * kPeerPack));
    machine.store(data + i * kPeerPack, machine.round(sum));
  }
  machine.together();
  if (machine.lane() == 0 &&
      machine.take_ticket(call.counters->tickets) + 1 == static_cast<std::uint32_t>(call.blocks)) {
    call.counters->tickets = 0;
    call.counters->calls = number;
  }
}

}  // namespace tessera
