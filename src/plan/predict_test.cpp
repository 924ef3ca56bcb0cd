// The prediction against the published matrix it was fitted to, cells it has not seen apart.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "plan/predict_fit.h"

namespace tessera {
namespace {

std::string source(const std::string& path) { return std::string(TESSERA_SOURCE_DIR) + "/" + path; }

struct Known {
  StepWork work;
  BoxSpeed box;
  std::vector<PublishedCell> cells;
};
Known known() {
  const ModelConfig config = *read_model_config(source("models/configs/kimi-k2.6.json"));
  const Checkpoint outline = *Checkpoint::outline(config);
  const ModelConfig draft_config = *read_model_config(source("models/configs/kimi-k2.6-eagle3-mla.json"));
  const Checkpoint draft = *Checkpoint::outline(draft_config);
  GpuPlanRequest request;
  request.gpus = *parse_gpus("rtx-pro-6000:8");
  request.utilisation = 0.94;
  request.context_parallel = 1;
  request.runner = {.max_num_seqs = 128,
                    .max_num_batched_tokens = 2048,
                    .max_model_len = 262144,
                    .block_size = 64,
                    .kv_format = KvFormat::kFp8};
  const GpuPlan plan = *plan_gpus({"kimi", &outline, false}, PlanModel{"draft", &draft, false}, request);
  std::ifstream file(source("src/plan/testdata/kimi-k26-rtxpro6000x8.csv"));
  std::stringstream text;
  text << file.rdbuf();
  return {step_work(config, plan), box_speed(request.gpus.card),
          *read_published_matrix(text.str(), "matrix")};
}

// From guesses that know nothing of the matrix.
TEST(Predict, HeldOutCellsAreAsGoodAsThoseSeen) {
  const Known k = known();
  const PredictConstants guesses{.host_ms = 4,
                                 .dense_efficiency = 0.7,
                                 .expert_least = 0.4,
                                 .expert_most = 0.8,
                                 .expert_tokens = 0.5,
                                 .attention = {1, 1, 0.5},
                                 .attention_query = 0.2,
                                 .draft_seq_ms = 0.05,
                                 .acceptance = 0.5};
  const Fit fit = fit_decode(k.cells, k.work, k.box, guesses);
  EXPECT_EQ(fit.seen.cells, 180u);
  EXPECT_EQ(fit.held_out.cells, 60u);
  EXPECT_LT(fit.seen.mean, 0.075);
  EXPECT_LT(fit.held_out.mean, 0.075);
}

// The constants in the program are the fit's, to the digits written.
TEST(Predict, TheProgramsConstantsAreThoseOfTheFit) {
  const Known k = known();
  const Fit fit = fit_decode(k.cells, k.work, k.box, {});
  std::vector<PublishedCell> held_out;
  for (std::size_t i = 0; i < k.cells.size(); ++i) {
    if (is_held_out(i)) held_out.push_back(k.cells[i]);
  }
  const FitError shipped = error_of(held_out, k.work, k.box, published_constants());
  EXPECT_NEAR(shipped.mean, fit.held_out.mean, 0.005);
  EXPECT_NEAR(published_constants().acceptance, fit.constants.acceptance, 0.02);
  EXPECT_NEAR(k.box.link_gb_s, fit.box.link_gb_s, 2);
}

// voipmonitor/rtx6kpro, one stream, D = 1 with draft.
TEST(Predict, PrefillIsWithinTwoPercentOfThePublished) {
  const Known k = known();
  for (const auto& [context, rate] :
       {std::pair{8192, 7283.0}, {16384, 7049.0}, {32768, 6604.0}, {65536, 5852.0}, {131072, 4766.0}}) {
    EXPECT_NEAR(predict_prefill(k.work, k.box, published_constants(), context) / rate, 1, 0.02) << context;
  }
}

// What cannot depend on the fit.
TEST(Predict, MoreWorkIsNeverFaster) {
  const Known k = known();
  const auto rate = [&](DecodeQuestion q) { return predict_decode(k.work, k.box, published_constants(), q); };
  for (const int d : {1, 2, 4, 8}) {
    for (const std::int64_t drafts : {0, 3}) {
      double last_context = 1e9;
      for (const std::int64_t context : {0, 1000, 16384, 262144}) {
        const double now = rate({d, drafts, context, 8});
        EXPECT_LT(now, last_context);
        last_context = now;
        // A stream does not profit from others.
        EXPECT_GE(rate({d, drafts, context, 1}), rate({d, drafts, context, 2}) / 2);
      }
    }
  }
}

TEST(PublishedMatrix, RefusesWhatIsNone) {
  EXPECT_EQ(read_published_matrix("a,b\n", "m").error().kind, ErrorKind::kUnsupported);
  const std::string head = "dcp,num_speculative_tokens,context_tokens,concurrency,tokens_per_second\n";
  EXPECT_EQ(read_published_matrix(head + "1,0,0,1,x\n", "m").error().where, "m:2");
  EXPECT_EQ(read_published_matrix(head + "1,0,0,1\n", "m").error().where, "m:2");
  EXPECT_EQ(read_published_matrix(head + "1,0,0,1,-3\n", "m").error().where, "m:2");
  EXPECT_EQ(read_published_matrix(head + "1,0,0,1,5\n", "m").error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace tessera
