#include "bench/compare/comparison_text.h"

#include <array>
#include <nlohmann/json.hpp>

namespace tessera::bench {
namespace {

std::string text(const char* format, double value) {
  std::array<char, 48> out;
  std::snprintf(out.data(), out.size(), format, value);
  return out.data();
}
std::string percent(double ratio) { return text("%+.1f %%", 100 * (ratio - 1)); }
std::string amount(double value) { return text(value >= 100 ? "%.0f" : "%.2f", value); }

// Nothing in a file that is compared may break the table.
std::string cell(std::string words) {
  for (char& c : words) {
    if (c == '|' || c == '\n' || c == '\r') c = ' ';
  }
  return words;
}

}  // namespace

std::string comparison_markdown(const Comparison& comparison, const CompareNames& names,
                                const CompareOptions& options) {
  std::string out = "`" + cell(names.after) + "` against `" + cell(names.before) + "`, intervals of " +
                    text("%.0f", 100 * options.confidence) + " %\n\n";
  out += "| group | change | interval | verdict | cells | noise between runs |\n|---|---|---|---|---|---|\n";
  for (const GroupChange& group : comparison.groups) {
    out += "| " + cell(group.group) + " | " + percent(group.gain) + " | " + percent(group.low) + " to " +
           percent(group.high) + " | **" + std::string(name_of(group.verdict)) + "** | " +
           std::to_string(group.cells) + " | " + text("%.2f %%", 100 * group.run_noise) +
           (group.is_run_noise_measured ? "" : ", assumed") + " |\n";
  }
  out += "\nChanges of groups are gains: above 0 is better, also for latencies.\n\n";
  out += "| metric | cell | before | after | ratio | interval | verdict |\n|---|---|---|---|---|---|---|\n";
  for (const CellChange& change : comparison.cells) {
    const Measurement& m = *change.cell;
    out += "| " + cell(m.metric) + ", " + cell(m.unit) + " | " + cell(m.configuration()) + " | " +
           amount(change.before) + " | " + amount(change.after) + " | " + text("%.3f", change.ratio) + " | " +
           text("%.3f", change.low) + " to " + text("%.3f", change.high) + " | " +
           std::string(name_of(change.verdict)) + " |\n";
  }
  out += "\nOf cells without a change one in " + text("%.0f", 1 / (1 - options.confidence)) +
         " falls outside its interval by chance; the groups decide.\n";
  for (const std::string& note : comparison.notes) out += "\n- " + cell(note);
  return comparison.notes.empty() ? out : out + "\n";
}

std::string comparison_json(const Comparison& comparison, const CompareNames& names,
                            const CompareOptions& options) {
  using nlohmann::ordered_json;
  ordered_json json = {
      {"schema", "tessera-bench-compare/1"}, {"before", names.before},         {"after", names.after},
      {"confidence", options.confidence},    {"tolerance", options.tolerance}, {"dramatic", options.dramatic},
      {"groups", ordered_json::array()},     {"cells", ordered_json::array()}, {"notes", comparison.notes}};
  for (const GroupChange& group : comparison.groups) {
    json["groups"].push_back({{"group", group.group},
                              {"cells", group.cells},
                              {"gain", group.gain},
                              {"gain_low", group.low},
                              {"gain_high", group.high},
                              {"run_noise", group.run_noise},
                              {"run_noise_measured", group.is_run_noise_measured},
                              {"verdict", name_of(group.verdict)}});
  }
  for (const CellChange& change : comparison.cells) {
    json["cells"].push_back({{"configuration", change.cell->configuration()},
                             {"metric", change.cell->metric},
                             {"unit", change.cell->unit},
                             {"group", change.cell->group},
                             {"before", change.before},
                             {"after", change.after},
                             {"ratio", change.ratio},
                             {"ratio_low", change.low},
                             {"ratio_high", change.high},
                             {"higher_is_better", change.cell->higher_is_better},
                             {"verdict", name_of(change.verdict)}});
  }
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tessera::bench
