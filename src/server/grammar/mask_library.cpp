#include "server/grammar/mask_library.h"

#include <utility>

namespace tessera {

std::shared_ptr<const LocalMask> MaskLibrary::find(const std::string& automaton) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(automaton);
  return found == known_.end() ? nullptr : found->second;
}

void MaskLibrary::keep(std::string automaton, std::shared_ptr<const LocalMask> mask) {
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMost) known_.clear();
  known_.insert_or_assign(std::move(automaton), std::move(mask));
}

}  // namespace tessera
