// How fast a layout would decode and prefill, from what a step has to move and to compute. Pure arithmetic;
// where its constants come from, and how far off they were, is in docs/reference/plan-predict.md.
//
//   step = host + weights + touched experts + attention + exchanges + drafting
//   decode throughput = concurrency x tokens a step / step
#pragma once

#include <array>
#include <cstdint>

#include "plan/gpu_plan.h"

namespace tessera {

// The box, as the prediction sees it. From a table by the card's name, or as the user says.
struct BoxSpeed {
  double memory_gb_s = 0;  // of one GPU
  double tflop_s = 0;      // of one GPU, dense bf16
  double link_gb_s = 0;    // that a GPU's collectives reach
  double link_us = 0;      // of one small collective
  bool is_known = true;    // false: a plain guess for a card that is not in the table
};
BoxSpeed box_speed(const GpuCard& card);

// What one GPU has to do, in bytes and FLOP.
struct StepWork {
  int ranks = 1;
  double dense_bytes = 0;   // weights that every step reads
  double expert_bytes = 0;  // all routed experts
  double draft_bytes = 0;   // the draft's weights; 0 without
  double kv_bytes = 0;      // of one token, all layers, where it lies
  double experts = 0;       // of a layer; 0: none
  double top_k = 0;
  double layers = 0;
  double hidden = 0;
  double heads = 0;            // of the model
  double query_width = 0;      // of one absorbed head: latent + rope
  double output_width = 0;     // latent
  double prefill_flops = 0;    // a token, products with weights, all GPUs
  double attention_flops = 0;  // a token and a token it sees, all GPUs
};
StepWork step_work(const ModelConfig& config, const GpuPlan& plan);

// Fitted to a published matrix (predict_fit.h). Efficiencies are shares of the box's figures.
struct PredictConstants {
  double host_ms = 2.73;  // of a step: launches, sampling, scheduling
  double dense_efficiency = 0.819;
  double expert_least = 0.2255;  // efficiency with hardly a token for each expert
  double expert_most = 1.0;      // and with many
  double expert_tokens = 0.639;  // tokens an expert at which it is half way between
  std::array<double, 3> attention = {0.918, 0.754, 0.381};  // time over reading the whole cache, D = 1, 4, 8
  double attention_query = 0.637;                           // more, for each further query token
  double draft_seq_ms = 0.105;  // of speculation, for each sequence and step, besides reading the draft
  double acceptance = 0.567;    // of a drafted token, given those before it
  double prefill_efficiency = 0.1146;
  double prefill_attention = 0.53;
};
// Fitted to testdata/kimi-k26-rtxpro6000x8.csv; plan_test keeps them equal to the fit.
PredictConstants published_constants();

struct DecodeQuestion {
  int context_ranks = 1;
  std::int64_t drafts = 0;  // a step
  std::int64_t context = 0;
  std::int64_t concurrency = 1;
};
// Aggregate output tokens a second.
double predict_decode(const StepWork& work, const BoxSpeed& box, const PredictConstants& fitted,
                      const DecodeQuestion& question);
// Prompt tokens a second of one prompt.
double predict_prefill(const StepWork& work, const BoxSpeed& box, const PredictConstants& fitted,
                       std::int64_t context);

}  // namespace tessera
