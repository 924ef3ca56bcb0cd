#include "checkpoint/load_progress.h"

#include <algorithm>
#include <cstdio>

namespace tessera {
namespace {

double gigabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e9; }
double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// Small models are counted in MB, so that the figures move.
struct Unit {
  const char* name;
  double bytes;
  double of(std::int64_t count) const { return static_cast<double>(count) / bytes; }
};
Unit unit_of(std::int64_t total_bytes) {
  return total_bytes < 1'000'000'000 ? Unit{"MB", 1e6} : Unit{"GB", 1e9};
}

}  // namespace

LoadProgress::LoadProgress(Options options) : options_(std::move(options)), start_(0), next_line_ns_(0) {
  if (!options_.clock) options_.clock = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
  start_ = options_.clock();
  next_line_ns_ = (start_ + options_.every).count();
}

void LoadProgress::add(std::int64_t bytes) {
  done_.fetch_add(bytes, std::memory_order_relaxed);
  const std::int64_t now = options_.clock().count();
  std::int64_t due = next_line_ns_.load(std::memory_order_relaxed);
  if (now < due) return;
  // The one thread that moves the due time on prints.
  if (next_line_ns_.compare_exchange_strong(due, now + std::chrono::nanoseconds(options_.every).count()) &&
      options_.sink) {
    options_.sink(line());
  }
}

double LoadProgress::fraction() const {
  if (options_.total_bytes <= 0) return 1;
  return std::min(1.0, static_cast<double>(done_bytes()) / static_cast<double>(options_.total_bytes));
}

std::string LoadProgress::line() const {
  const std::int64_t done = std::min(done_bytes(), options_.total_bytes);  // ranks may share bytes
  const double elapsed = seconds(options_.clock() - start_);
  const double rate = elapsed > 0 ? gigabytes(done) / elapsed : 0;  // GB/s
  char text[200];
  const Unit unit = unit_of(options_.total_bytes);
  int length =
      std::snprintf(text, sizeof text, ": %.1f of %.1f %s (%d %%), %.2f GB/s", unit.of(done),
                    unit.of(options_.total_bytes), unit.name, static_cast<int>(fraction() * 100), rate);
  const std::int64_t left = options_.total_bytes - done;
  if (rate > 0 && left > 0) {
    length += std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), ", %.0f s left",
                            gigabytes(left) / rate);
  }
  return options_.label + std::string(text, static_cast<std::size_t>(length));
}

void LoadProgress::finish() {
  if (!options_.sink) return;
  const double elapsed = seconds(options_.clock() - start_);
  char text[200];
  std::snprintf(text, sizeof text, ": %.1f %s in %.1f s, %.2f GB/s",
                unit_of(options_.total_bytes).of(done_bytes()), unit_of(options_.total_bytes).name, elapsed,
                elapsed > 0 ? gigabytes(done_bytes()) / elapsed : 0.0);
  options_.sink(options_.label + text);
}

}  // namespace tessera
