// Any bytes as a step plan: refused, or written again they are the same bytes.
//
//   plan_codec_fuzz src/engine/testdata/plan_codec_fuzz
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "engine/plan_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Limits as plan_codec_test has them: the seeds were written under these.
  tessera::PlanDecoder decoder({.max_num_seqs = 4,
                                .max_num_batched_tokens = 64,
                                .max_model_len = 96,
                                .block_size = 16,
                                .kv_blocks = 32,
                                .dcp_ranks = 2,
                                .vocab = 997,
                                .max_drafts = 3,
                                .shared_table = true});
  const auto plan = decoder.decode({reinterpret_cast<const std::byte*>(data), size});
  if (!plan) return 0;
  std::vector<std::byte> again;
  tessera::encode_plan(**plan, again);
  TS_CHECK(again.size() == size && std::memcmp(again.data(), data, size) == 0, again.size(), size);
  return 0;
}
