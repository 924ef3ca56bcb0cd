#include "backend/cpu/experts.h"

#include <algorithm>

#include "backend/cpu/linear.h"
#include "backend/cpu/row_ops.h"

namespace tessera {
namespace {

// Outputs of the down projection that a thread owns at a time: 4 panels, as in a plain product.
constexpr std::int64_t kDownPanels = 4;
constexpr std::int64_t kDownCols = kDownPanels * kPanel;

struct Order {
  Order(Carver carver, std::int64_t experts, std::int64_t pairs)
      : start(carver.take<std::int32_t>(experts + 1)),
        token(carver.take<std::int32_t>(pairs)),
        weight(carver.take<float>(pairs)),
        bytes(carver.used()) {}
  std::int32_t* start;  // [experts + 1]: pairs of expert e are [start[e], start[e + 1])
  std::int32_t* token;  // [pairs]
  float* weight;        // [pairs]
  std::size_t bytes;
};

// Counting sort of (token, choice) by expert, tokens in order within an expert.
void sort_by_expert(const Tensor& ids, const Tensor& weights, std::int64_t first_expert, std::int64_t experts,
                    const Order& order) {
  std::fill_n(order.start, experts + 1, 0);
  const auto local = [&](std::int64_t t, std::int64_t k) {
    return ids.row<std::int32_t>(t)[k] - first_expert;
  };
  for (std::int64_t t = 0; t < ids.rows; ++t) {
    for (std::int64_t k = 0; k < ids.cols; ++k) {
      const std::int64_t e = local(t, k);
      if (e >= 0 && e < experts) ++order.start[e + 1];
    }
  }
  for (std::int64_t e = 0; e < experts; ++e) order.start[e + 1] += order.start[e];
  for (std::int64_t t = 0; t < ids.rows; ++t) {
    for (std::int64_t k = 0; k < ids.cols; ++k) {
      const std::int64_t e = local(t, k);
      if (e < 0 || e >= experts) continue;
      const std::int32_t at = order.start[e]++;
      order.token[at] = static_cast<std::int32_t>(t);
      order.weight[at] = weights.row<float>(t)[k];
    }
  }
  for (std::int64_t e = experts; e > 0; --e) order.start[e] = order.start[e - 1];
  order.start[0] = 0;
}

// Calls body(expert, item of that expert) for the items [range.first, range.last) of all experts' lists
// together.
template <class Items, class Body>
void walk_items(std::int64_t experts, ItemRange range, const Items& items_of, const Body& body) {
  std::int64_t base = 0;
  for (std::int64_t e = 0; e < experts && base < range.last; ++e) {
    const std::int64_t here = items_of(e);
    for (std::int64_t i = std::max(range.first, base); i < std::min(range.last, base + here); ++i)
      body(e, i - base);
    base += here;
  }
}

}  // namespace

void reserve_experts(ExpertScratch& scratch, int threads, std::int64_t pairs, std::int64_t experts,
                     std::int64_t gate_up) {
  scratch.order.at_least(Order(Carver(nullptr), experts, pairs).bytes);
  scratch.hidden.at_least(static_cast<std::size_t>(pairs * gate_up) * sizeof(float));
  scratch.threads.resize(static_cast<std::size_t>(threads));
  for (Scratch& thread : scratch.threads) {
    thread.at_least(static_cast<std::size_t>(std::min(pairs, kChunkRows) * kDownCols) * sizeof(float));
  }
}

void run_experts(ThreadPool& pool, ExpertScratch& scratch, const Tensor& x, const Tensor& ids,
                 const Tensor& weights, std::int64_t first_expert, const WeightStack& gate_up,
                 const WeightStack& down, const Tensor& out) {
  const std::int64_t experts = gate_up.count;
  const std::int64_t width = gate_up.out / 2;
  const std::int64_t pairs = ids.rows * ids.cols;
  if (pairs == 0) return;
  reserve_experts(scratch, pool.size(), pairs, experts, gate_up.out);
  const Order order(Carver(scratch.order.at_least(0)), experts, pairs);
  sort_by_expert(ids, weights, first_expert, experts, order);
  auto* hidden = reinterpret_cast<float*>(scratch.hidden.at_least(0));  // [pairs, 2 * width]
  const auto rows_of = [&](std::int64_t e) { return std::int64_t{order.start[e + 1]} - order.start[e]; };

  const auto gate_up_items = [&](std::int64_t e) { return linear_items(packed(gate_up, e), rows_of(e)); };
  std::int64_t items = 0;
  for (std::int64_t e = 0; e < experts; ++e) items += gate_up_items(e);
  pool.split(items, [&](ItemRange range, int) {
    walk_items(experts, range, gate_up_items, [&](std::int64_t e, std::int64_t item) {
      const std::int64_t first = order.start[e];
      run_linear_item(packed(gate_up, e),
                      {.x = x.row<float>(0),
                       .x_stride = x.stride,
                       .x_rows = order.token + first,
                       .y = hidden + first * gate_up.out,
                       .y_stride = gate_up.out,
                       .rows = rows_of(e)},
                      item);
    });
  });

  pool.split(order.start[experts], [&](ItemRange range, int) {
    for (std::int64_t pair = range.first; pair < range.last; ++pair) {
      float* row = hidden + pair * gate_up.out;
      silu_mul_row(row, row + width, width, row);  // over the gate
    }
  });

  // A thread owns some columns of `out` and adds all experts to them, so no two threads meet in one place.
  const std::int64_t panels = (down.out + kPanel - 1) / kPanel;
  pool.split((panels + kDownPanels - 1) / kDownPanels, [&](ItemRange range, int thread) {
    auto* part = reinterpret_cast<float*>(scratch.threads[static_cast<std::size_t>(thread)].at_least(0));
    for (std::int64_t item = range.first; item < range.last; ++item) {
      const std::int64_t first_panel = item * kDownPanels;
      const std::int64_t last_panel = std::min(panels, first_panel + kDownPanels);
      const std::int64_t col = first_panel * kPanel;
      const std::int64_t cols = std::min(down.out, last_panel * kPanel) - col;
      for (std::int64_t t = 0; t < out.rows; ++t) std::fill_n(out.row<float>(t) + col, cols, 0.0F);
      for (std::int64_t e = 0; e < experts; ++e) {
        for (std::int64_t done = 0; done < rows_of(e); done += kChunkRows) {
          const std::int64_t first = order.start[e] + done;
          const std::int64_t rows = std::min(kChunkRows, rows_of(e) - done);
          linear_panels(packed(down, e), first_panel, last_panel,
                        {.x = hidden + first * gate_up.out,
                         .x_stride = gate_up.out,
                         .y = part - col,  // column `col` of y is the first of `part`
                         .y_stride = kDownCols,
                         .rows = rows});
          for (std::int64_t r = 0; r < rows; ++r) {
            add_scaled_row(part + r * kDownCols, order.weight[first + r], cols,
                           out.row<float>(order.token[first + r]) + col);
          }
        }
      }
    }
  });
}

}  // namespace tessera
