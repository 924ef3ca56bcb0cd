#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>
#include <unordered_map>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kShortPiece =
    64;  // above, the quadratic search costs more than the queues of merge_long
constexpr std::int32_t kNoRank = std::numeric_limits<std::int32_t>::max();

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
}

// Words of text are short: look for the lowest rank from the left, merge, repeat.
std::size_t merge_short(const MergeTable& merges, std::int32_t* symbols, std::size_t count,
                        std::vector<std::int32_t>& ids) {
  std::array<Merge, kShortPiece> pairs;  // pairs[i]: of symbols i and i + 1
  std::size_t asked = 0;
  const auto look_up = [&](std::size_t i) {
    ++asked;
    pairs[i] = merges.find(symbols[i], symbols[i + 1]);
    if (pairs[i].rank < 0) pairs[i].rank = kNoRank;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoRank) break;
    symbols[best] = pairs[best].id;
    std::copy(symbols + best + 2, symbols + count, symbols + best + 1);
    std::copy(pairs.begin() + static_cast<std::ptrdiff_t>(best) + 1,
              pairs.begin() + static_cast<std::ptrdiff_t>(count) - 1,
              pairs.begin() + static_cast<std::ptrdiff_t>(best));
    --count;
    if (best + 1 < count) look_up(best);
    if (best > 0) look_up(best - 1);
  }
  ids.insert(ids.end(), symbols, symbols + count);
  return asked;
}

// Long pieces: a linked list of symbols, and for each rank the places where a pair of this rank stood when it
// was last looked at. Places are taken lowest rank first, then from the left; one that no longer holds is
// skipped.
class LongMerge {
 public:
  LongMerge(const MergeTable& merges, std::vector<std::int32_t> symbols)
      : merges_(merges), symbols_(std::move(symbols)), next_(symbols_.size()), previous_(symbols_.size()) {
    TS_CHECK(symbols_.size() < kEnd, symbols_.size());
    for (std::uint32_t i = 0; i < symbols_.size(); ++i) {
      next_[i] = i + 1 == symbols_.size() ? kEnd : i + 1;
      previous_[i] = i == 0 ? kEnd : i - 1;
    }
  }

  std::size_t run(std::vector<std::int32_t>& ids) {
    for (std::uint32_t i = 0; i < symbols_.size(); ++i) remember(i);
    while (!ranks_.empty()) {
      const std::int32_t rank = ranks_.top();
      const std::uint32_t at = take(rank);
      const Merge merge = merge_at(at);
      if (merge.rank == rank) apply(at, merge);
    }
    for (std::uint32_t i = 0; i != kEnd; i = next_[i]) ids.push_back(symbols_[i]);
    return asked_;
  }

 private:
  static constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::int32_t kGone = -1;

  struct Places {
    std::vector<std::uint32_t> at;
    std::size_t taken = 0;
    bool in_order = true;
  };

  Merge merge_at(std::uint32_t at) {
    if (symbols_[at] == kGone || next_[at] == kEnd) return {};
    ++asked_;
    return merges_.find(symbols_[at], symbols_[next_[at]]);
  }

  void remember(std::uint32_t at) {
    const Merge merge = merge_at(at);
    if (merge.rank < 0) return;
    Places& places = places_[merge.rank];
    if (places.at.empty()) ranks_.push(merge.rank);
    if (!places.at.empty() && at < places.at.back()) places.in_order = false;
    places.at.push_back(at);
  }

  std::uint32_t take(std::int32_t rank) {
    Places& places = places_[rank];
    if (!places.in_order) {
      std::sort(places.at.begin() + static_cast<std::ptrdiff_t>(places.taken), places.at.end());
      places.in_order = true;
    }
    const std::uint32_t at = places.at[places.taken++];
    if (places.taken == places.at.size()) {
      places = {};
      ranks_.pop();
    }
    return at;
  }

  void apply(std::uint32_t at, Merge merge) {
    const std::uint32_t gone = next_[at];
    symbols_[at] = merge.id;
    symbols_[gone] = kGone;
    next_[at] = next_[gone];
    if (next_[at] != kEnd) previous_[next_[at]] = at;
    if (previous_[at] != kEnd) remember(previous_[at]);
    remember(at);
  }

  const MergeTable& merges_;
  std::vector<std::int32_t> symbols_;  // kGone: merged into a symbol before it
  std::size_t asked_ = 0;
  std::vector<std::uint32_t> next_, previous_;       // living neighbours, kEnd at the ends
  std::unordered_map<std::int32_t, Places> places_;  // by rank
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>>
      ranks_;  // with places left, once each
};

}  // namespace

MergeTable::MergeTable(std::size_t expected)
    : slots_(std::bit_ceil(std::max<std::size_t>(16, 2 * expected))) {}

std::size_t MergeTable::slot_of(std::uint64_t key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = ((key ^ (key >> 29)) * 0x9E3779B97F4A7C15ULL >> 20) & mask;
  while (slots_[i].key != key && slots_[i].key != kFree) i = (i + 1) & mask;
  return i;
}

void MergeTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.key != kFree) slots_[slot_of(slot.key)] = slot;
  }
}

void MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t i = slot_of(key);
  if (slots_[i].key == key) return;
  if (2 * (count_ + 1) > slots_.size()) {
    grow();
    i = slot_of(key);
  }
  slots_[i] = {key, merge};
  ++count_;
}

Merge MergeTable::find(std::int32_t left, std::int32_t right) const {
  const Slot& slot = slots_[slot_of(key_of(left, right))];
  return slot.key == kFree ? Merge{} : slot.merge;
}

MergeTable MergeTable::from_ranks(const Vocabulary& vocabulary, std::int32_t entries) {
  MergeTable table(static_cast<std::size_t>(entries) * 2);
  for (std::int32_t id = 0; id < entries; ++id) {
    const std::string_view bytes = vocabulary.bytes_of(id);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = vocabulary.id_of(bytes.substr(0, cut));
      if (!left) continue;
      const auto right = vocabulary.id_of(bytes.substr(cut));
      if (right) table.add(*left, *right, {id, id});
    }
  }
  return table;
}

std::size_t bpe_encode(const BpeModel& model, std::string_view piece, std::vector<std::int32_t>& ids) {
  if (model.whole_piece_first) {
    if (const auto id = model.vocabulary.id_of(piece)) {
      ids.push_back(*id);
      return 0;
    }
  }
  const auto id_of_byte = [&](char byte) { return model.byte_ids[static_cast<unsigned char>(byte)]; };
  if (piece.size() <= kShortPiece) {
    std::array<std::int32_t, kShortPiece> symbols;
    std::size_t count = 0;
    for (const char byte : piece) {
      if (id_of_byte(byte) >= 0) symbols[count++] = id_of_byte(byte);
    }
    return merge_short(model.merges, symbols.data(), count, ids);
  }
  std::vector<std::int32_t> symbols;
  symbols.reserve(piece.size());
  for (const char byte : piece) {
    if (id_of_byte(byte) >= 0) symbols.push_back(id_of_byte(byte));
  }
  return symbols.empty() ? 0 : LongMerge(model.merges, std::move(symbols)).run(ids);
}

}  // namespace tessera
