#include "engine/rank_group.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {

struct RankGroup::Shared {
  struct Rank {
    std::unique_ptr<Communicator> communicator;
    std::unique_ptr<StepRunner> runner;  // made, used and destroyed on the rank's thread
    StepResult* result = nullptr;
    std::uint64_t done = 0;          // jobs finished
    std::string failure;             // of the last job
    bool failed_first_hand = false;  // it did not merely see another rank fail
  };

  std::chrono::milliseconds deadline;
  std::mutex mutex;
  std::condition_variable job;
  std::condition_variable finished;
  std::uint64_t jobs = 0;  // 1: make the runner; then a step each
  const StepPlan* plan = nullptr;
  bool stopping = false;
  bool abandoned = false;
  std::vector<Rank> ranks;

  void run(std::size_t index, const MakeRunner& make_runner);
  bool all_done() const {
    return std::ranges::all_of(ranks, [&](const Rank& rank) { return rank.done >= jobs; });
  }
  bool any_failed() const {
    return std::ranges::any_of(ranks, [](const Rank& rank) { return !rank.failure.empty(); });
  }
  std::string describe_failure() const;
};

Result<std::unique_ptr<RankGroup>> RankGroup::create(std::vector<std::unique_ptr<Communicator>> communicators,
                                                     const MakeRunner& make_runner,
                                                     std::chrono::milliseconds deadline) {
  const auto shared = std::make_shared<Shared>();
  shared->deadline = deadline;
  for (auto& communicator : communicators) {
    shared->ranks.emplace_back();
    shared->ranks.back().communicator = std::move(communicator);
  }
  std::optional<Error> first_error;  // written under the lock by threads that end before this function does
  const MakeRunner keep_error = [&](Communicator& tp) -> Result<std::unique_ptr<StepRunner>> {
    auto made = make_runner(tp);
    if (!made) {
      const std::lock_guard lock(shared->mutex);
      if (!first_error) first_error = made.error();
    }
    return made;
  };
  std::unique_ptr<RankGroup> group(new RankGroup(shared));
  shared->jobs = 1;
  for (std::size_t r = 0; r < shared->ranks.size(); ++r) {
    group->threads_.emplace_back([shared, r, &keep_error] { shared->run(r, keep_error); });
  }
  std::unique_lock lock(shared->mutex);
  // Loading takes as long as it takes: no deadline, but every thread ends by itself.
  shared->finished.wait(lock, [&] { return shared->all_done(); });
  if (first_error) return *std::move(first_error);
  if (shared->any_failed()) return Error{ErrorKind::kInternal, "", shared->describe_failure()};
  lock.unlock();
  return group;
}

RankGroup::~RankGroup() {
  bool abandoned = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    shared_->job.notify_all();
    abandoned = shared_->abandoned;
  }
  for (std::thread& thread : threads_) {
    if (abandoned) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void RankGroup::Shared::run(std::size_t index, const MakeRunner& make_runner) {
  Rank& rank = ranks[index];
  for (std::uint64_t next = 1;; ++next) {
    const StepPlan* next_plan = nullptr;
    {
      std::unique_lock lock(mutex);
      job.wait(lock, [&] { return stopping || jobs >= next; });
      if (stopping) break;
      next_plan = plan;
    }
    std::string failure;
    bool first_hand = true;
    try {
      if (next == 1) {
        auto made = make_runner(*rank.communicator);
        if (made) {
          rank.runner = *std::move(made);
        } else {
          failure = made.error().message();
        }
      } else {
        rank.result = &rank.runner->step(*next_plan);
      }
    } catch (const CommError& error) {
      failure = error.what();
      first_hand = false;
    } catch (const std::exception& error) {
      failure = error.what();
    }
    const bool failed = !failure.empty();
    // Destroyed before `done` is told: it wakes the ranks that wait for this one, and a runner may borrow
    // from our creator.
    if (failed) {
      rank.runner.reset();
      rank.communicator.reset();
    }
    const std::lock_guard lock(mutex);
    rank.failure = std::move(failure);
    rank.failed_first_hand = failed && first_hand;
    rank.done = next;
    finished.notify_all();
    if (failed) return;
  }
  rank.runner.reset();
}

std::string RankGroup::Shared::describe_failure() const {
  std::string message;
  for (std::size_t r = 0; r < ranks.size() && message.empty(); ++r) {
    if (ranks[r].failed_first_hand) message = "rank " + std::to_string(r) + ": " + ranks[r].failure;
  }
  for (std::size_t r = 0; r < ranks.size() && message.empty(); ++r) message = ranks[r].failure;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].done < jobs) message += "; rank " + std::to_string(r) + " is stuck";
  }
  return message;
}

void RankGroup::set_listener(Listener listener) {
  const std::lock_guard lock(shared_->mutex);
  shared_->ranks.front().runner->set_listener(std::move(listener));
}

StepResult& RankGroup::step(const StepPlan& plan) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->any_failed()) throw std::runtime_error(shared_->describe_failure());
  shared_->plan = &plan;
  ++shared_->jobs;
  shared_->job.notify_all();
  shared_->finished.wait(lock, [&] { return shared_->all_done() || shared_->any_failed(); });
  if (!shared_->any_failed()) return *shared_->ranks.front().result;

  // The others see the failure at their next collective; a rank that is stuck elsewhere is given up.
  if (!shared_->finished.wait_for(lock, shared_->deadline, [&] { return shared_->all_done(); }))
    shared_->abandoned = true;
  throw std::runtime_error(shared_->describe_failure());
}

}  // namespace tessera
