// Whether the gate decides well: throughput of decoding with never a draft, always as many as asked for, and
// as the gate says, for each number of sequences and each length of context, on a real model with its draft.
// The three take turns on one runner, so that whatever else the machine does meets all of them alike.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"

namespace tessera {

enum class GateMode : std::uint8_t { kNever, kAlways, kAdaptive };
inline constexpr std::size_t kGateModes = 3;

struct GateCell {
  std::int32_t sequences = 0;
  std::int32_t context = 0;
  std::array<double, kGateModes> rate = {};  // tokens a second of decode steps, medians over turns
  // Of the better of never and always: the median over rounds, in each of which all three see the same
  // prompts one after the other, so that a machine that slows down meanwhile slows all down.
  double adaptive_share = 0;
  std::int32_t chosen = 0;     // draft length that the gate chose most often
  double tokens_per_step = 0;  // of a sequence, where drafts are always made
};

struct GateBenchOptions {
  std::string model;                                       // folder
  std::string speculative_config;                          // as the flag's JSON
  std::function<std::unique_ptr<Backend>()> make_backend;  // what computes
  std::vector<std::int32_t> text;                          // tokens that prompts are cut from
  std::vector<std::int32_t> sequences = {1, 4, 16};
  std::vector<std::int32_t> contexts = {128, 1024};  // tokens of a prompt
  std::int32_t output = 32;                          // tokens of each sequence
  std::int32_t rounds = 5;                           // turns of each mode in a cell
  std::int32_t warm_up = 3;  // turns before them that are not counted: the gate meets the cell
  bool cpu_time = false;     // of this process, instead of the clock: little disturbed by other programs
  std::function<void(const GateCell&)> on_cell = [](const GateCell&) {};  // that has just been measured
};

// Of an average decode step that makes and verifies as many drafts as asked for, in microseconds.
struct StepSplit {
  double verify = 0;  // the target's pass
  double sample = 0;  // head, sampling, acceptance
  double draft = 0;   // the proposer
  double host = 0;    // planning, taking results
};

struct GateBenchReport {
  std::string model, draft;
  std::int32_t most_drafts = 0;
  bool cpu_time = false;
  std::vector<GateCell> cells;
  StepSplit split;                  // over all cells
  std::vector<double> accepted_at;  // share of drafts that stood, by position
};

Result<GateBenchReport> measure_gate(const GateBenchOptions& options);

}  // namespace tessera
