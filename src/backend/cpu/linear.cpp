#include "backend/cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/block_product.h"
#include "backend/cpu/panel_product.h"
#include "base/check.h"

namespace tessera {
namespace {

// Few rows: a pair of panels an item, which is what one row needs to keep the multiply-add units busy.
constexpr std::int64_t kFewRowsPanels = 2;

// Many rows: an item is 4 panels x at most 240 rows. Widened, 128 inputs of 4 panels are 64 KiB and the rows'
// inputs 135 KiB, which the L2 cache holds; 240 is a multiple of the 12 and 6 rows of a register tile.
constexpr std::int64_t kGroupPanels = 4;
static_assert(kChunkRows % 12 == 0);

constexpr std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void many_rows(const PackedMatrix& m, std::int64_t first_panel, std::int64_t last_panel,
               const LinearRows& all) {
  alignas(64) float weights[kGroupPanels][kDepthBlock * kPanel];
  alignas(64) float inputs[kChunkRows * kFixedStride];
  alignas(64) float edge[kChunkRows * kPanel];  // outputs of a last panel that is not full
  alignas(64) float scale[kPanel];
  const bool scaled = m.format == WeightFormat::kFp8Block128 || m.format == WeightFormat::kInt4Group32;
  const std::int64_t length = sum_length(m.format);
  const bool has_edge = last_panel * kPanel > m.out;

  for (std::int64_t from = 0; from < m.in; from += kDepthBlock) {
    const std::int64_t depth = std::min(kDepthBlock, m.in - from);
    for (std::int64_t r = 0; r < all.rows; ++r) {
      std::memcpy(inputs + r * kFixedStride, all.x_row(r) + from,
                  static_cast<std::size_t>(depth) * sizeof(float));
    }
    for (std::int64_t panel = first_panel; panel < last_panel; ++panel) {
      float* block = weights[panel - first_panel];
      unpack_block(m, panel, from, depth, block);
      const bool is_edge = has_edge && panel + 1 == last_panel;
      BlockProduct product{.a = inputs,
                           .a_stride = kFixedStride,
                           .b = block,
                           .b_stride = kPanel,
                           .c = is_edge ? edge : all.y + panel * kPanel,
                           .c_stride = is_edge ? kPanel : all.y_stride,
                           .rows = all.rows,
                           .cols = kPanel,
                           .depth = depth,
                           .first = from == 0};
      if (!scaled) {
        multiply_fixed(product);
        continue;
      }
      for (std::int64_t at = 0; at < depth; at += length) {
        unpack_scale(m, panel, from + at, scale);
        product.a = inputs + at;
        product.b = block + at * kPanel;
        product.depth = std::min(length, depth - at);
        product.scale = scale;
        product.first = from + at == 0;
        multiply_fixed(product);
      }
    }
  }
  if (has_edge) {
    const std::int64_t first = (last_panel - 1) * kPanel;
    for (std::int64_t r = 0; r < all.rows; ++r) {
      std::memcpy(all.y + r * all.y_stride + first, edge + r * kPanel,
                  static_cast<std::size_t>(m.out - first) * sizeof(float));
    }
  }
}

}  // namespace

std::int64_t linear_items(const PackedMatrix& matrix, std::int64_t rows) {
  if (rows <= most_fused_rows()) return rows == 0 ? 0 : div_up(matrix.panels(), kFewRowsPanels);
  return div_up(matrix.panels(), kGroupPanels) * div_up(rows, kChunkRows);
}

void linear_panels(const PackedMatrix& matrix, std::int64_t first, std::int64_t last,
                   const LinearRows& rows) {
  TS_DCHECK(rows.rows <= kChunkRows, rows.rows, kChunkRows);
  if (rows.rows > most_fused_rows()) {
    for (std::int64_t panel = first; panel < last; panel += kGroupPanels) {
      many_rows(matrix, panel, std::min(last, panel + kGroupPanels), rows);
    }
  } else if (rows.rows > 0) {
    PanelProduct product{.y = rows.y, .y_stride = rows.y_stride, .rows = static_cast<int>(rows.rows)};
    for (std::int64_t r = 0; r < rows.rows; ++r) product.x[r] = rows.x_row(r);
    panel_product(matrix, first, last, product);
  }
}

void run_linear_item(const PackedMatrix& matrix, const LinearRows& rows, std::int64_t item) {
  const bool few = rows.rows <= most_fused_rows();
  const std::int64_t panels = few ? kFewRowsPanels : kGroupPanels;
  const std::int64_t chunks = few ? 1 : div_up(rows.rows, kChunkRows);
  const std::int64_t first = item / chunks * panels;
  const ItemRange part = static_share(rows.rows, chunks, item % chunks);
  linear_panels(matrix, first, std::min(matrix.panels(), first + panels),
                rows.part(part.first, part.last - part.first));
}

void linear(ThreadPool& pool, const PackedMatrix& matrix, const LinearRows& rows) {
  const std::int64_t items = linear_items(matrix, rows.rows);
  const auto run = [&](ItemRange range, int) {
    for (std::int64_t item = range.first; item < range.last; ++item) run_linear_item(matrix, rows, item);
  };
  if (matrix.in * matrix.out * rows.rows < kWorthSplitting) {
    run({0, items}, 0);
  } else {
    pool.split(items, run);
  }
}

}  // namespace tessera
