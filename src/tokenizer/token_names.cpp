#include "tokenizer/token_names.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "tokenizer/json_fields.h"

namespace tessera {

std::optional<std::string> TokenNames::find(std::string_view name) const {
  for (const auto& [key, text] : named) {
    if (key == name) return text;
  }
  return std::nullopt;
}

Result<TokenNames> read_token_names(std::string_view json_text, const std::string& where) {
  TS_TRY(const nlohmann::json config, parse_json_object(json_text, where));
  TokenNames names;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto found = config.find(name);
    if (found == config.end()) continue;
    // Either a string, or an added token written out.
    if (found->is_string()) {
      names.named.emplace_back(name, found->get<std::string>());
    } else if (found->is_object() && found->contains("content") && found->at("content").is_string()) {
      names.named.emplace_back(name, found->at("content").get<std::string>());
    } else if (!found->is_null()) {
      return Error{ErrorKind::kCorrupt, where + ": " + name, "Expected a string or an object with content."};
    }
  }
  if (const auto slots = config.find("num_reserved_special_tokens"); slots != config.end()) {
    if (!slots->is_number_integer() || slots->get<std::int64_t>() < 0 ||
        slots->get<std::int64_t>() > 1'000'000) {
      return Error{ErrorKind::kCorrupt, where + ": num_reserved_special_tokens",
                   "Expected a number from 0 to 1,000,000."};
    }
    names.reserved_slots = slots->get<std::int32_t>();
  }
  if (const auto added = config.find("added_tokens_decoder"); added != config.end()) {
    if (!added->is_object())
      return Error{ErrorKind::kCorrupt, where + ": added_tokens_decoder", "Expected an object."};
    for (const auto& [key, value] : added->items()) {
      const std::string place = where + ": added_tokens_decoder " + key;
      std::int32_t id = -1;
      const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (failed != std::errc() || end != key.data() + key.size() || id < 0) {
        return Error{ErrorKind::kCorrupt, place, "Expected a token id as the key."};
      }
      TS_TRY(ControlToken token, read_added_token(value, place));
      token.id = id;
      names.added.push_back(std::move(token));
    }
  }
  return names;
}

}  // namespace tessera
