#include "bench/step/step_cost.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "bench/report/statistics.h"
#include "bench/step/random_weights.h"
#include "checkpoint/checkpoint.h"
#include "engine/model_runner.h"
#include "model/model.h"
#include "plan/measure_rank.h"

namespace tessera::bench {
namespace {

constexpr std::int32_t kBlock = 64;  // tokens in a block of the cache
constexpr int kWatched = 5;          // repetitions that are watched

std::string gib(std::int64_t bytes) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return text.data();
}

std::int64_t blocks_of(const StepShape& shape) {
  return (std::int64_t{shape.context} + shape.query + kBlock - 1) / kBlock;
}

RunnerOptions limits_of_shapes(const StepCostOptions& options) {
  RunnerOptions most{.block_size = kBlock, .kv_format = options.kv_format};
  std::int64_t blocks = 0;
  for (const StepShape& shape : options.shapes) {
    most.max_num_seqs = std::max(most.max_num_seqs, shape.batch);
    most.max_num_batched_tokens = std::max(most.max_num_batched_tokens, shape.batch * shape.query);
    most.max_model_len = std::max(most.max_model_len, shape.context + shape.query);
    most.most_drafts = std::max(most.most_drafts, shape.query - 1);
    blocks = std::max(blocks, shape.batch * blocks_of(shape));
  }
  most.kv_blocks = static_cast<std::int32_t>(blocks);
  return most;
}

Result<ModelConfig> reduced(const StepCostOptions& options) {
  ModelConfig config = options.config;
  const bool has_moe = config.moe.experts > 0 && config.moe.first_dense_layers < config.layers;
  const std::int64_t least = has_moe ? config.moe.first_dense_layers + 1 : 1;
  config.layers = options.layers > 0 ? options.layers : least;
  if (config.layers < least || config.layers > options.config.layers) {
    return Error{ErrorKind::kInvalidArgument, "--layers",
                 "is " + std::to_string(config.layers) + "; this model needs at least " +
                     std::to_string(least) + " (one of each kind) and has " +
                     std::to_string(options.config.layers) + "."};
  }
  if (options.experts > 0) {
    if (!has_moe || options.experts < config.moe.top_k || options.experts > config.moe.experts ||
        options.experts % config.moe.groups != 0) {
      return Error{ErrorKind::kInvalidArgument, "--experts",
                   "is " + std::to_string(options.experts) + "; it must lie between the " +
                       std::to_string(config.moe.top_k) + " that a token takes and the model's " +
                       std::to_string(config.moe.experts) + ", a multiple of its " +
                       std::to_string(config.moe.groups) + " groups."};
    }
    config.moe.experts = options.experts;
  }
  return config;
}

// By the numbers of the plan, and what would fit instead.
Result<std::int64_t> planned_bytes(const RankMemory& memory, const ModelConfig& config,
                                   std::int64_t free_bytes) {
  const std::int64_t needed = memory.without_kv() + memory.kv_cache;
  if (needed <= free_bytes) return needed;
  const auto experts = memory.weights[static_cast<std::size_t>(ModuleClass::kRoutedExpert)];
  std::string advice = "Ask for fewer --layers, a smaller --batch or --context.";
  if (experts > 0) {
    const std::int64_t each = experts / config.moe.experts;
    const std::int64_t fit = config.moe.experts - (needed - free_bytes + each - 1) / each;
    if (fit >= config.moe.top_k) advice = "--experts " + std::to_string(fit) + " would fit.";
  }
  return Error{ErrorKind::kInvalidArgument, "bench step",
               "needs " + gib(needed) + " by the plan: weights " + gib(memory.weight_sum()) +
                   ", of these routed experts " + gib(experts) + ", cache " + gib(memory.kv_cache) +
                   ", the rest " + gib(memory.without_kv() - memory.weight_sum()) + "; " + gib(free_bytes) +
                   " are free. " + advice};
}

// A step's inputs on the device, and the cache that it reads.
class StepInputs {
 public:
  StepInputs(Backend& backend, const Model& model, const RunnerOptions& limits) : backend_(backend) {
    const std::int64_t row_bytes = kv_row_bytes(limits.kv_format, model.kv_shape()).value_or(0);
    const std::int64_t layer_bytes = row_bytes * kBlock * limits.kv_blocks;
    pool_ = backend.allocate(static_cast<std::size_t>(layer_bytes * model.layers()));
    fill_random(backend, limits.kv_format, pool_.get(), layer_bytes * model.layers());
    for (std::int64_t l = 0; l < model.layers(); ++l) {
      kv.push_back({.data = static_cast<std::byte*>(pool_.get()) + l * layer_bytes,
                    .format = limits.kv_format,
                    .shape = model.kv_shape(),
                    .blocks = limits.kv_blocks,
                    .block_size = kBlock,
                    .row_bytes = row_bytes});
    }
  }

  void set(const StepShape& shape, std::int64_t vocab) {
    buffers_.clear();
    const std::int32_t tokens = shape.batch * shape.query;
    const auto each = static_cast<std::int32_t>(blocks_of(shape));
    std::vector<std::int32_t> ids, positions, visible, starts = {0}, table, all;
    std::vector<std::int64_t> slots;
    view = {};
    for (std::int32_t s = 0; s < shape.batch; ++s) {
      for (std::int32_t b = 0; b < each; ++b) table.push_back(s * each + b);
      for (std::int32_t t = 0; t < shape.query; ++t) {
        const std::int32_t position = shape.context + t;
        all.push_back(static_cast<std::int32_t>(ids.size()));
        ids.push_back(static_cast<std::int32_t>((std::int64_t{7919} * position + 104'729 * s) % vocab));
        positions.push_back(position);
        visible.push_back(position + 1);
        slots.push_back(std::int64_t{s} * each * kBlock + position);
        view.pairs += position + 1;
      }
      view.rows += shape.context + shape.query;
      starts.push_back((s + 1) * shape.query);
    }
    rows = upload(all);
    const std::vector<std::int32_t> none(static_cast<std::size_t>(tokens));
    chosen = const_cast<std::int32_t*>(upload(none));
    batch = {.tokens = tokens, .ids = upload(ids)};
    batch.decode = {.seqs = shape.batch,
                    .tokens = tokens,
                    .max_query = shape.query,
                    .max_blocks = each,
                    .query_start = upload(starts),
                    .positions = upload(positions),
                    .visible_rows = upload(visible),
                    .block_table = upload(table),
                    .slots = upload(slots)};
  }

  ForwardBatch batch;
  std::vector<KvLayer> kv;
  const std::int32_t* rows = nullptr;  // [tokens] all of them
  std::int32_t* chosen = nullptr;      // [tokens]
  CacheView view;

 private:
  template <class T>
  const T* upload(const std::vector<T>& host) {
    buffers_.push_back(backend_.allocate(host.size() * sizeof(T)));
    backend_.copy_to_device(buffers_.back().get(), host.data(), host.size() * sizeof(T));
    backend_.synchronise();
    return static_cast<const T*>(buffers_.back().get());
  }

  Backend& backend_;
  Buffer pool_;
  std::vector<Buffer> buffers_;
};

double floor_us(const PartCost& cost, const Ceilings& ceilings) {
  return std::max(cost.bytes / ceilings.read_gb_s * 1e-3, cost.flops / ceilings.tflop_s * 1e-6);
}

// What one rank of the whole model has more of than what was run, for each part.
class Extrapolation {
 public:
  Extrapolation(const StepCostOptions& options, const ModelConfig& run, const RankMemory& run_memory,
                const RankMemory& whole_memory)
      : run_weights_(run_memory.weights),
        whole_weights_(whole_memory.weights),
        moe_(options.config.moe),
        layers_(static_cast<double>(options.config.layers) / static_cast<double>(run.layers)),
        layers_of_experts_(static_cast<double>(options.config.layers - moe_.first_dense_layers) /
                           static_cast<double>(run.layers - moe_.first_dense_layers)) {}

  double layers_of_experts() const { return layers_of_experts_; }

  double factor(StepPart part, const PartCost& measured, const StepShape& shape) const {
    switch (part) {
      case StepPart::kAttentionProducts:
        return of(ModuleClass::kAttention);
      case StepPart::kDenseMlp:
        return of(ModuleClass::kDenseMlp);
      case StepPart::kRouter:
        return of(ModuleClass::kRouter);
      case StepPart::kSharedExpert:
        return of(ModuleClass::kSharedExpert);
      case StepPart::kHead:
        return of(bytes(run_weights_, ModuleClass::kHead) > 0 ? ModuleClass::kHead : ModuleClass::kEmbedding);
      case StepPart::kRoutedExperts: {
        // Tokens choose independently among all experts of the model.
        const double share =
            1 - std::pow(1 - static_cast<double>(moe_.top_k) / static_cast<double>(moe_.experts),
                         shape.batch * shape.query);
        return share * bytes(whole_weights_, ModuleClass::kRoutedExpert) / measured.bytes;
      }
      case StepPart::kCache:  // every rank reads all rows
      case StepPart::kRest:
        return layers_;
    }
    return layers_;
  }

 private:
  using Weights = std::array<std::int64_t, kModuleClasses>;
  static double bytes(const Weights& weights, ModuleClass c) {
    return static_cast<double>(weights[static_cast<std::size_t>(c)]);
  }
  double of(ModuleClass c) const { return bytes(whole_weights_, c) / bytes(run_weights_, c); }

  Weights run_weights_, whole_weights_;
  MoeConfig moe_;
  double layers_;
  double layers_of_experts_;
};

class Bench {
 public:
  Bench(StepMeter& meter, Model& model, StepInputs& inputs, const StepCostOptions& options)
      : meter_(meter), model_(model), inputs_(inputs), options_(options) {}

  StepCost measure(const StepShape& shape) {
    inputs_.set(shape, model_.vocab());
    StepCost cost;
    cost.shape = shape;
    run();  // scratch grows, modules load
    // As the runner does it: the pass is recorded where the device can, the head is not.
    std::unique_ptr<Recording> recording =
        meter_.record([&] { (void)model_.forward(inputs_.batch, inputs_.kv); });
    const Tensor hidden = model_.forward(inputs_.batch, inputs_.kv);
    meter_.synchronise();
    using Clock = std::chrono::steady_clock;
    std::vector<double> times;
    const auto began = Clock::now();
    while (times.size() < 5 ||
           (times.size() < 200 && Clock::now() - began < std::chrono::duration<double>(options_.seconds))) {
      const auto start = Clock::now();
      if (recording) {
        recording->replay();
        choose(hidden);
      } else {
        run();
      }
      meter_.synchronise();
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    cost.us = median(times);
    cost.low_us = percentile(times, 0.1);
    cost.high_us = percentile(times, 0.9);
    watch(cost);
    return cost;
  }

 private:
  void run() { choose(model_.forward(inputs_.batch, inputs_.kv)); }
  void choose(const Tensor& hidden) {
    model_.argmax(hidden, inputs_.rows, inputs_.batch.tokens, inputs_.chosen);
  }

  void watch(StepCost& cost) {
    std::array<std::vector<double>, kStepParts> us;
    StepCosts last;
    for (int i = 0; i < kWatched; ++i) {
      meter_.start(inputs_.view);
      run();
      last = meter_.stop();
      for (std::size_t p = 0; p < kStepParts; ++p) us[p].push_back(last[p].us);
    }
    double sum = 0;
    int calls = 0;
    for (std::size_t p = 0; p < kStepParts; ++p) {
      sum += last[p].us = median(us[p]);
      calls += last[p].calls;
    }
    // A device that queues its work is slower where every call is waited for, by about the same each: that
    // much is taken off again, and the parts add up to the step.
    const double wait_us = std::max(0.0, sum - cost.us) / calls;
    for (std::size_t p = 0; p < kStepParts; ++p) {
      if (last[p].calls == 0) continue;
      last[p].us = std::max(0.0, last[p].us - wait_us * last[p].calls);
      cost.parts.push_back({.part = static_cast<StepPart>(p), .measured = last[p]});
    }
  }

  StepMeter& meter_;
  Model& model_;
  StepInputs& inputs_;
  const StepCostOptions& options_;
};

}  // namespace

Result<StepCostReport> measure_step(const StepCostOptions& options, std::unique_ptr<Backend> backend,
                                    const DeviceModel& device, const Ceilings& ceilings) {
  TS_TRY(const ModelConfig config, reduced(options));
  TS_TRY(const Checkpoint outline, Checkpoint::outline(config));
  TS_TRY(const Checkpoint whole, Checkpoint::outline(options.config));
  TS_TRY(check_shardable(whole, options.ranks, false));
  const RunnerOptions limits = limits_of_shapes(options);
  TS_TRY(RankMemory memory, measure_rank(outline, device, limits, {}));
  TS_TRY(const RankMemory whole_memory, measure_rank(whole, device, limits, {.ranks = options.ranks}));
  memory = with_caches(memory, limits.kv_blocks, 1);
  StepCostReport report;
  report.layers = config.layers;
  report.experts = config.moe.experts;
  TS_TRY(report.planned_bytes, planned_bytes(memory, config, options.free_bytes));

  StepMeter meter(std::make_unique<RandomWeights>(std::move(backend)));
  std::int64_t made = 0;
  LoadOptions load;
  load.limits = ModelRunner::limits_of(limits);
  load.on_weight = [&](ModuleClass module_class, std::int64_t bytes) {
    meter.add_weight(module_class);
    made += bytes;
    options.on_progress("weights, " + gib(made) + " of " + gib(memory.weight_sum()));
  };
  TS_TRY(const std::unique_ptr<Model> model, load_model(outline, meter, load));
  StepInputs inputs(meter, *model, limits);
  const Extrapolation extrapolation(options, config, memory, whole_memory);
  Bench bench(meter, *model, inputs, options);
  for (const StepShape& shape : options.shapes) {
    options.on_progress("batch " + std::to_string(shape.batch) + ", context " +
                        std::to_string(shape.context) + ", query " + std::to_string(shape.query));
    StepCost cost = bench.measure(shape);
    for (StepPartCost& part : cost.parts) {
      const double factor = extrapolation.factor(part.part, part.measured, shape);
      part.floor_us = floor_us(part.measured, ceilings);
      part.whole_floor_us = part.floor_us * factor;
      // With fewer experts the router is too small to be timed by its bytes: what it takes beyond them is a
      // call's.
      part.whole_us = part.part == StepPart::kRouter
                          ? part.whole_floor_us + std::max(0.0, part.measured.us - part.floor_us) *
                                                      extrapolation.layers_of_experts()
                          : part.measured.us * factor;
      cost.floor_us += part.floor_us;
      cost.whole_us += part.whole_us;
      cost.whole_floor_us += part.whole_floor_us;
    }
    report.steps.push_back(std::move(cost));
  }
  return report;
}

}  // namespace tessera::bench
