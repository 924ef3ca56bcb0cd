#include "bench/load/decode_window.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "bench/report/statistics.h"

namespace tessera::bench {

DecodeFigures measure_window(std::span<const StreamTrace* const> streams, const Window& window, int slices) {
  TS_CHECK(window.end > window.begin && slices >= 4, window.begin, window.end, slices);
  DecodeFigures out;
  const double slice_s = (window.end - window.begin) / slices;
  std::vector<double> tokens(static_cast<std::size_t>(slices), 0.0);
  std::vector<std::vector<double>> gaps(tokens.size());
  const auto slice_of = [&](double at) {
    return std::clamp(static_cast<int>((at - window.begin) / slice_s), 0, slices - 1);
  };
  for (const StreamTrace* stream : streams) {
    for (std::size_t i = 1; i < stream->arrivals.size(); ++i) {
      const TokenArrival& arrival = stream->arrivals[i];
      const double from = stream->arrivals[i - 1].at;
      if (arrival.at <= window.begin || from >= window.end) continue;
      const double gap = std::max(arrival.at - from, 1e-9);
      for (int s = slice_of(from); s <= slice_of(arrival.at); ++s) {
        const double begin = window.begin + s * slice_s;
        const double overlap = std::min(arrival.at, begin + slice_s) - std::max(from, begin);
        if (overlap > 0) tokens[static_cast<std::size_t>(s)] += arrival.tokens * overlap / gap;
      }
      if (arrival.at < window.end) {
        out.gaps_ms.push_back(gap * 1e3);
        gaps[static_cast<std::size_t>(slice_of(arrival.at))].push_back(gap * 1e3);
      }
    }
  }
  double sum = 0;
  for (const double one : tokens) {
    sum += one;
    out.slices.push_back(one / slice_s);
  }
  out.tokens_per_s = sum / (window.end - window.begin);
  for (const std::vector<double>& one : gaps) {
    if (!one.empty()) out.slice_gap_p99_ms.push_back(percentile(one, 0.99));
  }

  // A stream that waits to be scheduled, or was preempted, is silent for much longer than a step takes.
  const double silence = std::max(1.0, 8 * median(out.gaps_ms) * 1e-3);
  double decoding = 0;
  for (const StreamTrace* stream : streams) {
    for (std::size_t i = 1; i < stream->arrivals.size(); ++i) {
      const double from = std::max(stream->arrivals[i - 1].at, window.begin);
      const double to = std::min(stream->arrivals[i].at, window.end);
      if (to > from && stream->arrivals[i].at - stream->arrivals[i - 1].at <= silence) decoding += to - from;
    }
    // The gap that the window's end cuts has no arrival yet.
    if (stream->has_begun() && !stream->is_over()) {
      const double from = std::max(stream->arrivals.back().at, window.begin);
      if (window.end > from && window.end - stream->arrivals.back().at <= silence)
        decoding += window.end - from;
    }
  }
  out.effective_concurrency = decoding / (window.end - window.begin);

  const auto quarter = static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, out.slices.size() / 4));
  const std::vector<double> first(out.slices.begin(), out.slices.begin() + quarter);
  const std::vector<double> rest(out.slices.begin() + quarter, out.slices.end());
  out.first_part = median(rest) > 0 ? mean(first) / median(rest) : 1;
  return out;
}

}  // namespace tessera::bench
