// Rows of one pass of a draft, written on the host and carried to the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/model.h"

namespace tessera {

class RowBatch {
 public:
  struct Limits {
    std::int32_t rows = 0;
    std::int32_t seqs = 0;
    std::int32_t max_blocks = 0;  // of a sequence
    std::int32_t block_size = 0;
  };
  RowBatch(Backend& backend, const Limits& limits);

  void clear();
  // Sequences in decode form first, then those in prefill form. A sequence may come again, later: rows see
  // what earlier rows of the same pass have written.
  void add_sequence(std::span<const std::int32_t> block_table, bool is_decode);
  // A row of the sequence added last. Its keys go to the table's row `position`.
  void add_row(std::int32_t id, std::int32_t position, std::int32_t visible_rows);

  std::int32_t rows() const { return static_cast<std::int32_t>(ids_.size()); }
  std::int32_t sequences() const { return static_cast<std::int32_t>(seqs_.size()); }
  bool has_room(std::int32_t rows, std::int32_t seqs) const {
    return this->rows() + rows <= limits_.rows && sequences() + seqs <= limits_.seqs;
  }

  // Views of device memory, valid until the next upload.
  ForwardBatch upload();

 private:
  struct Sequence {
    std::int32_t first_row = 0;
    bool is_decode = true;
  };

  Backend& backend_;
  Limits limits_;
  std::vector<Sequence> seqs_;
  std::vector<std::int32_t> ids_, positions_, visible_, starts_;
  std::vector<std::int64_t> slots_;
  std::vector<std::int32_t> table_;  // [seqs, max_blocks]
  Buffer storage_;
  std::int32_t *device_ids_, *device_positions_, *device_visible_, *device_starts_, *device_table_;
  std::int64_t* device_slots_;
};

}  // namespace tessera
