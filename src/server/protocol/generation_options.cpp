#include "server/protocol/generation_options.h"

#include <charconv>
#include <limits>

namespace tessera {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMaxStops = 64;
constexpr std::size_t kMaxStopBytes = 64U << 10;  // all together; matching is linear in them

std::vector<std::string> read_stop(Fields& in) {
  std::vector<std::string> out;
  const Json* value = in.find("stop");
  if (value == nullptr) return out;
  const Json one = value->is_string() ? Json::array({*value}) : Json();
  const Json& list = value->is_string() ? one : *value;
  if (!list.is_array()) {
    in.refuse_type("stop", "a string or an array of strings", *value);
    return out;
  }
  std::size_t bytes = 0;
  for (const Json& item : list) {
    if (!item.is_string()) {
      in.refuse_type("stop", "a string or an array of strings", item);
      return out;
    }
    out.push_back(item.get<std::string>());
    bytes += out.back().size();
    if (out.back().empty()) in.refuse("stop", "'stop' holds an empty string, which would match at once.");
  }
  if (out.size() > kMaxStops || bytes > kMaxStopBytes) {
    in.refuse("stop", "'stop' may hold " + std::to_string(kMaxStops) + " strings and " +
                          std::to_string(kMaxStopBytes) + " bytes, not " + std::to_string(out.size()) +
                          " and " + std::to_string(bytes) + ".");
  }
  return out;
}

std::vector<std::int32_t> read_stop_ids(Fields& in, std::int32_t vocab) {
  std::vector<std::int32_t> out;
  const Json* list = in.array("stop_token_ids");
  if (list == nullptr) return out;
  for (const Json& item : *list) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0 || item.get<std::int64_t>() >= vocab) {
      in.refuse("stop_token_ids", "'stop_token_ids' holds " + describe(item) +
                                      "; token ids are integers from 0 to " + std::to_string(vocab - 1) +
                                      ".");
      return out;
    }
    out.push_back(item.get<std::int32_t>());
  }
  if (out.size() > 1024) in.refuse("stop_token_ids", "'stop_token_ids' may hold 1024 ids.");
  return out;
}

std::vector<std::pair<std::int32_t, float>> read_logit_bias(Fields& in, std::int32_t vocab) {
  std::vector<std::pair<std::int32_t, float>> out;
  const Json* object = in.object("logit_bias");
  if (object == nullptr) return out;
  for (const auto& [key, value] : object->get_ref<const Json::object_t&>()) {
    std::int32_t token = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || token < 0 || token >= vocab) {
      in.refuse("logit_bias", "'logit_bias' names the token \"" + key.substr(0, 40) +
                                  "\"; token ids are integers from 0 to " + std::to_string(vocab - 1) + ".");
      return out;
    }
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100)) {
      in.refuse("logit_bias", "'logit_bias' of token " + key + " must be a number from -100 to 100, not " +
                                  describe(value) + ".");
      return out;
    }
    out.emplace_back(token, value.get<float>());
  }
  return out;
}

// What other engines take and this one does not: refused by name, since ignoring it would change the answer.
void refuse_unsupported(Fields& in) {
  for (const char* name : {"use_beam_search", "return_tokens_as_token_ids"}) {
    if (in.boolean(name).value_or(false)) in.refuse(name, std::string("'") + name + "' is not supported.");
  }
  for (const char* name : {"guided_json", "guided_regex", "guided_choice", "guided_grammar",
                           "structured_outputs", "truncate_prompt_tokens", "logits_processors", "bad_words",
                           "allowed_token_ids", "prompt_embeds", "kv_transfer_params"}) {
    const Json* value = in.find(name);
    if (value != nullptr && !(value->is_array() && value->empty())) {
      in.refuse(name,
                std::string("'") + name +
                    "' is not supported. Structured answers: use 'response_format' with a JSON schema.");
    }
  }
}

}  // namespace

GenerationOptions read_generation_options(Fields& in, ErrorSlot& slot, const GenerationLimits& limits) {
  GenerationOptions out;
  out.model = in.string("model").value_or("");
  out.n = static_cast<std::int32_t>(in.integer("n", 1, limits.max_choices).value_or(1));
  if (const auto best = in.integer("best_of", 1, limits.max_choices); best && *best != out.n) {
    in.refuse("best_of", "'best_of' other than 'n' is not supported.");
  }
  out.stream = in.boolean("stream").value_or(false);
  if (const Json* options = in.object("stream_options")) {
    if (!out.stream) in.refuse("stream_options", "'stream_options' has a meaning only with 'stream': true.");
    Fields sub(*options, slot, "stream_options");
    out.include_usage = sub.boolean("include_usage").value_or(false);
    out.continuous_usage = sub.boolean("continuous_usage_stats").value_or(false);
  }
  out.report_drafts = in.boolean("report_drafts").value_or(false);
  if (out.report_drafts && !out.stream) {
    in.refuse("report_drafts", "'report_drafts' has a meaning only with 'stream': true.");
  }

  SamplingParams& sampling = out.sampling;
  sampling = limits.default_sampling;
  const auto real = [&](const char* name, double low, double high, float& field) {
    if (const auto value = in.number(name, low, high)) field = static_cast<float>(*value);
  };
  constexpr double kSmallest = 1e-6;  // for ranges that exclude 0
  real("temperature", 0, 100, sampling.temperature);
  real("top_p", kSmallest, 1, sampling.top_p);
  real("min_p", 0, 1, sampling.min_p);
  real("presence_penalty", -2, 2, sampling.presence_penalty);
  real("frequency_penalty", -2, 2, sampling.frequency_penalty);
  real("repetition_penalty", kSmallest, 100, sampling.repetition_penalty);
  if (const auto k = in.integer("top_k", -1, kMaxInt32)) sampling.top_k = static_cast<std::int32_t>(*k);
  if (const auto seed = in.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max())) {
    sampling.seed = static_cast<std::uint64_t>(*seed);
  }
  sampling.logit_bias = read_logit_bias(in, limits.vocab);
  sampling.min_tokens = static_cast<std::int32_t>(in.integer("min_tokens", 0, kMaxInt32).value_or(0));
  sampling.ignore_eos = in.boolean("ignore_eos").value_or(false);
  sampling.stop_token_ids = read_stop_ids(in, limits.vocab);
  if (const auto count = in.integer("prompt_logprobs", 0, limits.max_logprobs)) {
    if (out.stream) in.refuse("prompt_logprobs", "'prompt_logprobs' is not available with 'stream'.");
    sampling.prompt_logprobs = static_cast<std::int32_t>(*count);
  }

  out.stop = read_stop(in);
  out.include_stop = in.boolean("include_stop_str_in_output").value_or(false);
  out.skip_special = in.boolean("skip_special_tokens").value_or(true);
  in.boolean("spaces_between_special_tokens");  // without a meaning for byte-level vocabularies
  out.priority = static_cast<std::int32_t>(in.integer("priority", -kMaxInt32, kMaxInt32).value_or(0));
  out.cache_salt = in.string("cache_salt").value_or("");
  in.string("user");
  refuse_unsupported(in);
  return out;
}

}  // namespace tessera
