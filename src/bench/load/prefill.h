// Prefill measured apart from decoding: one fresh prompt at a time, one token each.
#pragma once

#include "bench/load/prompt_pool.h"
#include "bench/load/request_body.h"
#include "bench/load/server_facts.h"
#include "bench/report/bench_report.h"
#include "bench/report/progress.h"

namespace tessera::bench {

struct PrefillPlan {
  std::int64_t context = 0;  // tokens of a prompt
  int samples = 3;           // after one that is thrown away
  std::uint64_t first_prompt = 0;
  double timeout_s = 1800;  // of one prompt
};

struct PrefillFigures {
  std::vector<double> tokens_per_s;  // prompt tokens over the client's time to the first token
  std::vector<double>
      server_tokens_per_s;  // over the time that the server says its prefill took; may be empty
  std::vector<double> first_token_ms;
  Standing standing = Standing::kGood;
  std::string remark;
};

PrefillFigures measure_prefill(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts,
                               const RequestStyle& style, const PrefillPlan& plan, Progress& progress);

}  // namespace tessera::bench
