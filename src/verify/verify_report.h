// Verdicts for people and for programs.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "verify/comparison.h"

namespace tessera {

struct PairReport {
  ParitySetting a;
  ParitySetting b;
  ParityPromise promise;
  bool together = true;  // what was said with all prompts at the same time was compared too
  Comparison comparison = {};
  Judgement judgement = {};
};
std::string pair_text(const PairReport& report, std::span<const VerifyPrompt> prompts);
std::string pair_json(const PairReport& report, std::span<const VerifyPrompt> prompts);

// One configuration of a table, beside the reference.
struct MatrixRow {
  int ranks = 1;
  int context_ranks = 1;
  std::string kv;
  int chunk = 0;
  std::optional<std::string> impossible = {};  // why no program could run it
  std::optional<std::string> refused = {};     // why this one did not
  PairReport report = {};
  double seconds = 0;

  bool kept() const { return !impossible && !refused && report.judgement.kept; }
};
std::string matrix_head(std::span<const VerifyPrompt> prompts, int tokens);
// How far the rows that follow, of one format, are from f32 rows: printed, not judged by a table, which is
// about splitting.
std::string format_line(const PairReport& report);
std::string matrix_row_text(const MatrixRow& row, std::span<const VerifyPrompt> prompts);
std::string matrix_row_json(const MatrixRow& row, std::span<const VerifyPrompt> prompts);

}  // namespace tessera
