#include "verify/verify_report.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const std::optional<TokenDifference>& difference,
                     std::span<const VerifyPrompt> prompts) {
  if (!difference) return nullptr;
  const auto finite = [](double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
  };
  return {{"prompt", prompts[difference->prompt].name},
          {"pass", difference->pass},
          {"position", difference->position},
          {"a_token", difference->a_token},
          {"b_token", difference->b_token},
          {"a_top2_gap", finite(difference->a_gap)},
          {"b_top2_gap", finite(difference->b_gap)}};
}

ordered_json json_of(const PairReport& report, std::span<const VerifyPrompt> prompts) {
  const Comparison& c = report.comparison;
  return {{"a", describe(report.a)},
          {"b", describe(report.b)},
          {"level", name_of(report.promise.level)},
          {"because", report.promise.reason},
          {"kept", report.judgement.kept},
          {"verdict", report.judgement.sentence},
          {"tokens", c.tokens},
          {"differing_tokens", c.differing},
          {"ties", c.ties},
          {"logit_rows", c.rows},
          {"unequal_rows", c.unequal_rows},
          {"max_abs", c.max_abs},
          {"mean_kl", c.mean_kl},
          {"max_kl", c.max_kl},
          {"kl_bound", report.promise.mean_kl},
          {"first_difference", json_of(c.first, prompts)},
          {"first_tie", json_of(c.first_tie, prompts)}};
}

std::string differences_text(const PairReport& report, std::span<const VerifyPrompt> prompts,
                             const char* indent) {
  const Comparison& c = report.comparison;
  std::string text;
  if (c.first) text += indent + ("first difference: " + describe(*c.first, prompts)) + "\n";
  if (c.first_tie) text += indent + ("first tie: " + describe(*c.first_tie, prompts)) + "\n";
  if (!c.largest_at.empty() && !report.judgement.kept)
    text += indent + ("largest divergence: " + c.largest_at) + "\n";
  return text;
}

}  // namespace

std::string pair_text(const PairReport& report, std::span<const VerifyPrompt> prompts) {
  const Comparison& c = report.comparison;
  char figures[200];
  std::snprintf(figures, sizeof figures,
                "logits    %lld rows, %lld unequal in some bit; max abs %.3g, KL mean %.3g, max %.3g nats\n",
                static_cast<long long>(c.rows), static_cast<long long>(c.unequal_rows), c.max_abs, c.mean_kl,
                c.max_kl);
  return "a         " + describe(report.a) + "\nb         " + describe(report.b) + "\nprompts   " +
         std::to_string(prompts.size()) + ", free-running, teacher-forced by decode and by prefill" +
         (report.together ? ", and all together\n"
                          : "; not all together: there the device's sums follow the batch\n") +
         "promise   " + std::string(name_of(report.promise.level)) + ": " + report.promise.reason +
         "\ntokens    " + std::to_string(c.tokens) + " compared, " + std::to_string(c.differing) +
         " places differ, " + std::to_string(c.ties) + " ties\n" + figures +
         differences_text(report, prompts, "") + (report.judgement.kept ? "kept      " : "BROKEN    ") +
         report.judgement.sentence + "\n";
}

std::string pair_json(const PairReport& report, std::span<const VerifyPrompt> prompts) {
  return json_of(report, prompts).dump(2) + "\n";
}

std::string matrix_head(std::span<const VerifyPrompt> prompts, int tokens) {
  char head[200];
  std::snprintf(head, sizeof head, "%3s %3s %-11s %6s  %-12s %9s %10s %10s %6s  %s\n", "T", "D", "KV",
                "chunk", "promise", "max abs", "mean KL", "max KL", "s", "verdict");
  return std::to_string(prompts.size()) + " prompts, " + std::to_string(tokens) +
         " tokens each; every row against one rank with the same row format\n" + head;
}

std::string format_line(const PairReport& report) {
  const Comparison& c = report.comparison;
  char text[200];
  std::snprintf(text, sizeof text,
                "        %s rows against f32 rows: KL mean %.3g, max %.3g nats (not judged)\n",
                std::string(name_of(report.b.kv_format)).c_str(), c.mean_kl, c.max_kl);
  return text;
}

std::string matrix_row_text(const MatrixRow& row, std::span<const VerifyPrompt> prompts) {
  char text[160];
  std::snprintf(text, sizeof text, "%3d %3d %-11s %6d  ", row.ranks, row.context_ranks, row.kv.c_str(),
                row.chunk);
  std::string line = text;
  if (row.impossible) return line + "impossible: " + *row.impossible + "\n";
  if (row.refused) return line + "REFUSED: " + *row.refused + "\n";
  const Comparison& c = row.report.comparison;
  std::snprintf(text, sizeof text, "%-12s %9.2g %10.2g %10.2g %6.1f  ",
                std::string(name_of(row.report.promise.level)).c_str(), c.max_abs, c.mean_kl, c.max_kl,
                row.seconds);
  line += text;
  line += (row.kept() ? "kept" : "BROKEN: " + row.report.judgement.sentence);
  if (row.kept() && c.ties > 0) line += ", " + std::to_string(c.ties) + " ties";
  line += "\n";
  return row.kept() ? line : line + differences_text(row.report, prompts, "        ");
}

std::string matrix_row_json(const MatrixRow& row, std::span<const VerifyPrompt> prompts) {
  ordered_json json = {{"tensor_parallel_size", row.ranks},
                       {"decode_context_parallel_size", row.context_ranks},
                       {"kv_cache_dtype", row.kv},
                       {"max_num_batched_tokens", row.chunk},
                       {"seconds", row.seconds}};
  if (row.impossible) {
    json["impossible"] = *row.impossible;
  } else if (row.refused) {
    json["kept"] = false;
    json["refused"] = *row.refused;
  } else {
    json.update(json_of(row.report, prompts));
  }
  return json.dump();
}

}  // namespace tessera
