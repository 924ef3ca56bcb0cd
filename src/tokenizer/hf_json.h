// The Hugging Face form: `tokenizer.json` with a byte-level BPE model, as Llama 3, Qwen 2/3 and DeepSeek-V3
// ship it.
//
// Understood: model BPE (with merges as "a b" or ["a", "b"], ignore_merges, unk_token); normalizer NFC, none,
// or an (empty) sequence of them; pre-tokenizers Split, ByteLevel, Digits and sequences of these; decoder
// ByteLevel; post-processors ByteLevel, TemplateProcessing and sequences of these; added tokens. Everything
// else (SentencePiece pieces, byte fallback, dropout, ...) is kUnsupported with its name: a tokenizer that is
// nearly right is wrong.
//
// One thing is simplified: all added tokens are looked for in the text as it came, while Hugging Face looks
// for those with "normalized": true after the normalizer. It matters only for added tokens whose text NFC
// changes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/token_names.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

Result<Tokenizer> make_hf_tokenizer(std::string_view json_text, const TokenNames& names,
                                    const std::string& where);

}  // namespace tessera
