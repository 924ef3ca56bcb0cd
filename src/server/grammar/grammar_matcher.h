// Runs a byte grammar (masks: grammar_matcher_masks.cpp). All places where the grammar may be after some
// text, each with the calls that are open there, form one state; states are numbered as they are met and
// their transitions remembered, so that reading a byte is mostly one look into a table. A state is an int:
// keeping one is keeping a place to roll back to.
//
// Calls that count (a string of at most so many characters) do not multiply the states: the number of items
// that were read stands beside the set of places in the int, and only where the count comes near its bounds
// does it change what may follow.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "server/grammar/byte_grammar.h"
#include "server/grammar/mask_library.h"
#include "server/grammar/token_trie.h"

namespace tessera {

class GrammarMatcher {
 public:
  using State = std::int64_t;  // id of the places, and 2^32 times the items counted
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
  using Id = std::int32_t;  // of a set of places
  // Where to go on when a rule ends, as a linked list; equal lists are one.
  struct Frame {
    ByteGrammar::Node back;
    std::int32_t below;  // -1: nothing is open
    std::int32_t depth;
    std::int32_t bound = -1;         // of a call that counts
    ByteGrammar::Node counted = -1;  // its rule's start, where an item ends
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
    // Where a call counts: from `least` items to fewer than `most`, the count forbids nothing.
    bool counts = false;
    std::int32_t least = 0;
    std::int32_t most = ByteGrammar::kNoMost;
    std::vector<Id> next;       // [256], made when needed; kUnknown: not computed yet
    std::vector<bool> is_item;  // [256], where a call counts: the byte ends an item
  };
  static constexpr Id kUnknown = -2;
  static constexpr Id kNowhere = -1;
  // Beyond these the matcher forgets or refuses instead of growing: grammars of ordinary schemas have
  // hundreds.
  static constexpr std::size_t kMostStates = 200'000;
  static constexpr std::size_t kMostMaskBytes = 64U << 20;
  static constexpr std::size_t kMostLocalMasks = 2'000;
  static constexpr std::size_t kLongList = 1'000;       // more tokens are kept as bits
  static constexpr std::size_t kMostSharedNodes = 64;   // of an automaton; a string's body has 29
  static constexpr std::size_t kWorthSharing = 10'000;  // trie nodes visited

  static Id id_of(State state) { return static_cast<Id>(state & 0xffffffff); }
  static std::int32_t count_of(State state) { return static_cast<std::int32_t>(state >> 32); }
  static State state_of(Id id, std::int32_t count) {
    return id == kNowhere ? kDead : (State{count} << 32) | State{id};
  }
  const StateData& data(State state) const { return states_[static_cast<std::size_t>(id_of(state))]; }

  State step(State state, std::uint8_t byte);
  struct Follower {
    Id id;
    bool is_item;
  };
  Follower follow(Id from, std::int32_t count, std::uint8_t byte);
  Id settle(std::vector<Place> places);  // follows edges that read nothing
  Id intern(StateData state);
  std::int32_t frame(const ByteGrammar::CallEdge& call, std::int32_t below);
  std::shared_ptr<const LocalMask> local_mask(const std::vector<ByteGrammar::Node>& nodes);
  LocalMask walk_locally(const std::vector<ByteGrammar::Node>& nodes);
  std::shared_ptr<const CountedMask> counted_mask(ByteGrammar::Node start, ByteGrammar::Node node);
  CountedMask walk_counted(ByteGrammar::Node start, ByteGrammar::Node node) const;
  void mark_exit(std::vector<std::uint64_t>& mask, std::uint32_t exit, bool text_may_end, State after);
  std::string automaton_from(const std::vector<ByteGrammar::Node>& nodes) const;
  void walk(std::vector<std::uint64_t>& mask, std::size_t first, std::size_t end, std::size_t depth,
            State state);
  void mark(std::vector<std::uint64_t>& mask, std::int32_t token) const;

  ByteGrammar grammar_;
  const TokenTrie& trie_;
  std::shared_ptr<MaskLibrary> library_;
  std::mutex mutex_;  // guards what follows
  std::vector<Frame> frames_;
  std::map<std::tuple<ByteGrammar::Node, std::int32_t, std::int32_t>, std::int32_t>
      frame_ids_;  // back, below, bound
  std::vector<StateData> states_;
  std::map<std::pair<std::vector<Place>, bool>, Id> state_ids_;
  std::unordered_map<State, std::shared_ptr<const std::vector<std::uint64_t>>> masks_;
  std::map<std::vector<ByteGrammar::Node>, std::shared_ptr<const LocalMask>> local_masks_;
  std::map<ByteGrammar::Node, std::shared_ptr<const CountedMask>> counted_masks_;
  std::vector<State> path_;  // of a walk: the state after each byte
  State start_ = kDead;
};

}  // namespace tessera
