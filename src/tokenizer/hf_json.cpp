#include "tokenizer/hf_json.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/parts.h"

namespace tessera {
namespace {

using Json = nlohmann::json;
constexpr std::int32_t kMaxId = 4'000'000;

// One reading of one file; every method takes the part it reads and fills parts_.
class HfReader {
 public:
  HfReader(const Json& root, const TokenNames& names, std::string where)
      : root_(root), names_(names), where_(std::move(where)), parts_(std::make_unique<Tokenizer::Parts>()) {}

  Result<Tokenizer> read() {
    TS_TRY(read_added_tokens());
    TS_TRY(read_model());
    TS_TRY(read_normalizer(field(root_, "normalizer"), "normalizer"));
    TS_TRY(read_pre_tokenizer(field(root_, "pre_tokenizer"), "pre_tokenizer"));
    if (!byte_level_)
      return unsupported("pre_tokenizer", "it has no ByteLevel step; only byte-level BPE is supported");
    TS_TRY(read_decoder());
    TS_TRY(read_post_processor(field(root_, "post_processor"), "post_processor"));
    parts_->bos = id_named("bos_token");
    parts_->eos = id_named("eos_token");
    parts_->pad = id_named("pad_token");
    return Tokenizer(std::move(parts_));
  }

 private:
  static const Json& field(const Json& object, const char* name) {
    static const Json kNull;
    const auto found = object.find(name);
    return found == object.end() ? kNull : *found;
  }
  static std::string text(const Json& object, const char* name) {
    const Json& value = field(object, name);
    return value.is_string() ? value.get<std::string>() : std::string();
  }
  static bool is_true(const Json& object, const char* name, bool otherwise) {
    const Json& value = field(object, name);
    return value.is_boolean() ? value.get<bool>() : otherwise;
  }
  Error corrupt(const std::string& part, const std::string& what) const {
    return {ErrorKind::kCorrupt, where_ + ": " + part, what};
  }
  Error unsupported(const std::string& part, const std::string& what) const {
    return {ErrorKind::kUnsupported, where_ + ": " + part,
            "This tokenizer cannot be read exactly: " + what + "."};
  }

  std::optional<std::int32_t> id_named(const char* name) const {
    const auto found = names_.find(name);
    const ControlToken* token = found ? parts_->control.find_text(*found) : nullptr;
    if (token == nullptr) return std::nullopt;
    return token->id;
  }

  Result<void> read_added_tokens() {
    const Json& added = field(root_, "added_tokens");
    std::vector<ControlToken> tokens;
    if (!added.is_null() && !added.is_array()) return corrupt("added_tokens", "Expected an array.");
    for (const Json& value : added) {
      TS_TRY(ControlToken token, read_added_token(value, where_ + ": added_tokens"));
      if (token.id > kMaxId)
        return corrupt("added_tokens", "The id of " + token.text + " is above 4,000,000.");
      tokens.push_back(std::move(token));
    }
    TS_TRY(parts_->control, ControlTokenTable::make(std::move(tokens)));
    return {};
  }

  Result<void> read_model() {
    const Json& model = field(root_, "model");
    if (!model.is_object()) return corrupt("model", "Expected an object.");
    const std::string type = text(model, "type");
    if (!type.empty() && type != "BPE") return unsupported("model", "its type is " + type + ", not BPE");
    if (is_true(model, "byte_fallback", false)) return unsupported("model", "it uses byte_fallback");
    if (field(model, "dropout").is_number() && field(model, "dropout") != 0) {
      return unsupported("model", "it uses dropout");
    }
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!text(model, name).empty()) return unsupported("model", std::string("it uses ") + name);
    }
    parts_->bpe.whole_piece_first = is_true(model, "ignore_merges", false);
    TS_TRY(read_vocab(field(model, "vocab")));
    TS_TRY(read_merges(field(model, "merges")));
    const std::string unknown = text(model, "unk_token");
    const auto unknown_id = unknown.empty() ? ids_.end() : ids_.find(unknown);
    for (int byte = 0; byte < 256; ++byte) {
      const char as_char = static_cast<char>(byte);
      auto id = parts_->bpe.vocabulary.id_of({&as_char, 1});
      // As Hugging Face: a byte without a token becomes the unknown token, and is dropped when there is none.
      if (!id && unknown_id != ids_.end()) id = unknown_id->second;
      parts_->bpe.byte_ids[static_cast<std::size_t>(byte)] = id.value_or(-1);
    }
    return {};
  }

  Result<void> read_vocab(const Json& vocab) {
    if (!vocab.is_object() || vocab.empty())
      return corrupt("model.vocab", "Expected an object with token ids.");
    std::vector<std::string> pieces;
    for (const auto& [piece, value] : vocab.items()) {
      if (!value.is_number_integer() || value < 0 || value > kMaxId) {
        return corrupt("model.vocab", "The id of " + piece + " is not a number from 0 to 4,000,000.");
      }
      const auto id = value.get<std::int32_t>();
      ids_.emplace(piece, id);
      if (parts_->control.find_id(id) != nullptr) continue;  // an added token that is listed here too
      if (piece.empty()) return corrupt("model.vocab", "Token " + std::to_string(id) + " is empty.");
      auto bytes = bytes_from_alphabet(piece);
      if (!bytes)
        return unsupported("model.vocab",
                           "the token " + piece + " is not written in the byte-level alphabet");
      pieces.resize(std::max(pieces.size(), static_cast<std::size_t>(id) + 1));
      std::string& slot = pieces[static_cast<std::size_t>(id)];
      if (!slot.empty()) return corrupt("model.vocab", "Two tokens have the id " + std::to_string(id) + ".");
      slot = *std::move(bytes);
    }
    parts_->bpe.vocabulary = Vocabulary(std::move(pieces), parts_->control.tokens());
    return {};
  }

  Result<void> read_merges(const Json& merges) {
    if (!merges.is_array()) return corrupt("model.merges", "Expected an array.");
    parts_->bpe.merges = MergeTable(merges.size());
    std::int32_t rank = 0;
    for (const Json& merge : merges) {
      const std::string part = "model.merges[" + std::to_string(rank) + "]";
      std::string left, right;
      if (merge.is_string()) {
        const auto line = merge.get<std::string>();
        const std::size_t blank = line.find(' ');
        if (blank == std::string::npos)
          return corrupt(part, "Expected two tokens with a blank between them.");
        left = line.substr(0, blank);
        right = line.substr(blank + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      } else {
        return corrupt(part, "Expected \"left right\" or [\"left\", \"right\"].");
      }
      const auto left_id = ids_.find(left), right_id = ids_.find(right), merged_id = ids_.find(left + right);
      for (const auto& [id, token] :
           {std::pair(left_id, left), {right_id, right}, {merged_id, left + right}}) {
        if (id == ids_.end()) return corrupt(part, "The token " + token + " is not in the vocabulary.");
      }
      // Text must not become a control token by merging, either.
      const ControlToken* control = parts_->control.find_id(merged_id->second);
      if (control == nullptr || !control->special) {
        parts_->bpe.merges.add(left_id->second, right_id->second, {rank, merged_id->second});
      }
      ++rank;
    }
    return {};
  }

  Result<void> read_normalizer(const Json& normalizer, const std::string& part) {
    if (normalizer.is_null()) return {};
    const std::string type = text(normalizer, "type");
    if (type == "NFC") {
      parts_->nfc = true;
      return {};
    }
    if (type == "Sequence" && field(normalizer, "normalizers").is_array()) {
      for (const Json& step : field(normalizer, "normalizers")) TS_TRY(read_normalizer(step, part + " step"));
      return {};
    }
    return unsupported(part, "its type is \"" + type + "\"; NFC or none is supported");
  }

  Result<void> read_pre_tokenizer(const Json& step, const std::string& part) {
    const std::string type = step.is_object() ? text(step, "type") : "none";
    if (byte_level_) return unsupported(part, "a " + type + " step follows the ByteLevel step");
    if (type == "Sequence" && field(step, "pretokenizers").is_array()) {
      for (const Json& inner : field(step, "pretokenizers"))
        TS_TRY(read_pre_tokenizer(inner, part + " step"));
      return {};
    }
    if (type == "ByteLevel") {
      if (is_true(step, "add_prefix_space", true)) return unsupported(part, "ByteLevel has add_prefix_space");
      byte_level_ = true;
      if (!is_true(step, "use_regex", true)) return {};
      TS_TRY(Regex pattern, Regex::compile(kGpt2Pattern));
      parts_->pretokenizer.rules.push_back({.pattern = std::move(pattern)});
      return {};
    }
    if (type == "Digits") {
      TS_TRY(Regex pattern, Regex::compile(is_true(step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+"));
      parts_->pretokenizer.rules.push_back({.pattern = std::move(pattern)});
      return {};
    }
    if (type == "Split") return read_split(step, part);
    return unsupported(part,
                       "its type is \"" + type + "\"; Split, ByteLevel, Digits and Sequence are supported");
  }

  Result<void> read_split(const Json& step, const std::string& part) {
    static constexpr std::pair<const char*, SplitBehavior> kBehaviors[] = {
        {"Isolated", SplitBehavior::kIsolated},
        {"Removed", SplitBehavior::kRemoved},
        {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
        {"MergedWithNext", SplitBehavior::kMergedWithNext},
        {"Contiguous", SplitBehavior::kContiguous}};
    const std::string name = text(step, "behavior");
    const auto* behavior =
        std::ranges::find(kBehaviors, name, [](const auto& pair) { return std::string(pair.first); });
    if (behavior == std::end(kBehaviors)) return unsupported(part, "the Split behavior is \"" + name + "\"");
    const Json& pattern = field(step, "pattern");
    const bool is_regex = pattern.is_object() && field(pattern, "Regex").is_string();
    if (!is_regex && !(pattern.is_object() && field(pattern, "String").is_string())) {
      return corrupt(part, "Expected {\"Regex\": ...} or {\"String\": ...} as the pattern of a Split.");
    }
    TS_TRY(Regex regex, is_regex ? Regex::compile(text(pattern, "Regex"))
                                 : Regex::compile_literal(text(pattern, "String")));
    parts_->pretokenizer.rules.push_back({.pattern = std::move(regex),
                                          .behavior = behavior->second,
                                          .invert = is_true(step, "invert", false)});
    return {};
  }

  Result<void> read_decoder() {
    const Json& decoder = field(root_, "decoder");
    if (decoder.is_null() || text(decoder, "type") == "ByteLevel") return {};
    return unsupported("decoder", "its type is \"" + text(decoder, "type") + "\", not ByteLevel");
  }

  Result<void> read_post_processor(const Json& step, const std::string& part) {
    if (step.is_null()) return {};
    const std::string type = text(step, "type");
    if (type == "ByteLevel") return {};
    if (type == "Sequence" && field(step, "processors").is_array()) {
      for (const Json& inner : field(step, "processors")) TS_TRY(read_post_processor(inner, part + " step"));
      return {};
    }
    if (type != "TemplateProcessing" || !field(step, "single").is_array()) {
      return unsupported(
          part, "its type is \"" + type + "\"; ByteLevel, TemplateProcessing and Sequence are supported");
    }
    bool after_text = false;
    for (const Json& item : field(step, "single")) {
      if (item.is_object() && item.contains("Sequence")) {
        after_text = true;
        continue;
      }
      const std::string name = item.is_object() ? text(field(item, "SpecialToken"), "id") : std::string();
      const ControlToken* token = parts_->control.find_text(name);
      if (token == nullptr)
        return corrupt(part, "The template names \"" + name + "\", which is no added token.");
      (after_text ? parts_->suffix : parts_->prefix).push_back(token->id);
    }
    return {};
  }

  const Json& root_;
  const TokenNames& names_;
  std::string where_;
  std::unique_ptr<Tokenizer::Parts> parts_;
  std::unordered_map<std::string, std::int32_t> ids_;  // as spelled in the file
  bool byte_level_ = false;
};

}  // namespace

Result<Tokenizer> make_hf_tokenizer(std::string_view json_text, const TokenNames& names,
                                    const std::string& where) {
  TS_TRY(const Json root, parse_json_object(json_text, where));
  return HfReader(root, names, where).read();
}

}  // namespace tessera
