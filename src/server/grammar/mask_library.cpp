#include "server/grammar/mask_library.h"

#include <algorithm>
#include <utility>

namespace tessera {

namespace {

template <class Mask>
std::shared_ptr<const Mask> find_in(const std::map<std::string, std::shared_ptr<const Mask>>& known,
                                    const std::string& automaton) {
  const auto found = known.find(automaton);
  return found == known.end() ? nullptr : found->second;
}

}  // namespace

void CountedMask::mark(std::vector<std::uint64_t>& mask, std::int32_t items) const {
  if (items < 0 || up_to.empty()) return;
  const std::size_t count = up_to[std::min(static_cast<std::size_t>(items), up_to.size() - 1)];
  const auto bit = [](std::int32_t token) { return std::uint64_t{1} << (token % 64); };
  const auto word = [](std::int32_t token) { return static_cast<std::size_t>(token) / 64; };
  if (inside.empty() || count < tokens.size() - count) {
    for (std::size_t i = 0; i < count; ++i) mask[word(tokens[i])] |= bit(tokens[i]);
    return;
  }
  std::vector<std::uint64_t> few_less = inside;  // the mask may hold some of the others for another reason
  for (std::size_t i = count; i < tokens.size(); ++i) few_less[word(tokens[i])] &= ~bit(tokens[i]);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] |= few_less[i];
}

std::shared_ptr<const LocalMask> MaskLibrary::find(const std::string& automaton) const {
  const std::lock_guard lock(mutex_);
  return find_in(known_, automaton);
}

std::shared_ptr<const CountedMask> MaskLibrary::find_counted(const std::string& automaton) const {
  const std::lock_guard lock(mutex_);
  return find_in(counted_, automaton);
}

void MaskLibrary::keep(std::string automaton, std::shared_ptr<const LocalMask> mask) {
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMost) known_.clear();
  known_.insert_or_assign(std::move(automaton), std::move(mask));
}

void MaskLibrary::keep_counted(std::string automaton, std::shared_ptr<const CountedMask> mask) {
  const std::lock_guard lock(mutex_);
  if (counted_.size() >= kMost) counted_.clear();
  counted_.insert_or_assign(std::move(automaton), std::move(mask));
}

}  // namespace tessera
