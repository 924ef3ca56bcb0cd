// Text to token ids and back, for one model folder.
//
// A Tokenizer is read once and never changes afterwards: all methods are const, hold no locks and may be
// called from any number of threads. It reads the two forms in which byte-level BPE is shipped:
//   tiktoken.model + tokenizer_config.json    Kimi
//   tokenizer.json                            Llama 3, Qwen 2/3, DeepSeek-V3
//
// Control tokens (`<|im_end|>`, ...) are recognised only where the caller says so. A chat prompt is a list of
// TextSegments: the template's own text may become control tokens, what users and tools wrote never does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera {

// A stretch of prompt text and who wrote it.
struct TextSegment {
  std::string text;  // UTF-8
  bool scaffold =
      false;  // true: the template's author (control tokens count); false: a message, a tool, a request
  friend bool operator==(const TextSegment&, const TextSegment&) = default;
};

enum class ControlTokens {
  kRecognise,  // text that spells a control token becomes that token
  kAsText,     // text stays text, whatever it spells
};

// A token that is matched as a whole before BPE sees the text ("added token" in Hugging Face's words).
struct ControlToken {
  std::int32_t id;
  std::string text;
  bool special =
      true;  // left out when text is decoded with skip_special; `<think>` and tool markers are not special
  bool eats_left = false;    // lstrip: blanks before it belong to it
  bool eats_right = false;   // rstrip: blanks after it belong to it
  bool single_word = false;  // only between characters that are no word characters
};

class Tokenizer {
 public:
  // Reads `tokenizer.json` when there is one, else `tiktoken.model`; names of the usual tokens from
  // tokenizer_config.json.
  static Result<Tokenizer> load(const std::filesystem::path& model_folder);

  // Invalid UTF-8 is read as Python's errors="replace" would. An error means a limit of the pattern engine
  // was hit.
  Result<std::vector<std::int32_t>> encode(std::string_view text, ControlTokens control) const;
  // Tokenises the joined text, so that merges cross segment borders exactly as they would in one string; a
  // control token is recognised only when every byte of it is scaffold.
  Result<std::vector<std::int32_t>> encode(std::span<const TextSegment> segments) const;

  // The bytes that a token stands for; empty for an id outside the vocabulary. They need not be whole
  // characters.
  std::string_view bytes_of(std::int32_t id) const;
  std::string decode_bytes(std::span<const std::int32_t> ids, bool skip_special) const;
  // As decode_bytes, with U+FFFD in place of what is not UTF-8. For streams use a Detokenizer.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  // The control token spelled `text`, else the BPE token with exactly these bytes.
  std::optional<std::int32_t> id_of(std::string_view text) const;
  bool is_known(std::int32_t id) const;                  // has a meaning: neither out of range nor a hole
  bool is_control(std::int32_t id) const;                // any control token, special or not
  bool is_special(std::int32_t id) const;                // left out by skip_special
  std::int32_t vocab_size() const;                       // highest id + 1; the model's logits may be wider
  std::span<const ControlToken> control_tokens() const;  // in order of id

  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;
  std::optional<std::int32_t> pad_id() const;
  // What the model's own post-processor puts before and after a plain text (Llama 3: BOS before it; Kimi:
  // nothing). For completions only: chat templates write their own.
  std::span<const std::int32_t> text_prefix() const;
  std::span<const std::int32_t> text_suffix() const;

  struct Parts;  // parts.h; made by the loaders
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

 private:
  std::unique_ptr<const Parts> parts_;
};

}  // namespace tessera
