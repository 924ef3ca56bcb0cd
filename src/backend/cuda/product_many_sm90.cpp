#include "backend/cuda/product_many_sm90.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace tessera::cuda {
namespace {

std::uint64_t unsign(std::int64_t value) { return static_cast<std::uint64_t>(value); }

// Pairs of 8-row groups: of gated, one group of gate and the group of up with the same outputs; else
// neighbours.
TensorMapShape weight_shape(const TiledWeight& w, bool gated, const void* data, std::int64_t group_bytes,
                            std::int64_t matrix_bytes, int box_bytes, int box_pairs) {
  const std::int64_t pairs = padded(w.out, kRowPadding) / 16;
  return {.data = data,
          .type = CU_TENSOR_MAP_DATA_TYPE_UINT32,
          .extent = {unsign(group_bytes / 4), 2, unsign(pairs), unsign(w.count)},
          .stride = {unsign(gated ? pairs * group_bytes : group_bytes),
                     unsign(gated ? group_bytes : 2 * group_bytes),
                     unsign(std::max<std::int64_t>(matrix_bytes, 16))},
          .box = {static_cast<std::uint32_t>(box_bytes / 4), 2, static_cast<std::uint32_t>(box_pairs), 1}};
}

}  // namespace

ManyMaps map_product(const Product& p, const ManyBoxes& boxes) {
  const TiledWeight& w = p.weight;
  const bool listed = p.items != nullptr;
  const bool one_x = listed || p.x_matrix_stride == 0;
  ManyMaps maps{};
  // In wgmma order the last 32 columns are whole.
  const std::int64_t cols = takes_wgmma_order(w.format) ? padded(w.in, 32) : w.in;
  maps.x =
      encode_tensor_map({.data = p.x,
                         .type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
                         .extent = {unsign(cols), unsign(p.rows), unsign(one_x ? 1 : w.count), 1},
                         .stride = {unsign(2 * p.x_stride), unsign(one_x ? 16 : 2 * p.x_matrix_stride), 16},
                         .box = {64, static_cast<std::uint32_t>(boxes.x_rows), 1, 1},
                         .swizzle = CU_TENSOR_MAP_SWIZZLE_128B});
  maps.weight = encode_tensor_map(weight_shape(w, p.gated, w.data,
                                               w.padded_in / boxes.cols * std::int64_t{boxes.weight_bytes},
                                               w.data_stride, boxes.weight_bytes, boxes.pairs));
  if (boxes.scale_bytes > 0) {
    maps.scale = encode_tensor_map(weight_shape(w, p.gated, w.scale,
                                                w.padded_in / boxes.cols * std::int64_t{boxes.scale_bytes},
                                                w.scale_stride, boxes.scale_bytes, boxes.pairs));
  }
  return maps;
}

ManyPlan plan_product(const Product& p, const ManyTiling& tiling, const ManyDevice& device) {
  // Row blocks whose part of W stays in the L2 cache while all rows of x pass.
  constexpr std::int32_t kGroup = 16;
  ManyPlan plan{};
  plan.loads = p.weight.padded_in / tiling.cols;
  plan.row_blocks =
      static_cast<std::int32_t>((padded(p.weight.out, kRowPadding) + tiling.w_rows - 1) / tiling.w_rows);
  plan.group = p.items != nullptr ? plan.row_blocks : std::min(plan.row_blocks, kGroup);
  plan.vector_y = p.y_dtype == DType::kBF16 && reinterpret_cast<std::uintptr_t>(p.y) % 16 == 0 &&
                  p.y_stride % 8 == 0 && p.y_matrix_stride % 8 == 0;
  plan.split = 1;
  if (p.items != nullptr) return plan;
  // Large tiles move less; small ones, and several blocks for one, fill the device where there are few. In
  // rows of x times loads: starting, storing and meeting take as long as some loads of many rows.
  const std::int64_t once = 8 * tiling.least_rows;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int32_t rows = tiling.x_rows; rows > 0; rows -= tiling.x_step) {
    if (rows - tiling.x_step >= p.rows) continue;
    const std::int64_t x_tiles = (p.rows + rows - 1) / rows;
    const std::int64_t tiles = x_tiles * plan.row_blocks * p.weight.count;
    for (std::int32_t split = 1; split <= kMostSplit && split <= plan.loads; ++split) {
      if (split > 1 && tiles > device.clusters[split - 1]) break;
      const std::int64_t rounds = (tiles + device.multiprocessors - 1) / device.multiprocessors;
      const std::int64_t a_load = std::max<std::int64_t>(rows + tiling.x_step / 2, tiling.least_rows);
      const std::int64_t cost =
          rounds * ((plan.loads + split - 1) / split * a_load + once) + (split > 1 ? once : 0);
      if (cost >= least) continue;
      least = cost;
      plan.tile_rows = rows;
      plan.x_tiles = static_cast<std::int32_t>(x_tiles);
      plan.tiles = static_cast<std::int32_t>(tiles);
      plan.split = split;
    }
  }
  return plan;
}

void launch_product_many_sm90(const Product& p, const ManyDevice& device, cudaStream_t stream) {
  TS_CHECK(can_tile(p) && p.x_rows == nullptr && p.rows > 0, p.rows);
  TS_CHECK((p.x_scale != nullptr) == takes_scaled_rows(p.weight.format), name_of(p.weight.format));
  switch (p.weight.format) {
    case WeightFormat::kBF16:
      return launch_many_bf16_sm90(p, device, stream);
    case WeightFormat::kFp8Block128:
      return launch_many_fp8_sm90(p, device, stream);
    case WeightFormat::kInt4Group32:
      return launch_many_int4_sm90(p, device, stream);
    case WeightFormat::kF32:
      break;
  }
}

}  // namespace tessera::cuda
