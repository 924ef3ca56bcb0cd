// One cell of the matrix: so many streams of so long a prompt, all decoding, watched for a while.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/load/decode_window.h"
#include "bench/load/prompt_pool.h"
#include "bench/load/request_body.h"
#include "bench/load/server_facts.h"
#include "bench/report/bench_report.h"
#include "bench/report/progress.h"

namespace tessera::bench {

struct DecodePlan {
  std::int64_t context = 0;      // tokens of a prompt; 0: a short one
  std::int32_t concurrency = 1;  // streams
  double window_s = 10;
  int slices = 10;
  std::int64_t max_tokens = 4096;  // of a stream; one that reaches them is begun again
  double patience_s = 5;           // without a new first token, until those that wait count as not served
  std::uint64_t first_prompt = 0;  // serial number
};
inline constexpr std::int64_t kShortPrompt = 32;  // what stands for context 0

struct DecodeCell {
  DecodeFigures figures;
  Standing standing = Standing::kGood;
  std::string remark;
  std::map<std::string, double> facts;
};

// The streams are gone when it returns, and the server has had a moment to see that.
DecodeCell measure_decode(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts,
                          const RequestStyle& style, const DecodePlan& plan, Progress& progress);

}  // namespace tessera::bench
