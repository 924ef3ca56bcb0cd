#include "comm/agreement.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tessera {
namespace {

constexpr std::size_t kMaxFacts = 64 << 10;  // bytes of one member's facts as text

// Name and value of each fact, both ended by a zero byte, which neither holds.
std::string packed(std::span<const Fact> facts) {
  std::string text;
  for (const Fact& fact : facts) text += fact.name + '\0' + fact.value + '\0';
  text.resize(std::min(text.size(), kMaxFacts));
  return text;
}
std::vector<Fact> unpacked(std::string_view text) {
  std::vector<Fact> facts;
  const auto next = [&] {
    const std::size_t end = std::min(text.find('\0'), text.size());
    std::string field(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return field;
  };
  while (!text.empty()) {
    std::string name = next();
    facts.push_back({std::move(name), next()});
  }
  return facts;
}

// Everybody's text, by rank.
std::vector<std::string> gather(Communicator& group, const std::string& mine) {
  const auto members = static_cast<std::size_t>(group.size());
  std::vector<std::uint64_t> sizes(members);
  const std::uint64_t own = mine.size();
  group.all_gather(&own, sizes.data(), sizeof own);
  const std::size_t widest =
      std::min<std::size_t>(std::max<std::uint64_t>(1, *std::ranges::max_element(sizes)), kMaxFacts);
  std::string padded = mine;
  padded.resize(widest);
  std::vector<char> all(widest * members);
  group.all_gather(padded.data(), all.data(), widest);
  std::vector<std::string> result;
  for (std::size_t m = 0; m < members; ++m)
    result.emplace_back(all.data() + m * widest, std::min<std::size_t>(sizes[m], widest));
  return result;
}

struct State {
  enum Kind : std::int32_t { kAtIt, kDone, kFailed };
  std::int32_t kind = kAtIt;
  char text[500] = {};  // why it failed, ended by a zero
};

}  // namespace

Result<void> check_agreement(Communicator& group, std::span<const Fact> facts, const std::string& member) {
  try {
    const std::vector<std::string> all = gather(group, packed(facts));
    const std::vector<Fact> first = unpacked(all.front());
    for (std::size_t m = 1; m < all.size(); ++m) {
      if (all[m] == all.front()) continue;
      const std::vector<Fact> other = unpacked(all[m]);
      for (std::size_t f = 0; f < std::max(first.size(), other.size()); ++f) {
        const Fact mine = f < first.size() ? first[f] : Fact{other[f].name, "nothing"};
        const Fact theirs = f < other.size() ? other[f] : Fact{first[f].name, "nothing"};
        if (mine.name == theirs.name && mine.value == theirs.value) continue;
        return Error{ErrorKind::kMismatch, mine.name,
                     member + " 0 has " + mine.value + ", " + member + " " + std::to_string(m) + " has " +
                         (theirs.name == mine.name ? "" : theirs.name + " ") + theirs.value +
                         "; start every " + member + " with the same program, model and flags."};
      }
    }
  } catch (const CommError& error) {
    return Error{ErrorKind::kUnavailable, group.name(), error.what()};
  }
  return {};
}

Rendezvous::Rendezvous(Communicator& group, std::string member, std::chrono::milliseconds interval)
    : group_(group), member_(std::move(member)), interval_(interval), thread_([this] { run(); }) {}

Rendezvous::~Rendezvous() {
  if (!thread_.joinable()) return;
  (void)arrive(Error{ErrorKind::kCancelled, "", "It gave up."});
}

Result<void> Rendezvous::arrive(Result<void> mine) {
  {
    const std::lock_guard lock(mutex_);
    mine_ = mine;
  }
  wake_.notify_one();
  thread_.join();
  if (!mine) return mine;
  return others_;
}

// Rounds until all are done, or one has failed: its last word is heard by all in the same round.
void Rendezvous::run() {
  std::vector<State> states(static_cast<std::size_t>(group_.size()));
  try {
    for (;;) {
      State mine;
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, interval_, [&] { return mine_.has_value(); });
        if (mine_) {
          mine.kind = mine_->ok() ? State::kDone : State::kFailed;
          if (!mine_->ok()) {
            const std::string text = mine_->error().message().substr(0, sizeof mine.text - 1);
            std::memcpy(mine.text, text.data(), text.size());
          }
        }
      }
      group_.all_gather(&mine, states.data(), sizeof mine);
      for (std::size_t m = 0; m < states.size(); ++m) {
        if (states[m].kind != State::kFailed) continue;
        states[m].text[sizeof states[m].text - 1] = '\0';
        others_ = Error{ErrorKind::kUnavailable, member_ + " " + std::to_string(m), states[m].text};
        return;
      }
      if (std::ranges::all_of(states, [](const State& state) { return state.kind == State::kDone; })) return;
      if (mine.kind == State::kDone)
        std::this_thread::sleep_for(std::min(interval_, std::chrono::milliseconds(20)));
    }
  } catch (const CommError& error) {
    others_ = Error{ErrorKind::kUnavailable, group_.name(), error.what()};
  }
}

}  // namespace tessera
