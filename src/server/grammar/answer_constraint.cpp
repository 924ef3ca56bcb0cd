#include "server/grammar/answer_constraint.h"

#include <algorithm>
#include <stdexcept>

namespace tessera {
namespace {

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

std::vector<std::string> texts_of(const Tokenizer& tokenizer, std::int32_t vocab) {
  std::vector<std::string> out(static_cast<std::size_t>(std::min(vocab, tokenizer.vocab_size())));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (tokenizer.is_known(id) && !tokenizer.is_control(id)) out[i] = tokenizer.bytes_of(id);
  }
  return out;
}

constexpr std::int32_t kMostCalls = 64;  // of one forced answer; models that may go on for ever sometimes do

class AnswerConstraint final : public TokenConstraint {
 public:
  AnswerConstraint(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                   std::shared_ptr<GrammarMatcher> document, std::optional<ForcedCalls> calls,
                   SplitterOptions::Start start, LeastLength least)
      : shared_(std::move(vocabulary)),
        vocabulary_(*shared_),
        document_(std::move(document)),
        calls_(std::move(calls)),
        least_(std::move(least)) {
    now_.stage = !vocabulary_.markers.has_thinking()      ? Stage::kOpening
                 : start == SplitterOptions::kInReasoning ? Stage::kThought
                 : start == SplitterOptions::kUndecided   ? Stage::kMayThink
                                                          : Stage::kOpening;
    if (document_) now_.at = document_->start();
  }

  void allowed(std::vector<std::uint64_t>& mask) override {
    mask.assign(static_cast<std::size_t>(vocabulary_.vocab + 63) / 64, 0);
    const MarkerIds& ids = vocabulary_.markers;
    switch (now_.stage) {
      case Stage::kThought:
        merge(mask, vocabulary_.thought);
        allow(mask, ids.think_end);
        break;
      case Stage::kMayThink:
        allow(mask, ids.think_begin);
        allow_opening(mask);
        break;
      case Stage::kOpening:
        allow_opening(mask);
        break;
      case Stage::kDocument:
        if (now_.at != GrammarMatcher::kDead) {
          merge(mask, *document_->allowed(now_.at));
          if (document_->may_end(now_.at)) allow_end(mask);
        }
        break;
      case Stage::kSection:
        if (may_call_again()) allow(mask, ids.call_begin);
        if (now_.calls > 0) allow(mask, ids.section_end);
        break;
      case Stage::kId:
      case Stage::kArguments:
        if (now_.at != GrammarMatcher::kDead) {
          merge(mask, *now_.text->allowed(now_.at));
          if (now_.text->may_end(now_.at)) {
            allow(mask, now_.stage == Stage::kId ? ids.argument_begin : ids.call_end);
          }
        }
        break;
      case Stage::kDone:
        allow_end(mask);
        break;
    }
    if (history_.size() < static_cast<std::size_t>(least_.tokens)) forbid_ending(mask);
    // A place without a way on exists only where a limit of the matcher was hit: the answer ends there.
    if (std::ranges::all_of(mask, [](std::uint64_t word) { return word == 0; })) allow_end(mask);
  }

  void accept(std::int32_t token) override {
    history_.push_back(now_);
    try {
      move_over(token);
    } catch (...) {
      rollback(1);
      throw;
    }
  }

  void rollback(std::int32_t count) override {
    TS_CHECK(count >= 0 && static_cast<std::size_t>(count) <= history_.size(), count, history_.size());
    if (count == 0) return;
    now_ = history_[history_.size() - static_cast<std::size_t>(count)];
    history_.resize(history_.size() - static_cast<std::size_t>(count));
  }

  bool is_complete() const override {
    return now_.stage == Stage::kDone || (now_.stage == Stage::kDocument && document_->must_end(now_.at));
  }

 private:
  void move_over(std::int32_t token) {
    if (is_end(token)) {
      now_.stage = Stage::kDone;
      return;
    }
    const MarkerIds& ids = vocabulary_.markers;
    switch (now_.stage) {
      case Stage::kThought:
        if (token == ids.think_end) now_.stage = Stage::kOpening;
        return;
      case Stage::kMayThink:
        if (token == ids.think_begin) {
          now_.stage = Stage::kThought;
          return;
        }
        [[fallthrough]];
      case Stage::kOpening:
        if (document_) {
          now_.stage = Stage::kDocument;
          return read(*document_, token);
        }
        if (token != ids.section_begin) return refuse(token);
        now_.stage = Stage::kSection;
        return;
      case Stage::kDocument:
        return read(*document_, token);
      case Stage::kSection:
        if (token == ids.call_begin) return begin_call();
        if (token != ids.section_end) return refuse(token);
        now_.stage = Stage::kDone;
        return;
      case Stage::kId:
        if (token == ids.argument_begin) return begin_arguments(token);
        now_.id += text_of(token);
        return read(*now_.text, token);
      case Stage::kArguments:
        if (token != ids.call_end) return read(*now_.text, token);
        now_.stage = Stage::kSection;
        now_.text = nullptr;
        ++now_.calls;
        return;
      case Stage::kDone:
        return refuse(token);
    }
  }

  enum class Stage : std::uint8_t {
    kMayThink,
    kThought,
    kOpening,
    kDocument,
    kSection,
    kId,
    kArguments,
    kDone
  };
  struct Now {
    Stage stage = Stage::kOpening;
    GrammarMatcher::State at = GrammarMatcher::kDead;  // of the document, the id or the arguments
    std::int32_t calls = 0;                            // complete ones
    std::shared_ptr<GrammarMatcher> text =
        nullptr;          // of the id or the arguments; kept by history for rollback
    std::string id = {};  // so far
  };

  static void merge(std::vector<std::uint64_t>& mask, const std::vector<std::uint64_t>& more) {
    for (std::size_t i = 0; i < std::min(mask.size(), more.size()); ++i) mask[i] |= more[i];
  }
  void allow(std::vector<std::uint64_t>& mask, std::int32_t token) const {
    if (token >= 0 && token < vocabulary_.vocab) {
      mask[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
    }
  }
  void allow_end(std::vector<std::uint64_t>& mask) const {
    for (const std::int32_t token : vocabulary_.end_tokens) allow(mask, token);
  }
  // Unless nothing else is left: a complete document may end, however short it is.
  void forbid_ending(std::vector<std::uint64_t>& mask) const {
    std::vector<std::uint64_t> longer = mask;
    const auto forbid = [&](std::int32_t token) {
      if (token >= 0 && token < vocabulary_.vocab) {
        longer[static_cast<std::size_t>(token) / 64] &= ~(std::uint64_t{1} << (token % 64));
      }
    };
    std::ranges::for_each(vocabulary_.end_tokens, forbid);
    std::ranges::for_each(least_.stop_tokens, forbid);
    if (std::ranges::any_of(longer, [](std::uint64_t word) { return word != 0; })) mask = std::move(longer);
  }
  void allow_opening(std::vector<std::uint64_t>& mask) const {
    if (document_) {
      merge(mask, *document_->allowed(document_->start()));
    } else {
      allow(mask, vocabulary_.markers.section_begin);
    }
  }
  bool is_end(std::int32_t token) const {
    return std::ranges::find(vocabulary_.end_tokens, token) != vocabulary_.end_tokens.end();
  }
  bool may_call_again() const { return now_.calls == 0 || (calls_->several && now_.calls < kMostCalls); }

  std::string_view text_of(std::int32_t token) const {
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary_.texts.size()) return {};
    return vocabulary_.texts[static_cast<std::size_t>(token)];
  }
  // Caught by the engine, which ends the request: a token that the mask forbids was forced by something else.
  [[noreturn]] static void refuse(std::int32_t token) {
    throw std::runtime_error("the grammar does not allow token " + std::to_string(token) + " here");
  }
  void read(GrammarMatcher& matcher, std::int32_t token) {
    const std::string_view text = text_of(token);
    const auto to = text.empty() || now_.at == GrammarMatcher::kDead ? GrammarMatcher::kDead
                                                                     : matcher.read(now_.at, text);
    if (to == GrammarMatcher::kDead) refuse(token);
    now_.at = to;
  }

  void begin_call() {
    ByteGrammar ids;
    ids.root = ids.add_rule();
    for (const ForcedFunction& function : calls_->functions) {
      ids.free(ids.literal(ids.ends(ids.root).start, id_of(function.name)), ids.ends(ids.root).end);
    }
    now_.stage = Stage::kId;
    now_.id.clear();
    now_.text = std::make_shared<GrammarMatcher>(std::move(ids), vocabulary_.trie);
    now_.at = now_.text->start();
  }
  void begin_arguments(std::int32_t token) {
    const auto function = std::ranges::find_if(
        calls_->functions, [&](const ForcedFunction& one) { return id_of(one.name) == now_.id; });
    if (function == calls_->functions.end()) refuse(token);
    now_.stage = Stage::kArguments;
    now_.text = function->arguments;
    now_.at = now_.text->start();
  }
  std::string id_of(const std::string& name) const {
    return "functions." + name + ":" + std::to_string(calls_->first_index + now_.calls);
  }

  std::shared_ptr<const ConstraintVocabulary>
      shared_;  // with all constraints of the model, some of which outlive it
  const ConstraintVocabulary& vocabulary_;
  std::shared_ptr<GrammarMatcher> document_;  // null: tools; shared with other requests for the same schema
  std::optional<ForcedCalls> calls_;
  LeastLength least_;
  Now now_;
  std::vector<Now> history_;  // before each accepted token
};

}  // namespace

ConstraintVocabulary::ConstraintVocabulary(const Tokenizer& tokenizer, std::int32_t given_vocab,
                                           std::vector<std::int32_t> given_end_tokens)
    : vocab(given_vocab),
      end_tokens(std::move(given_end_tokens)),
      markers(find_markers(tokenizer)),
      texts(texts_of(tokenizer, given_vocab)),
      trie(views(texts)),
      thought(static_cast<std::size_t>(given_vocab + 63) / 64) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].empty()) thought[i / 64] |= std::uint64_t{1} << (i % 64);
  }
}

std::shared_ptr<TokenConstraint> make_json_constraint(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                                                      std::shared_ptr<GrammarMatcher> document,
                                                      SplitterOptions::Start start, LeastLength least) {
  return std::make_shared<AnswerConstraint>(std::move(vocabulary), std::move(document), std::nullopt, start,
                                            std::move(least));
}

std::shared_ptr<TokenConstraint> make_tool_constraint(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                                                      ForcedCalls calls, SplitterOptions::Start start,
                                                      LeastLength least) {
  return std::make_shared<AnswerConstraint>(std::move(vocabulary), nullptr, std::move(calls), start,
                                            std::move(least));
}

}  // namespace tessera
