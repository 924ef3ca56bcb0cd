#include "model/context_exchange.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/check.h"
#include "model/layers.h"

namespace tessera {

void ContextExchange::plan(Arena& arena, Communicator* dcp, DcpExchange exchange, const Sizes& sizes) {
  dcp_ = dcp;
  exchange_ = exchange;
  sizes_ = sizes;
  ranks_ = dcp->size();
  const std::int64_t key = sizes.heads * sizes.key_dim;
  received_queries_ = arena.take(sizes.dtype, ranks_ * sizes.tokens, key);
  queries_ = arena.take(sizes.dtype, sizes.tokens, ranks_ * key);
  out_ = arena.take(sizes.dtype, sizes.tokens, ranks_ * sizes.heads * sizes.value_dim);
  lse_ = arena.take(DType::kF32, sizes.tokens, ranks_ * sizes.heads);
  // Room for either way, so that memory does not depend on which is faster: reduce-scatter sends every
  // log-sum-exp to everybody.
  const std::int64_t message = output_bytes(sizes.tokens) + lse_bytes(sizes.tokens) * ranks_;
  sent_ = arena.take_bytes(static_cast<std::size_t>(ranks_ * message));
  received_ = arena.take_bytes(static_cast<std::size_t>(ranks_ * message));
}

Tensor ContextExchange::gather_queries(Backend& backend, const Tensor& q) const {
  TS_CHECK(q.is_dense() && q.cols == sizes_.heads * sizes_.key_dim, q.cols, q.stride, sizes_.heads);
  const std::int64_t bytes = q.size() * bytes_of(q.dtype);
  dcp_->all_gather(q.data, received_queries_.data, static_cast<std::size_t>(bytes));
  const Tensor all = Tensor::dense(queries_.data, q.dtype, q.rows, ranks_ * q.cols);
  backend.join_columns({Tensor::dense(received_queries_.data, q.dtype, q.rows, q.cols), ranks_, bytes}, all);
  return all;
}

ContextExchange::Partial ContextExchange::partial(std::int64_t tokens) const {
  return {out_.row_range(0, tokens), lse_.row_range(0, tokens)};
}

void ContextExchange::combine(Backend& backend, const Tensor& out) const {
  if (exchange_ == DcpExchange::kAllToAll) {
    combine_by_all_to_all(backend, out);
  } else {
    combine_by_reduce_scatter(backend, out);
  }
}

Parts ContextExchange::outputs_in(void* messages, std::int64_t tokens, std::int64_t step) const {
  return {Tensor::dense(messages, sizes_.dtype, tokens, sizes_.heads * sizes_.value_dim), ranks_, step};
}
Parts ContextExchange::lses_in(void* messages, std::int64_t tokens, std::int64_t step) const {
  void* first = static_cast<char*>(messages) + output_bytes(tokens);
  return {Tensor::dense(first, DType::kF32, tokens, sizes_.heads), ranks_, step};
}

void ContextExchange::combine_by_all_to_all(Backend& backend, const Tensor& out) const {
  const std::int64_t tokens = out.rows;
  const std::int64_t message = output_bytes(tokens) + lse_bytes(tokens);
  backend.split_columns(out_.row_range(0, tokens), outputs_in(sent_, tokens, message));
  backend.split_columns(lse_.row_range(0, tokens), lses_in(sent_, tokens, message));
  dcp_->all_to_all(sent_, received_, static_cast<std::size_t>(message));
  backend.merge_partials(outputs_in(received_, tokens, message), lses_in(received_, tokens, message),
                         sizes_.heads, out, Tensor{});
}

void ContextExchange::combine_by_reduce_scatter(Backend& backend, const Tensor& out) const {
  const std::int64_t tokens = out.rows;
  const Tensor part = out_.row_range(0, tokens);
  const Tensor lse = lse_.row_range(0, tokens);
  const std::int64_t all_lses = ranks_ * lse_bytes(tokens);  // of one rank, for all heads of the group
  dcp_->all_gather(lse.data, received_, static_cast<std::size_t>(all_lses));
  const Parts lses{Tensor::dense(received_, DType::kF32, tokens, lse.cols), ranks_, all_lses};
  backend.weigh_partial(lses, dcp_->rank(), lse.cols, part);
  backend.split_columns(part, outputs_in(sent_, tokens, output_bytes(tokens)));
  TS_CHECK(out.is_dense(), out.cols, out.stride);
  dcp_->reduce_scatter(sent_, out.data, sizes_.dtype, out.size());
}

MeasuredExchange measure_exchange(Backend& backend, Communicator& dcp, const ContextExchange::Sizes& sizes) {
  using Clock = std::chrono::steady_clock;
  const auto median_us = [&](DcpExchange way) {
    ContextExchange exchange;
    Tensor out;
    std::size_t bytes = 0;
    const Buffer storage = fill_arena(backend, bytes, [&](Arena& arena) {
      exchange.plan(arena, &dcp, way, sizes);
      out = arena.take(sizes.dtype, sizes.tokens, sizes.heads * sizes.value_dim);
    });
    std::array<double, 7> times{};
    for (double& time : times) {
      backend.synchronise();
      dcp.barrier();
      const auto begin = Clock::now();
      exchange.combine(backend, out);
      backend.synchronise();
      time = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    }
    std::ranges::nth_element(times, times.begin() + times.size() / 2);
    return times[times.size() / 2];
  };
  MeasuredExchange measured;
  measured.all_to_all_us = median_us(DcpExchange::kAllToAll);
  measured.reduce_scatter_us = median_us(DcpExchange::kReduceScatter);
  // By way of the device: a group of GPUs knows no other memory.
  std::array<double, 2> times = {measured.all_to_all_us, measured.reduce_scatter_us};
  const Buffer on_device = backend.allocate(sizeof times);
  backend.copy_to_device(on_device.get(), times.data(), sizeof times);
  dcp.broadcast(on_device.get(), sizeof times, 0);
  backend.copy_to_host(times.data(), on_device.get(), sizeof times);
  backend.synchronise();
  measured.all_to_all_us = times[0];
  measured.reduce_scatter_us = times[1];
  if (measured.reduce_scatter_us < measured.all_to_all_us) measured.faster = DcpExchange::kReduceScatter;
  return measured;
}

}  // namespace tessera
