// The many-row product on Hopper: a persistent grid whose blocks take tiles of rows of W and rows of x in
// turn; the copy engine brings both to shared memory, wgmma multiplies.
//
// bf16 weights take x as it is. Weights that are unpacked are operands from registers; their order of k is
// the layout's (weight_layout.h), and x must come in the same, called wgmma order: of every 32 columns, words
// (pairs) 4 t + w lie at 4 w + t. int4 weights are multiplied in f16, so x comes in f16 too, each row divided
// by a power of two. order_rows.h makes such rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/product.h"
#include "backend/cuda/tensor_map.h"

namespace tessera::cuda {

constexpr bool takes_wgmma_order(WeightFormat format) {
  return format == WeightFormat::kFp8Block128 || format == WeightFormat::kInt4Group32;
}

constexpr bool takes_scaled_rows(WeightFormat format) { return format == WeightFormat::kInt4Group32; }

// Rows of x a tile at most, and so of an item.
constexpr int many_rows_sm90(WeightFormat format) {
  return format == WeightFormat::kBF16 ? 256 : format == WeightFormat::kInt4Group32 ? 128 : 96;
}

inline constexpr int kMostSplit = 8;  // blocks of a cluster; what every device of the architecture allows

struct ManyDevice {
  int multiprocessors = 1;
  int clusters[kMostSplit] = {};  // of 1, 2, ... blocks of these kernels, that run at once
};
// Asks the device: once.
ManyDevice many_device(int multiprocessors);

// x: as said above, rows one after the other (x_rows null), `rows` of them also where there are items.
void launch_product_many_sm90(const Product& product, const ManyDevice& device, cudaStream_t stream);

// --- between the host's side and the kernels

struct ManyMaps {
  CUtensorMap x;  // [matrix, row, column]
  CUtensorMap
      weight;         // [matrix, pair of 8-row groups, which of the two, bytes]; a pair of gated: gate and up
  CUtensorMap scale;  // likewise
};

struct ManyPlan {
  std::int32_t loads;       // of columns, a tile
  std::int32_t row_blocks;  // tiles over the rows of W
  std::int32_t group;  // row blocks that meet a tile of x before the next tile of x: what the L2 cache holds
  std::int32_t x_tiles;    // tiles over the rows of x; of no use with items
  std::int32_t tile_rows;  // of x; likewise
  std::int32_t tiles;      // likewise
  std::int32_t split;      // blocks of a cluster that share the columns of a tile; more than 1: a tile each
  bool vector_y;           // 16 bytes of y can be stored at once
};

struct ManyBoxes {  // of one stage
  int cols = 0;
  int x_rows = 0;  // of one copy
  int pairs = 0;
  int weight_bytes = 0;  // of 8 rows
  int scale_bytes = 0;   // likewise; 0: no scales
};
ManyMaps map_product(const Product& product, const ManyBoxes& boxes);

struct ManyTiling {
  int cols = 0;        // of a load
  int w_rows = 0;      // of a tile
  int x_rows = 0;      // of a tile, at most
  int x_step = 0;      // what tiles of fewer rows are a multiple of
  int least_rows = 0;  // of x, below which a load takes as long: waiting for memory
};
ManyPlan plan_product(const Product& product, const ManyTiling& tiling, const ManyDevice& device);

void launch_many_bf16_sm90(const Product& product, const ManyDevice& device, cudaStream_t stream);
void launch_many_fp8_sm90(const Product& product, const ManyDevice& device, cudaStream_t stream);
void launch_many_int4_sm90(const Product& product, const ManyDevice& device, cudaStream_t stream);

}  // namespace tessera::cuda
