#include "comm/mpi/process_group.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/check.h"
#include "comm/communicator.h"

namespace tessera {
namespace {

// Buffers grow to the largest collective, then stay.
void grow(std::vector<std::byte>& buffer, std::size_t bytes) {
  if (buffer.size() < bytes) buffer.resize(bytes);
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

GroupLayout layout_of_colour(const GroupLayout& parent, const std::vector<int>& colours, int colour) {
  GroupLayout child{.processes = {}, .first = {0}, .here = -1};
  for (std::size_t p = 0; p < parent.processes.size(); ++p) {
    const auto begin = colours.begin() + parent.first[p];
    const auto members = static_cast<int>(std::count(begin, begin + parent.ranks_of(p), colour));
    if (members == 0) continue;
    if (static_cast<int>(p) == parent.here) child.here = static_cast<int>(child.processes.size());
    child.processes.push_back(parent.processes[p]);
    child.first.push_back(child.first.back() + members);
  }
  TS_CHECK(child.here >= 0, colour);
  return child;
}

ProcessGroup::ProcessGroup(MpiSession& session, GroupLayout layout, std::string name, int tag,
                           std::chrono::milliseconds deadline)
    : session_(session),
      layout_(std::move(layout)),
      name_(std::move(name)),
      deadline_(deadline),
      here_(static_cast<std::size_t>(layout_.ranks_here())),
      in_(static_cast<std::size_t>(layout_.ranks_here())),
      messages_(session, tag) {}

void ProcessGroup::gather(int local, const void* in, std::size_t bytes, const char* operation) {
  meet(local, in, operation, [&] {
    grow(received_, static_cast<std::size_t>(layout_.size()) * bytes);
    std::byte* const own = received_.data() + static_cast<std::size_t>(layout_.first_here()) * bytes;
    for (std::size_t m = 0; m < in_.size(); ++m) copy(own + m * bytes, in_[m], bytes);
    sends_.clear();
    receives_.clear();
    for (std::size_t p = 0; p < layout_.processes.size(); ++p) {
      if (static_cast<int>(p) == layout_.here) continue;
      sends_.push_back({layout_.processes[p], {own, in_.size() * bytes}});
      receives_.push_back({layout_.processes[p],
                           {received_.data() + static_cast<std::size_t>(layout_.first[p]) * bytes,
                            static_cast<std::size_t>(layout_.ranks_of(p)) * bytes}});
    }
    exchange(operation);
  });
}

void ProcessGroup::exchange_parts(int local, const void* in, std::size_t bytes, const char* operation) {
  meet(local, in, operation, [&] {
    // The block of process p begins at first[p] * ranks_here parts. Sent: [ranks here, ranks of p]; received:
    // [ranks of p, ranks here]. This process's own block goes straight to where it would have been received.
    const std::size_t mine = in_.size();
    grow(sent_, static_cast<std::size_t>(layout_.size()) * mine * bytes);
    grow(received_, static_cast<std::size_t>(layout_.size()) * mine * bytes);
    sends_.clear();
    receives_.clear();
    for (std::size_t p = 0; p < layout_.processes.size(); ++p) {
      const auto first = static_cast<std::size_t>(layout_.first[p]);
      const std::size_t row = static_cast<std::size_t>(layout_.ranks_of(p)) * bytes;
      const bool own = static_cast<int>(p) == layout_.here;
      std::byte* const block = (own ? received_ : sent_).data() + first * mine * bytes;
      for (std::size_t m = 0; m < mine; ++m)
        copy(block + m * row, static_cast<const std::byte*>(in_[m]) + first * bytes, row);
      if (own) continue;
      sends_.push_back({layout_.processes[p], {block, mine * row}});
      receives_.push_back({layout_.processes[p], {received_.data() + first * mine * bytes, mine * row}});
    }
    exchange(operation);
  });
}

void ProcessGroup::broadcast(int local, const void* data, std::size_t bytes, int root) {
  meet(local, data, "broadcast", [&] {
    grow(received_, bytes);
    sends_.clear();
    receives_.clear();
    const int root_local = root - layout_.first_here();
    if (root_local >= 0 && root_local < layout_.ranks_here()) {
      copy(received_.data(), in_[static_cast<std::size_t>(root_local)], bytes);
      for (const int process : layout_.processes) {
        if (process != session_.process()) sends_.push_back({process, {received_.data(), bytes}});
      }
    } else {
      const auto after = std::ranges::upper_bound(layout_.first, root);
      const auto place = static_cast<std::size_t>(after - layout_.first.begin() - 1);
      receives_.push_back({layout_.processes[place], {received_.data(), bytes}});
    }
    exchange("broadcast");
  });
}

ProcessGroup::Child ProcessGroup::split(int local, int colour, const std::string& name) {
  // Tags that no other group may use come from the process of rank 0; each colour then has the next of them.
  struct Choice {
    int colour;
    int tag;  // of rank 0 only
  };
  const bool first = layout_.first_here() + local == 0;
  const Choice choice{colour, first ? session_.reserve_tags(layout_.size()) : 0};
  gather(local, &choice, sizeof choice, "split");
  meet(local, &name, "split", [&] {
    std::vector<Choice> choices(static_cast<std::size_t>(layout_.size()));
    copy(choices.data(), received_.data(), choices.size() * sizeof(Choice));
    std::vector<int> colours;
    for (const Choice& one : choices) colours.push_back(one.colour);
    const std::set<int> distinct(colours.begin(), colours.end());
    const int stride = session_.processes();
    std::map<int, Child> groups;  // the next member of each colour
    children_.clear();
    for (std::size_t m = 0; m < in_.size(); ++m) {
      const int own = colours[static_cast<std::size_t>(layout_.first_here()) + m];
      Child& child = groups[own];
      if (!child.group) {
        const auto place = static_cast<int>(std::distance(distinct.begin(), distinct.find(own)));
        child.group = std::make_shared<ProcessGroup>(session_, layout_of_colour(layout_, colours, own),
                                                     *static_cast<const std::string*>(in_[m]),
                                                     choices[0].tag + place * stride, deadline_);
      }
      children_.push_back(child);
      ++child.local;
    }
  });
  return std::move(children_[static_cast<std::size_t>(local)]);
}

void ProcessGroup::exchange(const char* operation) {
  if (sends_.empty() && receives_.empty()) return;
  std::vector<int> missing;
  try {
    missing = messages_.run(sends_, receives_, deadline_);
  } catch (const std::exception& error) {
    session_.keep(shared_from_this());
    throw CommError(std::string(operation) + " in " + name_ + ": " + error.what());
  }
  if (missing.empty()) return;
  session_.keep(shared_from_this());
  std::string who;
  for (const int process : missing) {
    const auto place =
        static_cast<std::size_t>(std::ranges::find(layout_.processes, process) - layout_.processes.begin());
    const int begin = layout_.first[place];
    const int last = layout_.first[place + 1] - 1;
    who += (who.empty() ? "process " : ", process ") + std::to_string(process) +
           (begin == last ? " (rank " : " (ranks " + std::to_string(begin) + " to ") + std::to_string(last) +
           ")";
  }
  throw CommError(std::string(operation) + " in " + name_ + ": " + who + " did not come within " +
                  std::to_string(deadline_.count()) + " ms");
}

void ProcessGroup::leave(int local) {
  const std::lock_guard lock(mutex_);
  left_ = local;
  if (waiting_ > 0) fail(left_message());
}

std::string ProcessGroup::left_message() const {
  return "rank " + std::to_string(layout_.first_here() + left_) + " of " + name_ + " has left";
}

void ProcessGroup::fail(std::string why) {
  if (failure_.empty()) failure_ = std::move(why);
  all_came_.notify_all();
}

template <class Work>
void ProcessGroup::meet(int local, const void* published, const char* operation, const Work& work) {
  std::unique_lock lock(mutex_);
  if (left_ >= 0) fail(left_message());
  if (!failure_.empty()) throw CommError(failure_);
  in_[static_cast<std::size_t>(local)] = published;
  const std::uint64_t mine = ++here_[static_cast<std::size_t>(local)];
  if (++waiting_ == static_cast<int>(in_.size())) {
    waiting_ = 0;
    started_ = mine;
    lock.unlock();
    try {
      work();
    } catch (const std::exception& error) {  // told to the others, who wait for this thread alone
      lock.lock();
      fail(error.what());
      throw;
    }
    lock.lock();
    round_ = mine;
    all_came_.notify_all();
    return;
  }
  const auto over = [&] { return round_ >= mine || !failure_.empty(); };
  if (!all_came_.wait_for(lock, deadline_, over)) {
    if (started_ >= mine) {
      all_came_.wait(lock, over);  // the exchange has a deadline of its own
    } else {
      std::string missing;
      for (std::size_t m = 0; m < here_.size(); ++m) {
        if (here_[m] < mine)
          missing +=
              (missing.empty() ? "" : ", ") + std::to_string(layout_.first_here() + static_cast<int>(m));
      }
      fail(std::string(operation) + " in " + name_ + ": rank " + missing + " did not come within " +
           std::to_string(deadline_.count()) + " ms");
    }
  }
  if (round_ < mine) throw CommError(failure_);
}

}  // namespace tessera
