#include "speculative/row_batch.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/arena.h"

namespace tessera {

RowBatch::RowBatch(Backend& backend, const Limits& limits) : backend_(backend), limits_(limits) {
  const auto rows = static_cast<std::size_t>(limits.rows);
  const auto seqs = static_cast<std::size_t>(limits.seqs);
  const auto table = seqs * static_cast<std::size_t>(limits.max_blocks);
  seqs_.reserve(seqs);
  ids_.reserve(rows);
  positions_.reserve(rows);
  visible_.reserve(rows);
  slots_.reserve(rows);
  starts_.reserve(seqs + 2);
  table_.resize(table);
  const auto plan = [&](Arena& arena) {
    const auto words = [&](std::size_t count) {
      return static_cast<std::int32_t*>(arena.take_bytes(count * sizeof(std::int32_t)));
    };
    device_ids_ = words(rows);
    device_positions_ = words(rows);
    device_visible_ = words(rows);
    device_starts_ = words(seqs + 2);
    device_table_ = words(table);
    device_slots_ = static_cast<std::int64_t*>(arena.take_bytes(rows * sizeof(std::int64_t)));
  };
  Arena counting;
  plan(counting);
  storage_ = backend.allocate(counting.peak());
  Arena real(storage_.get(), counting.peak());
  plan(real);
}

void RowBatch::clear() {
  seqs_.clear();
  ids_.clear();
  positions_.clear();
  visible_.clear();
  slots_.clear();
}

void RowBatch::add_sequence(std::span<const std::int32_t> block_table, bool is_decode) {
  TS_CHECK(has_room(0, 1), sequences(), limits_.seqs);
  TS_CHECK(seqs_.empty() || seqs_.back().is_decode || !is_decode);
  TS_CHECK(block_table.size() <= static_cast<std::size_t>(limits_.max_blocks), block_table.size(),
           limits_.max_blocks);
  std::ranges::copy(block_table, table_.begin() + std::int64_t{sequences()} * limits_.max_blocks);
  seqs_.push_back({.first_row = rows(), .is_decode = is_decode});
}

void RowBatch::add_row(std::int32_t id, std::int32_t position, std::int32_t visible_rows) {
  TS_CHECK(!seqs_.empty() && has_room(1, 0), rows(), limits_.rows);
  const std::int64_t table = std::int64_t{sequences() - 1} * limits_.max_blocks;
  const std::int32_t block = table_[static_cast<std::size_t>(table + position / limits_.block_size)];
  TS_CHECK(block >= 0, block, position, sequences());  // a row outside the sequence's blocks is another's
  ids_.push_back(id);
  positions_.push_back(position);
  visible_.push_back(visible_rows);
  slots_.push_back(std::int64_t{block} * limits_.block_size + position % limits_.block_size);
}

ForwardBatch RowBatch::upload() {
  const auto copy = [&](auto* device, const auto* host, std::size_t count) {
    backend_.copy_to_device(device, host, count * sizeof(*host));
  };
  copy(device_ids_, ids_.data(), ids_.size());
  copy(device_positions_, positions_.data(), positions_.size());
  copy(device_visible_, visible_.data(), visible_.size());
  copy(device_slots_, slots_.data(), slots_.size());
  copy(device_table_, table_.data(), seqs_.size() * static_cast<std::size_t>(limits_.max_blocks));

  // Each form counts its rows from its own first one; the starts of decodes lie before those of prefills.
  const auto decodes =
      static_cast<std::int32_t>(std::ranges::count_if(seqs_, [](const Sequence& s) { return s.is_decode; }));
  const auto row_of = [&](std::int32_t seq) {
    return seq < sequences() ? seqs_[static_cast<std::size_t>(seq)].first_row : rows();
  };
  const auto form = [&](std::int32_t first, std::int32_t count) {
    AttentionBatch batch;
    if (count == 0) return batch;
    const std::int32_t row = row_of(first);
    batch.seqs = count;
    batch.tokens = row_of(first + count) - row;
    batch.max_blocks = limits_.max_blocks;
    batch.query_start = device_starts_ + starts_.size();
    for (std::int32_t s = 0; s < count; ++s) {
      starts_.push_back(row_of(first + s) - row);
      batch.max_query = std::max(batch.max_query, row_of(first + s + 1) - row_of(first + s));
    }
    starts_.push_back(batch.tokens);
    batch.positions = device_positions_ + row;
    batch.visible_rows = device_visible_ + row;
    batch.slots = device_slots_ + row;
    batch.block_table = device_table_ + std::int64_t{first} * limits_.max_blocks;
    return batch;
  };
  starts_.clear();
  ForwardBatch batch;
  batch.tokens = rows();
  batch.ids = device_ids_;
  batch.decode = form(0, decodes);
  batch.prefill = form(decodes, sequences() - decodes);
  copy(device_starts_, starts_.data(), starts_.size());
  return batch;
}

}  // namespace tessera
