#include "plan/predict_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

std::string number(const char* format, double value) {
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// A profile: how many ranks share a sequence, and whether to speculate.
struct Profile {
  const LayoutPlan* layout = nullptr;
  std::int64_t drafts = 0;

  std::string name() const {
    return "D = " + std::to_string(layout->context_ranks) +
           (drafts > 0 ? ", " + std::to_string(drafts) + " drafts" : ", no drafts");
  }
  // Of so long a context; a sequence of nothing still needs a block.
  std::int64_t sequences(std::int64_t context) const {
    return layout->kv.tokens / std::max<std::int64_t>(context, 64);
  }
};

class Predictor {
 public:
  Predictor(const ModelConfig& config, const GpuPlan& plan, const PredictRequest& request)
      : request_(request), work_(step_work(config, plan)) {
    for (const LayoutPlan& layout : plan.layouts) {
      profiles.push_back({&layout, 0});
      if (!plan.draft.empty()) profiles.push_back({&layout, plan.request.draft_tokens});
    }
  }

  double decode(const Profile& profile, std::int64_t context, std::int64_t concurrency) const {
    return predict_decode(work_, request_.box, request_.constants,
                          {profile.layout->context_ranks, profile.drafts, context, concurrency});
  }
  double prefill(std::int64_t context) const {
    return predict_prefill(work_, request_.box, request_.constants, context);
  }

  // The larger the better. A server runs as many as fit, and the rest waits.
  double score(const Profile& profile) const {
    const auto served = [&](std::int64_t context, std::int64_t wanted) {
      const std::int64_t fits = std::min(wanted, profile.sequences(context));
      return fits > 0 ? decode(profile, context, fits) : 1e-3;
    };
    const std::int64_t longest = *std::ranges::max_element(request_.contexts);
    if (request_.goal == PredictGoal::kCapacity) {
      // Streams first; of equals, the faster.
      const std::int64_t fits = profile.sequences(longest);
      return static_cast<double>(fits) + 1e-6 * served(longest, fits);
    }
    const std::vector<std::int64_t> one = {1};
    const auto& concurrencies = request_.goal == PredictGoal::kLatency ? one : request_.concurrencies;
    double sum = 0;
    for (const std::int64_t context : request_.contexts) {
      for (const std::int64_t concurrency : concurrencies) sum += std::log(served(context, concurrency));
    }
    return sum / static_cast<double>(request_.contexts.size() * concurrencies.size());
  }
  const Profile& best() const {
    return *std::ranges::max_element(profiles, {}, [&](const Profile& profile) { return score(profile); });
  }

  std::vector<Profile> profiles;

 private:
  const PredictRequest& request_;
  StepWork work_;
};

const char* name_of(PredictGoal goal) {
  return goal == PredictGoal::kLatency ? "latency" : goal == PredictGoal::kBalance ? "balance" : "capacity";
}

std::string error_text(const FitError& error) {
  return std::to_string(error.cells) + " cells, mean " + number("%.1f %%", 100 * error.mean) + ", median " +
         number("%.1f %%", 100 * error.median) + ", 90th percentile " + number("%.1f %%", 100 * error.p90) +
         ", worst " + number("%.1f %%", 100 * error.worst);
}

}  // namespace

std::optional<PredictGoal> parse_goal(std::string_view name) {
  for (const PredictGoal goal : {PredictGoal::kLatency, PredictGoal::kBalance, PredictGoal::kCapacity}) {
    if (name == name_of(goal)) return goal;
  }
  return std::nullopt;
}

std::string predict_text(const ModelConfig& config, const GpuPlan& plan, const PredictRequest& request) {
  const Predictor predictor(config, plan, request);
  std::string out =
      "predicted, not measured: " + plan.model + " on " + std::to_string(plan.request.gpus.count) + " x " +
      plan.request.gpus.card.name + ", T = " + std::to_string(plan.tensor_parallel) + "; " +
      number("%.0f GB/s", request.box.memory_gb_s) + number(", %.0f TFLOP/s", request.box.tflop_s) +
      number(" a GPU, link %.0f GB/s", request.box.link_gb_s) + number(", %.0f us", request.box.link_us) +
      "\n";
  if (!request.box.is_known) out += "The card is not in the table: these speeds are a guess; say them.\n";
  for (const Profile& profile : predictor.profiles) {
    out +=
        "\n" + profile.name() + ": output tokens/s of all streams; in brackets what does not fit the cache\n";
    out += " context \\ streams";
    for (const std::int64_t concurrency : request.concurrencies)
      out += number("%10.0f", static_cast<double>(concurrency));
    out += '\n';
    for (const std::int64_t context : request.contexts) {
      out += number("%19.0f", static_cast<double>(context));
      for (const std::int64_t concurrency : request.concurrencies) {
        const std::string rate = number("%.0f", predictor.decode(profile, context, concurrency));
        const bool fits = concurrency <= profile.sequences(context);
        std::string cell = fits ? rate : "(" + rate + ")";
        if (cell.size() < 10) cell.insert(0, 10 - cell.size(), ' ');
        out += cell;
      }
      out += '\n';
    }
  }
  out += "\nprefill of one prompt, tokens/s:";
  for (const std::int64_t context : request.contexts) {
    if (context > 0)
      out += number("  %.0f", static_cast<double>(context)) + number(": %.0f", predictor.prefill(context));
  }
  out += std::string("\n\nfor ") + name_of(request.goal) + ": " + predictor.best().name() + "\n";
  if (request.fit) {
    out += "fit, cells seen: " + error_text(request.fit->seen) +
           "\nfit, held out:   " + error_text(request.fit->held_out) + "\n";
  }
  return out;
}

std::string predict_json(const ModelConfig& config, const GpuPlan& plan, const PredictRequest& request) {
  using nlohmann::ordered_json;
  const Predictor predictor(config, plan, request);
  ordered_json json = {{"model", plan.model},
                       {"gpu", plan.request.gpus.card.name},
                       {"gpus", plan.request.gpus.count},
                       {"tensor_parallel_size", plan.tensor_parallel},
                       {"box",
                        {{"memory_gb_s", request.box.memory_gb_s},
                         {"tflop_s", request.box.tflop_s},
                         {"link_gb_s", request.box.link_gb_s},
                         {"link_us", request.box.link_us},
                         {"known", request.box.is_known}}},
                       {"decode", ordered_json::array()},
                       {"prefill", ordered_json::array()}};
  for (const Profile& profile : predictor.profiles) {
    for (const std::int64_t context : request.contexts) {
      for (const std::int64_t concurrency : request.concurrencies) {
        json["decode"].push_back({{"decode_context_parallel_size", profile.layout->context_ranks},
                                  {"num_speculative_tokens", profile.drafts},
                                  {"context", context},
                                  {"concurrency", concurrency},
                                  {"fits", concurrency <= profile.sequences(context)},
                                  {"tokens_per_second", predictor.decode(profile, context, concurrency)}});
      }
    }
  }
  for (const std::int64_t context : request.contexts) {
    if (context > 0)
      json["prefill"].push_back({{"context", context}, {"tokens_per_second", predictor.prefill(context)}});
  }
  const Profile& best = predictor.best();
  json["recommended"] = {{"goal", name_of(request.goal)},
                         {"decode_context_parallel_size", best.layout->context_ranks},
                         {"num_speculative_tokens", best.drafts}};
  if (request.fit) {
    for (const auto& [key, error] :
         {std::pair{"seen", request.fit->seen}, {"held_out", request.fit->held_out}}) {
      json["fit"][key] = {{"cells", error.cells},
                          {"mean", error.mean},
                          {"median", error.median},
                          {"p90", error.p90},
                          {"worst", error.worst}};
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace tessera
