// What crosses from the launchers of MLA decode to the device code. Internal to this folder.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/mla_decode.h"
#include "backend/cuda_layout/mla_plan.h"

namespace tessera::cuda {

struct MlaArgs {
  const void* q;                    // [seqs * q_tokens, heads, 576] bf16
  const void* kv;                   // [blocks, 64, row_bytes]
  const std::int32_t* block_table;  // [seqs, max_blocks]
  const std::int32_t* kv_rows;      // [seqs] or null
  const std::int32_t* query_rows;   // [seqs, q_tokens] or null
  void* out;                        // [seqs * q_tokens, heads, 512]
  float* lse;                       // [seqs * q_tokens, heads]
  const MlaPart* parts;             // [parts]
  const MlaSeqPlan* seqs_plan;      // [seqs]
  const std::int32_t* split;        // [1 + seqs]: count, then the sequences to merge
  float* partial_out;               // [slots, q_tokens * heads, 512]
  float* partial_lse;               // [slots, q_tokens * heads]
  float scale_log2;                 // softmax scale * log2(e) * scale of the KV rows
  float out_scale;                  // scale of the KV rows, which the latent carries into the output
  std::int32_t max_blocks;
  std::int32_t seqs;
  std::int32_t q_tokens;
  std::int32_t heads;
  std::int32_t fixed_tiles;
  std::int32_t out_f32;
};

#ifdef __CUDACC__
// KV rows visible to query token `token` of sequence `seq`.
__device__ inline std::int32_t visible_rows(const MlaArgs& args, std::int32_t seq, std::int32_t token) {
  const std::int32_t rows = args.query_rows ? args.query_rows[seq * args.q_tokens + token]
                                            : args.kv_rows[seq] - (args.q_tokens - 1 - token);
  return rows > 0 ? rows : 0;
}

// An entry of a block table, loaded where it is written and not where it is used: the compiler would
// otherwise move the load next to the use and wait there for it.
__device__ __forceinline__ std::int32_t load_entry(const std::int32_t* table, std::int32_t index) {
  std::int32_t value;
  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(value) : "l"(table + index));
  return value;
}

// A piece of work: tiles [begin, end) of one sequence.
struct MlaPiece {
  std::int32_t seq;
  std::int32_t begin;
  std::int32_t end;
  std::int32_t slot;  // -1: the piece is the whole sequence; write the result itself
};

// Walks the pieces of one part. Every warp of a block walks by itself and sees the same pieces.
struct MlaWalk {
  MlaPart part;
  std::int32_t index;  // of the part
  std::int32_t seq;
  std::int32_t tile;

  __device__ MlaWalk(const MlaArgs& args, std::int32_t part_index)
      : part(args.parts[part_index]), index(part_index), seq(part.begin.seq), tile(part.begin.tile) {}

  __device__ bool next(const MlaArgs& args, MlaPiece& piece) {
    if (seq > part.end.seq || (seq == part.end.seq && tile >= part.end.tile)) return false;
    const MlaSeqPlan plan = args.seqs_plan[seq];
    piece.seq = seq;
    piece.begin = tile;
    piece.end = seq == part.end.seq ? part.end.tile : plan.tiles;
    if (args.fixed_tiles > 0) piece.end = min(piece.end, (tile / args.fixed_tiles + 1) * args.fixed_tiles);
    piece.slot = -1;
    if (plan.pieces > 1) {
      if (args.fixed_tiles > 0) {
        piece.slot = plan.first_slot + tile / args.fixed_tiles;
      } else {
        piece.slot = tile == 0 ? plan.first_slot : kMlaSlotStep * index;
      }
    }
    if (piece.end == plan.tiles) {
      ++seq;
      tile = 0;
    } else {
      tile = piece.end;
    }
    return true;
  }
};
#endif

// Each launches one kernel on `stream`.
void launch_mla_plan(const MlaDecodeLayout& layout, const MlaDecodeLengths& lengths, MlaPart* parts,
                     MlaSeqPlan* seqs, std::int32_t* split, cudaStream_t stream);
void launch_mla_merge(const MlaDecodeLayout& layout, const MlaArgs& args, cudaStream_t stream);
void launch_mla_decode_bf16_sm90(const MlaDecodeLayout& layout, const MlaArgs& args, const KvLayer& kv,
                                 cudaStream_t stream);
void launch_mla_decode_fp8_sm90(const MlaDecodeLayout& layout, const MlaArgs& args, const KvLayer& kv,
                                cudaStream_t stream);
void launch_mla_decode_fp8_math_sm90(const MlaDecodeLayout& layout, const MlaArgs& args, const KvLayer& kv,
                                     cudaStream_t stream);
void launch_mla_decode_fp8_grouped_sm90(const MlaDecodeLayout& layout, const MlaArgs& args, const KvLayer& kv,
                                        cudaStream_t stream);
void launch_mla_decode_portable(const MlaDecodeLayout& layout, const MlaArgs& args, cudaStream_t stream);

}  // namespace tessera::cuda
