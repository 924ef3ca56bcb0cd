#include "server/protocol/completion_request.h"

#include <limits>

namespace tessera {
namespace {

std::vector<std::int32_t> read_ids(Fields& in, const Json& list, std::int32_t vocab) {
  std::vector<std::int32_t> out;
  out.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0 || item.get<std::int64_t>() >= vocab) {
      in.refuse("prompt", "'prompt' holds " + describe(item) +
                              " among token ids; they are integers from 0 to " + std::to_string(vocab - 1) +
                              ".");
      return out;
    }
    out.push_back(item.get<std::int32_t>());
  }
  return out;
}

// A string, an array of strings, an array of token ids, or an array of arrays of token ids.
std::vector<CompletionPrompt> read_prompts(Fields& in, std::int32_t vocab) {
  std::vector<CompletionPrompt> out;
  const Json* prompt = in.find("prompt");
  if (prompt == nullptr) {
    in.refuse("prompt", "'prompt' is missing.", "missing_field");
  } else if (prompt->is_string()) {
    out.emplace_back(prompt->get<std::string>());
  } else if (!prompt->is_array()) {
    in.refuse_type("prompt", "a string, an array of strings, or token ids", *prompt);
  } else if (prompt->empty()) {
    in.refuse("prompt", "'prompt' is an empty array.");
  } else if (prompt->front().is_number()) {
    out.emplace_back(read_ids(in, *prompt, vocab));
  } else {
    for (const Json& item : *prompt) {
      if (item.is_string()) {
        out.emplace_back(item.get<std::string>());
      } else if (item.is_array()) {
        out.emplace_back(read_ids(in, item, vocab));
      } else {
        in.refuse_type("prompt", "made of strings or of arrays of token ids", item);
        break;
      }
    }
  }
  return out;
}

}  // namespace

ApiResult<CompletionRequest> read_completion_request(const Json& body, const GenerationLimits& limits) {
  ErrorSlot slot;
  Fields in(body, slot);
  CompletionRequest out;
  out.options = read_generation_options(in, slot, limits);
  GenerationOptions& options = out.options;
  out.prompts = read_prompts(in, limits.vocab);
  const auto choices = static_cast<std::int64_t>(out.prompts.size()) * options.n;
  if (choices > limits.max_choices) {
    in.refuse("prompt", "The number of prompts times 'n' is " + std::to_string(choices) + "; at most " +
                            std::to_string(limits.max_choices) + " are answered in one request.");
  }
  out.echo = in.boolean("echo").value_or(false);
  out.add_special_tokens = in.boolean("add_special_tokens").value_or(true);
  const auto max_tokens = in.integer("max_tokens", 0, std::numeric_limits<std::int32_t>::max());
  options.default_max_tokens = 16;  // OpenAI's default here
  if (max_tokens) options.max_tokens = static_cast<std::int32_t>(*max_tokens);
  const std::int32_t limit = options.max_tokens.value_or(options.default_max_tokens);
  if (limit == 0 && !out.echo) {
    in.refuse("max_tokens", "'max_tokens' of 0 has a meaning only with 'echo': true.");
  }
  if (options.sampling.min_tokens > limit) {
    in.refuse("min_tokens", "'min_tokens' (" + std::to_string(options.sampling.min_tokens) +
                                ") is larger than 'max_tokens' (" + std::to_string(limit) + ").");
  }
  if (const auto count = in.integer("logprobs", 0, limits.max_logprobs)) {
    options.sampling.logprobs = static_cast<std::int32_t>(*count);
    if (out.echo) options.sampling.prompt_logprobs = options.sampling.logprobs;
  }
  if (!in.string("suffix").value_or("").empty()) in.refuse("suffix", "'suffix' is not supported.");
  if (const Json* format = in.object("response_format")) {
    Fields sub(*format, slot, "response_format");
    if (sub.string("type").value_or("text") != "text") {
      in.refuse("response_format", "'response_format' is supported for chat completions only.");
    }
  }
  if (slot.error) return *std::move(slot.error);
  return out;
}

}  // namespace tessera
