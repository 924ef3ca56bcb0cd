// `tessera generate`: one completion without a server, streamed to the terminal, with timings.
#pragma once

#include <string>

#include "engine/sampling_params.h"
#include "processes.h"
#include "serve_flags.h"

namespace tessera {

struct GenerateFlags {
  ServeFlags engine;
  std::string prompt;
  std::string prompt_file;
  bool chat = false;  // the prompt is a user's message, put through the chat template
  int max_tokens = 128;
  float temperature = -1;  // below 0: the checkpoint's default
  float top_p = -1;
  int top_k = -1;
  std::optional<std::uint64_t> seed;
  bool ignore_eos = false;
  bool quiet = false;  // no timings
};

// `processes` is null when there is one.
int run_generate(const GenerateFlags& flags, Processes* processes);

}  // namespace tessera
