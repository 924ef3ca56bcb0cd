// Runs a byte grammar. All places where the grammar may be after some text, each with the calls that are open
// there, form one state; states are numbered as they are met and their transitions remembered, so that
// reading a byte is mostly one look into a table. A state is an int: keeping one is keeping a place to roll
// back to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "server/grammar/byte_grammar.h"
#include "server/grammar/token_trie.h"

namespace tessera {

class GrammarMatcher {
 public:
  using State = std::int32_t;
  static constexpr State kDead = -1;
  // As many calls may be open, which bounds how deep a document nests.
  static constexpr int kMostOpenCalls = 512;

  // Takes a grammar without defect(). Borrows the trie. May be shared by requests: what it remembers is
  // guarded.
  GrammarMatcher(ByteGrammar grammar, const TokenTrie& trie);

  State start() const { return start_; }
  State read(State state, std::string_view bytes);
  bool may_end(State state);
  bool must_end(State state);  // may end, and no byte may follow
  // Bit t is set for every token of the trie whose text may follow.
  std::shared_ptr<const std::vector<std::uint64_t>> allowed(State state);

 private:
  // Where to go on when a rule ends, as a linked list; equal lists are one.
  struct Frame {
    ByteGrammar::Node back;
    std::int32_t below;  // -1: nothing is open
    std::int32_t depth;
  };
  struct Place {
    ByteGrammar::Node node;
    std::int32_t frame;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct StateData {
    std::vector<Place> places;  // only those with byte edges
    bool may_end = false;
    std::vector<State> next;  // [256], made when needed; kUnknown: not computed yet
  };
  static constexpr State kUnknown = -2;
  // Beyond these the matcher forgets or refuses instead of growing: grammars of ordinary schemas have
  // hundreds.
  static constexpr std::size_t kMostStates = 200'000;
  static constexpr std::size_t kMostMaskBytes = 64U << 20;

  State step(State state, std::uint8_t byte);
  State settle(std::vector<Place> places);  // follows edges that read nothing
  std::int32_t frame(ByteGrammar::Node back, std::int32_t below);

  ByteGrammar grammar_;
  const TokenTrie& trie_;
  std::mutex mutex_;  // guards what follows
  std::vector<Frame> frames_;
  std::map<std::pair<ByteGrammar::Node, std::int32_t>, std::int32_t> frame_ids_;
  std::vector<StateData> states_;
  std::map<std::pair<std::vector<Place>, bool>, State> state_ids_;
  std::unordered_map<State, std::shared_ptr<const std::vector<std::uint64_t>>> masks_;
  State start_ = kDead;
};

}  // namespace tessera
