#include "stack/source/parallel_visit.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

namespace tessera::stack {
namespace {

constexpr std::size_t kMostThreads = 8;  // one disk feeds no more

// How far all layers together have come; called from every thread.
class SharedProgress {
 public:
  SharedProgress(const StageProgress& progress, std::uint64_t total) : progress_(progress), total_(total) {}
  void add(std::uint64_t bytes) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    progress_("layers", done_, total_);
  }

 private:
  const StageProgress& progress_;
  const std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

class CountedBytes final : public ByteSource {
 public:
  CountedBytes(ByteSource& from, SharedProgress& progress) : from_(from), progress_(progress) {}
  Result<std::string_view> next() override {
    TS_TRY(const std::string_view chunk, from_.next());
    progress_.add(chunk.size());
    return chunk;
  }

 private:
  ByteSource& from_;
  SharedProgress& progress_;
};

// Names are handed out in order, and one that was begun is finished: so the first name that fails is always
// found.
class NameQueue {
 public:
  explicit NameQueue(const std::set<std::string>& names) : next_(names.begin()), end_(names.end()) {}
  std::optional<std::string> take() {
    const std::lock_guard lock(mutex_);
    if (failed_ || next_ == end_) return std::nullopt;
    return *next_++;
  }
  void fail(const std::string& name, Error error) {
    const std::lock_guard lock(mutex_);
    if (failed_ && failed_->first < name) return;
    failed_.emplace(name, std::move(error));
  }
  // Once all threads have ended.
  Result<void> result() const {
    if (failed_) return failed_->second;
    return {};
  }

 private:
  std::mutex mutex_;
  std::set<std::string>::const_iterator next_;
  std::set<std::string>::const_iterator end_;
  std::optional<std::pair<std::string, Error>> failed_;
};

}  // namespace

Result<void> visit_in_parallel(const Container& container, const std::set<std::string>& names,
                               const ReadOptions& options, const Container::Visit& visit) {
  std::uint64_t total = 0;
  for (const std::string& name : names) total += container.size_of(name);
  SharedProgress progress(options.progress, total);
  const Container::Visit counted = [&](const std::string& name, ByteSource& bytes) {
    CountedBytes from(bytes, progress);
    return visit(name, from);
  };
  const std::size_t threads =
      std::min({names.size(), kMostThreads, std::max<std::size_t>(std::thread::hardware_concurrency(), 1)});
  if (threads < 2 || !container.is_random_access()) return container.visit(names, counted);

  NameQueue queue(names);
  const auto work = [&] {
    while (const std::optional<std::string> name = queue.take()) {
      Result<void> done = container.visit({*name}, counted);
      if (!done) queue.fail(*name, std::move(done).error());
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return queue.result();
}

}  // namespace tessera::stack
