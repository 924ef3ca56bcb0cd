// How long recent outputs became: what the scheduler knows about the length of the next ones.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace tessera {

class OutputLengths {
 public:
  OutputLengths();
  void add(std::int32_t tokens);

  // Tokens still to come of an output that has `generated` now, judged by those that became longer: nine of
  // ten ended within it. Nothing while there is too little experience. An output longer than all before may
  // double.
  std::optional<std::int32_t> likely_remaining(std::int32_t generated) const;
  // The same, judged by the longest one. Nothing too when the output is longer than all before.
  std::optional<std::int32_t> longest_remaining(std::int32_t generated) const;

 private:
  static constexpr std::size_t kKept = 128;   // newest outputs; a change of load is learnt after as many
  static constexpr std::size_t kFewest = 16;  // below it, no judgement
  std::array<std::int32_t, kKept> newest_{};  // ring
  std::size_t added_ = 0;
  std::vector<std::int32_t> sorted_;  // the same values
};

}  // namespace tessera
