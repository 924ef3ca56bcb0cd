#include "plan/plan_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "plan/published.h"

namespace tessera {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

std::string number(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}
std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

struct Item {
  MemoryItem memory;
  bool allowance = false;
};

std::vector<Item> items_of(const LayoutPlan& layout) {
  std::vector<Item> items;
  for (MemoryItem& item : items_without_kv(layout.rank)) items.push_back({std::move(item)});
  items.push_back({{"graphs", "CUDA graphs (allowance)", layout.graphs}, true});
  items.push_back({{"nccl", "NCCL (allowance)", layout.nccl}, true});
  items.push_back({{"context", "driver context and code (allowance)", layout.context}, true});
  return items;
}

class Table {
 public:
  void row(const std::string& name, const std::vector<std::string>& cells) {
    char text[128];
    std::snprintf(text, sizeof text, "%-42s", name.c_str());
    out_ += text;
    for (const std::string& cell : cells) {
      std::snprintf(text, sizeof text, " %12s", cell.c_str());
      out_ += text;
    }
    out_ += "\n";
  }
  void line(const std::string& text) { out_ += text + "\n"; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Where the other stack's memory went beside ours, in words.
void explain_difference(Table& table, const LayoutPlan& layout, const PublishedCapacity& published,
                        std::int64_t bytes_per_token) {
  const std::int64_t theirs = layout.usable - published.kv_tokens / layout.context_ranks * bytes_per_token;
  const std::int64_t more = theirs - layout.without_kv();
  const auto gib = [](std::int64_t bytes) { return number(static_cast<double>(bytes) / kGiB, 2); };
  table.line("D = " + std::to_string(layout.context_ranks) + ": the published stack held " + gib(theirs) +
             " GiB a GPU besides its KV cache, " + gib(more) + " GiB more than this plan:");
  std::int64_t explained = 0;
  for (const PublishedPart& part : known_parts(layout.context_ranks, published.with_draft)) {
    table.line("  " + gib(part.bytes) + " GiB  " + part.what);
    explained += part.bytes;
  }
  table.line(
      "  " + gib(more - explained) +
      " GiB  not itemised by its authors: activations, graphs and their pools, allocator, libraries, less "
      "the same in this plan");
}

}  // namespace

std::string rank_memory_text(const RankMemory& memory, int indent) {
  std::string out;
  for (const MemoryItem& item : items_without_kv(memory)) {
    if (item.bytes == 0) continue;
    char text[128];
    std::snprintf(text, sizeof text, "%*s%-34s %12.2f MiB\n", indent, "", item.name.c_str(),
                  static_cast<double>(item.bytes) / (1024.0 * 1024.0));
    out += text;
  }
  return out;
}

std::string plan_text(const ModelConfig& config, const GpuPlan& plan) {
  const GpuPlanRequest& r = plan.request;
  const GpuCard& card = r.gpus.card;
  Table table;
  table.line("model    " + plan.model + " (" + plan.architecture + ")");
  if (!plan.draft.empty())
    table.line("draft    " + plan.draft + " (" + plan.draft_method + "), " + std::to_string(r.draft_tokens) +
               " tokens a proposal");
  table.line("gpus     " + std::to_string(r.gpus.count) + " x " + card.name + ", " +
             number(card.visible_gib, 1) + " GiB visible each, " + number(r.utilisation, 2) +
             " of it usable: " + number(static_cast<double>(plan.layouts.front().usable) / kGiB, 2) + " GiB");
  table.line("ranks    T = " + std::to_string(plan.tensor_parallel) +
             (r.expert_parallel ? ", whole experts on each rank" : ""));
  table.line("limits   " + grouped(r.runner.max_model_len) + " tokens a sequence, " +
             grouped(r.runner.max_num_seqs) + " sequences and " + grouped(r.runner.max_num_batched_tokens) +
             " query tokens a step");
  table.line("KV rows  " + std::string(name_of(r.runner.kv_format)) + ", " +
             grouped(plan.kv_bytes_per_token) + " bytes a token on each rank that holds it" +
             (plan.draft.empty() ? std::string()
                                 : ", the draft's " + std::string(name_of(r.draft_kv_format)) + ", " +
                                       grouped(plan.draft_kv_bytes_per_token) + " bytes on every rank") +
             ", blocks of " + std::to_string(r.runner.block_size));
  table.line("");

  std::vector<std::string> cells;
  for (const LayoutPlan& layout : plan.layouts)
    cells.push_back("D = " + std::to_string(layout.context_ranks));
  table.row("GiB on each GPU", cells);
  const auto per_layout = [&](const std::string& name, const auto& value) {
    cells.clear();
    for (const LayoutPlan& layout : plan.layouts) cells.push_back(value(layout));
    table.row(name, cells);
  };
  const auto first = items_of(plan.layouts.front());
  for (std::size_t i = 0; i < first.size(); ++i) {
    bool any = false;
    for (const LayoutPlan& layout : plan.layouts) any = any || items_of(layout)[i].memory.bytes != 0;
    if (!any) continue;
    per_layout("  " + first[i].memory.name, [&](const LayoutPlan& layout) {
      return number(static_cast<double>(items_of(layout)[i].memory.bytes) / kGiB, 3);
    });
  }
  per_layout("  sum", [](const LayoutPlan& layout) {
    return number(static_cast<double>(layout.without_kv()) / kGiB, 3);
  });
  per_layout("  KV cache",
             [](const LayoutPlan& layout) { return number(static_cast<double>(layout.kv.bytes) / kGiB, 3); });
  table.line("");
  per_layout("KV tokens", [](const LayoutPlan& layout) { return grouped(layout.kv.tokens); });
  per_layout("sequences of " + grouped(r.runner.max_model_len),
             [](const LayoutPlan& layout) { return number(layout.sequences, 2); });

  const auto published = published_for(config, plan);
  if (!published.empty()) {
    const auto of = [&](int context_ranks) -> const PublishedCapacity* {
      for (const PublishedCapacity& one : published) {
        if (one.context_ranks == context_ranks) return &one;
      }
      return nullptr;
    };
    per_layout("published KV tokens", [&](const LayoutPlan& layout) {
      const PublishedCapacity* one = of(layout.context_ranks);
      return one != nullptr ? grouped(one->kv_tokens) : std::string("-");
    });
    per_layout("plan / published", [&](const LayoutPlan& layout) {
      const PublishedCapacity* one = of(layout.context_ranks);
      return one != nullptr
                 ? number(static_cast<double>(layout.kv.tokens) / static_cast<double>(one->kv_tokens), 2)
                 : std::string("-");
    });
    table.line(std::string(published_source()));
    for (const LayoutPlan& layout : plan.layouts) {
      const PublishedCapacity* one = of(layout.context_ranks);
      // With a draft the other stack splits the draft's rows like its own.
      if (one != nullptr)
        explain_difference(table, layout, *one, plan.kv_bytes_per_token + plan.draft_kv_bytes_per_token);
    }
  }
  if (!plan.notes.empty()) table.line("");
  for (const std::string& note : plan.notes) table.line("note: " + note);
  return table.take();
}

std::string plan_json(const ModelConfig& config, const GpuPlan& plan) {
  using nlohmann::ordered_json;
  const GpuPlanRequest& r = plan.request;
  ordered_json json = {{"model", plan.model},
                       {"architecture", plan.architecture},
                       {"from_files", plan.from_files},
                       {"gpu",
                        {{"name", r.gpus.card.name},
                         {"count", r.gpus.count},
                         {"visible_bytes", r.gpus.card.visible_bytes()},
                         {"utilization", r.utilisation}}},
                       {"tensor_parallel_size", plan.tensor_parallel},
                       {"expert_parallel", r.expert_parallel},
                       {"max_model_len", r.runner.max_model_len},
                       {"max_num_seqs", r.runner.max_num_seqs},
                       {"max_num_batched_tokens", r.runner.max_num_batched_tokens},
                       {"block_size", r.runner.block_size},
                       {"kv_cache_dtype", name_of(r.runner.kv_format)},
                       {"kv_bytes_per_token", plan.kv_bytes_per_token},
                       {"draft_kv_bytes_per_token", plan.draft_kv_bytes_per_token}};
  if (!plan.draft.empty())
    json["draft"] = {{"model", plan.draft}, {"method", plan.draft_method}, {"tokens", r.draft_tokens}};
  const auto published = published_for(config, plan);
  for (const LayoutPlan& layout : plan.layouts) {
    ordered_json items = ordered_json::object();
    ordered_json allowances = ordered_json::array();
    for (const Item& item : items_of(layout)) {
      items[item.memory.key] = item.memory.bytes;
      if (item.allowance) allowances.push_back(item.memory.key);
    }
    ordered_json one = {{"decode_context_parallel_size", layout.context_ranks},
                        {"usable_bytes", layout.usable},
                        {"items", items},
                        {"allowances", allowances},
                        {"without_kv_bytes", layout.without_kv()},
                        {"kv_bytes", layout.kv.bytes},
                        {"kv_blocks_per_rank", layout.kv.blocks},
                        {"kv_tokens", layout.kv.tokens},
                        {"max_concurrency", layout.sequences}};
    for (const PublishedCapacity& p : published) {
      if (p.context_ranks == layout.context_ranks) one["published_kv_tokens"] = p.kv_tokens;
    }
    json["layouts"].push_back(std::move(one));
  }
  json["notes"] = plan.notes;
  return json.dump(2) + "\n";
}

}  // namespace tessera
