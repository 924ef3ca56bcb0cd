// A draft model that reads the target's hidden states: EAGLE-3 (Llama or MLA layer) and DFlash.
//
// It owns one rank's weights and the scratch of one pass; embedding and head may be the target's, which must
// outlive it. Its keys and values lie in layers of their own, whose rows are addressed as the target's are:
// the same block tables and slots. What has been written for rejected tokens is never cleared: later passes
// see fewer rows, and write over them. Not thread-safe.
//
// A step, after the target's forward pass:
//
//   observe    the target's rows: draft keys and values of every position
//   EAGLE-3:   argmax of each sequence's last row = first draft; then k - 1 times advance, argmax
//   DFlash:    advance with a block [newest token, mask, mask, ...] of each sequence; argmax of the mask rows
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/backend.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/aux_layers.h"
#include "model/model.h"
#include "model/shard.h"

namespace tessera {

// Rows of one pass of drafting, on the device.
struct DraftRows {
  const std::int32_t* ids = nullptr;  // [tokens] EAGLE-3: the newest draft; DFlash: the newest token, masks
  const std::int32_t* from =
      nullptr;  // [tokens] EAGLE-3: row of the last pass that drafted it; DFlash: unused
  // EAGLE-3: one token a sequence, one position on. DFlash: blocks; each row sees its whole block, so
  // visible_rows of a block's rows are equal.
  AttentionBatch attention;
};

class DraftModel {
 public:
  virtual ~DraftModel() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const AuxLayers& aux_layers() const = 0;
  virtual std::int64_t layers() const = 0;  // with a KV cache
  virtual KvRowShape kv_shape() const = 0;
  virtual std::int64_t positions() const = 0;   // no row may have a position at or past this
  virtual std::int64_t block_size() const = 0;  // of DFlash; 0: drafts one by one
  virtual bool is_sharded() const = 0;          // layers split over ranks; else each rank has all of them
  virtual std::size_t weight_bytes() const = 0;
  virtual std::size_t scratch_bytes() const = 0;
  // Token of each entry of a reduced draft vocabulary, ascending; empty: entry i is token i.
  virtual std::span<const std::int32_t> token_ids() const = 0;

  // Rows of the target's step. batch.ids: EAGLE-3 takes the token that FOLLOWS each row's own (positions do
  // not shift); DFlash takes none. aux [tokens, aux layers * target hidden]: Model::aux_states(). Padding:
  // rows of rejected tokens may be among them; nothing later reads what they write.
  virtual void observe(const ForwardBatch& batch, const Tensor& aux, std::span<const KvLayer> kv) = 0;
  virtual void advance(const DraftRows& rows, std::span<const KvLayer> kv) = 0;

  // Of rows `rows` (on the device) of the last observe (EAGLE-3) or advance: tokens of the target's
  // vocabulary, -1 for a row with a NaN.
  virtual void argmax(const std::int32_t* rows, std::int64_t count, std::int32_t* tokens) = 0;
  // At most limits.logit_rows of them: f32 [count, draft vocab] on every rank.
  virtual Tensor logits(const std::int32_t* rows, std::int64_t count) = 0;
  // Bytes that a rank receives for each row of argmax: the same for any vocabulary.
  virtual std::int64_t argmax_bytes() const = 0;
};

struct DraftOptions {
  // tokens: rows of a pass, at least seqs (EAGLE-3) or seqs * block size (DFlash); decode_tokens: of them in
  // decode form, at least seqs.
  StepLimits limits;
  Shard shard = {};  // its communicator must outlive the draft; layers that it cannot split are replicated
};

// Whether the draft fits the target, or one sentence that names both sides.
Result<void> check_draft(const ModelConfig& draft, const ModelConfig& target);

// `target` runs on the same back-end, was loaded with aux_layers_of(draft, target) as its aux_layers, and
// must outlive the result. The checkpoint may be closed afterwards.
Result<std::unique_ptr<DraftModel>> load_draft(const Checkpoint& checkpoint, const ModelConfig& target_config,
                                               Model& target, Backend& backend, const DraftOptions& options);

}  // namespace tessera
