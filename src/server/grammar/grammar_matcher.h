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
#include "server/grammar/mask_library.h"
#include "server/grammar/token_trie.h"

namespace tessera {

class GrammarMatcher {
 public:
  using State = std::int32_t;
  static constexpr State kDead = -1;
  // As many calls may be open, which bounds how deep a document nests.
  static constexpr int kMostOpenCalls = 512;

  // Takes a grammar without defect(). Borrows the trie. May be shared by requests: what it remembers is
  // guarded. The library, shared by all matchers over the trie, spares them each other's walks; null: none.
  GrammarMatcher(ByteGrammar grammar, const TokenTrie& trie, std::shared_ptr<MaskLibrary> library = nullptr);

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
    std::int32_t deepest = 0;  // calls that were open on the way here, at most
    std::vector<State> next;   // [256], made when needed; kUnknown: not computed yet
  };
  static constexpr State kUnknown = -2;
  // Beyond these the matcher forgets or refuses instead of growing: grammars of ordinary schemas have
  // hundreds.
  static constexpr std::size_t kMostStates = 200'000;
  static constexpr std::size_t kMostMaskBytes = 64U << 20;
  static constexpr std::size_t kMostLocalMasks = 2'000;
  static constexpr std::size_t kLongList = 1'000;       // more tokens are kept as bits
  static constexpr std::size_t kMostSharedNodes = 64;   // of an automaton; a string's body has 29
  static constexpr std::size_t kWorthSharing = 10'000;  // trie nodes visited

  State step(State state, std::uint8_t byte);
  State settle(std::vector<Place> places);  // follows edges that read nothing
  State intern(StateData state);
  std::int32_t frame(ByteGrammar::Node back, std::int32_t below);
  std::shared_ptr<const LocalMask> local_mask(const std::vector<ByteGrammar::Node>& nodes);
  LocalMask walk_locally(const std::vector<ByteGrammar::Node>& nodes);
  std::string automaton_from(const std::vector<ByteGrammar::Node>& nodes) const;
  void walk(std::vector<std::uint64_t>& mask, std::size_t first, std::size_t end, std::size_t depth,
            State state);
  void mark(std::vector<std::uint64_t>& mask, std::int32_t token) const;

  ByteGrammar grammar_;
  const TokenTrie& trie_;
  std::shared_ptr<MaskLibrary> library_;
  std::mutex mutex_;  // guards what follows
  std::vector<Frame> frames_;
  std::map<std::pair<ByteGrammar::Node, std::int32_t>, std::int32_t> frame_ids_;
  std::vector<StateData> states_;
  std::map<std::pair<std::vector<Place>, bool>, State> state_ids_;
  std::unordered_map<State, std::shared_ptr<const std::vector<std::uint64_t>>> masks_;
  std::map<std::vector<ByteGrammar::Node>, std::shared_ptr<const LocalMask>> local_masks_;
  std::vector<State> path_;  // of a walk: the state after each byte
  State start_ = kDead;
};

}  // namespace tessera
