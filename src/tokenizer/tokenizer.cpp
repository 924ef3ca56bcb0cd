#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tokenizer/hf_json.h"
#include "tokenizer/model_files.h"
#include "tokenizer/parts.h"
#include "tokenizer/tiktoken.h"
#include "tokenizer/token_names.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera {
namespace {

using Ids = std::vector<std::int32_t>;

// Text without control tokens.
Result<void> encode_plain(const Tokenizer::Parts& parts, std::string_view text, Ids& ids) {
  std::string composed;
  if (parts.nfc) {
    composed = to_nfc(text);
    text = composed;
  }
  std::vector<std::string_view> pieces;
  TS_TRY(parts.pretokenizer.split(text, pieces));
  for (const std::string_view piece : pieces) bpe_encode(parts.bpe, piece, ids);
  return {};
}

// Valid UTF-8, and where in it control tokens may stand. A cut that would fall into a control token is left
// out: it would turn the end of a message into ordinary text when the message is long enough.
Result<Ids> encode_joined(const Tokenizer::Parts& parts, std::string_view text,
                          std::span<const ByteRange> scaffold) {
  Ids ids;
  const std::vector<std::size_t> cuts = parts.cut_as_kimi ? kimi_cuts(text) : std::vector<std::size_t>();
  auto cut = cuts.begin();
  const auto encode_gap = [&](std::size_t begin, std::size_t end) -> Result<void> {
    while (begin < end) {
      cut = std::upper_bound(cut, cuts.end(), begin);
      const std::size_t stop = cut == cuts.end() ? end : std::min(*cut, end);
      TS_TRY(encode_plain(parts, text.substr(begin, stop - begin), ids));
      begin = stop;
    }
    return {};
  };
  std::size_t done = 0;
  for (const auto& [range, token] : parts.control.find_all(text, scaffold)) {
    TS_TRY(encode_gap(done, range.begin));
    ids.push_back(token->id);
    done = range.end;
  }
  TS_TRY(encode_gap(done, text.size()));
  return ids;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& model_folder) {
  const auto names_path = model_folder / "tokenizer_config.json";
  TokenNames names;
  if (std::filesystem::exists(names_path)) {
    TS_TRY(const std::string text, read_model_file(names_path));
    TS_TRY(names, read_token_names(text, names_path.string()));
  }
  if (const auto path = model_folder / "tokenizer.json"; std::filesystem::exists(path)) {
    TS_TRY(const std::string text, read_model_file(path));
    return make_hf_tokenizer(text, names, path.string());
  }
  if (const auto path = model_folder / "tiktoken.model"; std::filesystem::exists(path)) {
    TS_TRY(const std::string text, read_model_file(path));
    return make_tiktoken_tokenizer(text, names, path.string());
  }
  return Error{ErrorKind::kNotFound, model_folder.string(),
               "The folder holds neither tokenizer.json nor tiktoken.model."};
}

Result<Ids> Tokenizer::encode(std::string_view text, ControlTokens control) const {
  std::string repaired;
  if (!is_utf8(text)) {
    repaired = repair_utf8(text);
    text = repaired;
  }
  const ByteRange whole{0, text.size()};
  const bool recognise = control == ControlTokens::kRecognise;
  return encode_joined(*parts_, text, recognise ? std::span(&whole, 1) : std::span<const ByteRange>());
}

Result<Ids> Tokenizer::encode(std::span<const TextSegment> segments) const {
  std::string joined;
  std::vector<ByteRange> scaffold;
  for (const TextSegment& segment : segments) {
    const std::size_t begin = joined.size();
    joined += is_utf8(segment.text) ? segment.text : repair_utf8(segment.text);
    if (!segment.scaffold || joined.size() == begin) continue;
    if (!scaffold.empty() && scaffold.back().end == begin) {
      scaffold.back().end = joined.size();
    } else {
      scaffold.push_back({begin, joined.size()});
    }
  }
  return encode_joined(*parts_, joined, scaffold);
}

std::string_view Tokenizer::bytes_of(std::int32_t id) const { return parts_->bpe.vocabulary.bytes_of(id); }

std::string Tokenizer::decode_bytes(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    if (!skip_special || !is_special(id)) bytes += bytes_of(id);
  }
  return bytes;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  return repair_utf8(decode_bytes(ids, skip_special));
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view text) const {
  if (const ControlToken* token = parts_->control.find_text(text)) return token->id;
  return parts_->bpe.vocabulary.id_of(text);
}

bool Tokenizer::is_known(std::int32_t id) const { return !bytes_of(id).empty(); }
bool Tokenizer::is_control(std::int32_t id) const { return parts_->control.find_id(id) != nullptr; }
bool Tokenizer::is_special(std::int32_t id) const {
  const ControlToken* token = parts_->control.find_id(id);
  return token != nullptr && token->special;
}
std::int32_t Tokenizer::vocab_size() const { return parts_->bpe.vocabulary.size(); }
std::span<const ControlToken> Tokenizer::control_tokens() const { return parts_->control.tokens(); }
std::optional<std::int32_t> Tokenizer::bos_id() const { return parts_->bos; }
std::optional<std::int32_t> Tokenizer::eos_id() const { return parts_->eos; }
std::optional<std::int32_t> Tokenizer::pad_id() const { return parts_->pad; }
std::span<const std::int32_t> Tokenizer::text_prefix() const { return parts_->prefix; }
std::span<const std::int32_t> Tokenizer::text_suffix() const { return parts_->suffix; }

}  // namespace tessera
