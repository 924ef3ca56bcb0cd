#include "doctor/doctor_report.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tessera::doctor {
namespace {

[[gnu::format(printf, 2, 3)]] void append(std::string& text, const char* format, ...) {
  std::array<char, 400> line{};
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(line.data(), line.size(), format, values);
  va_end(values);
  text += line.data();
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text.empty() ? "none" : text;
}

void append_cpu(std::string& text, const Diagnosis& d) {
  const Cpu& cpu = d.machine.cpu;
  append(text, "CPU         %s, %d cores, %d NUMA node%s, huge pages %s\n", cpu.model.c_str(), cpu.cores,
         std::max(cpu.numa_nodes, 1), cpu.numa_nodes > 1 ? "s" : "",
         cpu.huge_pages.empty() ? "not told" : cpu.huge_pages.c_str());
  append(text, "            instruction sets %s\n", joined(cpu.instruction_sets).c_str());
  if (d.measured.cpu_read_gb_s > 0) {
    append(text, "            memory read at %.1f GB/s, bf16 products at %.2f TFLOP/s\n",
           d.measured.cpu_read_gb_s, d.measured.cpu_tflop_s);
  }
}

void append_gpus(std::string& text, const Diagnosis& d) {
  append(text, "driver      %s\n", d.machine.driver.empty() ? "not loaded" : d.machine.driver.c_str());
  if (d.machine.gpus.empty() && d.measured.gpus.empty()) text += "GPUs        none\n";
  for (std::size_t i = 0; i < d.machine.gpus.size(); ++i) {
    const PciGpu& gpu = d.machine.gpus[i];
    append(text, "on the bus  %s, node %d, %d of %d lanes at %.1f of %.1f GT/s, window %.2f GiB, IOMMU %s\n",
           gpu.address.c_str(), gpu.numa_node, gpu.link.width, gpu.link.most_width, gpu.link.gt_s,
           gpu.link.most_gt_s, gib(gpu.window_bytes), gpu.iommu.empty() ? "not told" : gpu.iommu.c_str());
    if (!gpu.bridges.empty()) append(text, "            below %s\n", joined(gpu.bridges).c_str());
  }
  for (std::size_t i = 0; i < d.measured.gpus.size(); ++i) {
    const GpuFigures& gpu = d.measured.gpus[i];
    append(
        text,
        "GPU %-7zu %s, %.1f GiB, %s: memory %.0f GB/s, bf16 products %.0f TFLOP/s, from the host %.1f GB/s\n",
        i, gpu.name.c_str(), gib(gpu.memory_bytes), gpu.address.c_str(), gpu.memory_gb_s, gpu.tflop_s,
        gpu.from_host_gb_s);
  }
}

void append_pairs(std::string& text, const Measured& measured) {
  if (measured.pairs.empty()) return;
  text += "\nfrom  to    GB/s   latency us  direct  data\n";
  for (const PairFigures& pair : measured.pairs) {
    append(text, "%4d %3d  %6.1f   %10.1f  %-6s  %s\n", pair.from, pair.to, pair.gb_s, pair.latency_us,
           pair.can_reach ? "yes" : "no", pair.damage.empty() ? "arrives" : pair.damage.c_str());
  }
}

void append_all_reduces(std::string& text, const Measured& measured) {
  if (measured.all_reduces.empty()) return;
  std::vector<std::string> ways;
  std::map<std::int64_t, std::map<std::string, double>> rows;
  for (const AllReduceFigures& one : measured.all_reduces) {
    if (std::ranges::find(ways, one.way) == ways.end()) ways.push_back(one.way);
    rows[one.bytes][one.way] = one.us;
  }
  text += "\nall-reduce, us\n     KiB";
  for (const std::string& way : ways) append(text, "  %12s", way.c_str());
  text += '\n';
  for (const auto& [bytes, times] : rows) {
    append(text, "%8lld", static_cast<long long>(bytes >> 10));
    for (const std::string& way : ways) {
      const auto at = times.find(way);
      if (at == times.end()) {
        append(text, "  %12s", "-");
      } else {
        append(text, "  %12.1f", at->second);
      }
    }
    text += '\n';
  }
}

// The rest is nobody's business: reports are sent around.
std::vector<std::string> kernel_options(const std::string& command_line) {
  std::vector<std::string> options;
  std::istringstream words(command_line);
  for (std::string word; words >> word;) {
    for (const char* part : {"iommu", "pci", "nvidia"}) {
      if (word.find(part) == std::string::npos) continue;
      options.push_back(word);
      break;
    }
  }
  return options;
}

nlohmann::ordered_json json_of(const PciGpu& gpu) {
  return {{"address", gpu.address},
          {"numa_node", gpu.numa_node},
          {"link",
           {{"gt_s", gpu.link.gt_s},
            {"max_gt_s", gpu.link.most_gt_s},
            {"width", gpu.link.width},
            {"max_width", gpu.link.most_width}}},
          {"bar_bytes", gpu.window_bytes},
          {"bridges", gpu.bridges},
          {"iommu", gpu.iommu}};
}

}  // namespace

std::string report_text(const Diagnosis& d) {
  std::string text;
  append_cpu(text, d);
  append_gpus(text, d);
  append_pairs(text, d.measured);
  append_all_reduces(text, d.measured);
  text += '\n';
  if (d.findings.empty()) text += "Nothing to say: all well.\n";
  for (const Finding& finding : d.findings) {
    text += std::string(name_of(finding.severity)) + " [" + finding.id + "]: " + finding.what + '\n';
    text += "    " + finding.meaning + '\n';
    if (!finding.advice.empty()) text += "    > " + finding.advice + '\n';
  }
  return text;
}

std::string report_json(const Diagnosis& d) {
  using Json = nlohmann::ordered_json;
  const Machine& machine = d.machine;
  Json bus = Json::array();
  for (const PciGpu& gpu : machine.gpus) bus.push_back(json_of(gpu));
  Json bridges = Json::array();
  for (const PciBridge& bridge : machine.bridges)
    bridges.push_back({{"address", bridge.address},
                       {"acs_redirects", bridge.redirects ? Json(*bridge.redirects) : Json()}});
  Json gpus = Json::array();
  for (const GpuFigures& gpu : d.measured.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"address", gpu.address},
                    {"memory_bytes", gpu.memory_bytes},
                    {"capability", gpu.capability},
                    {"memory_gb_s", gpu.memory_gb_s},
                    {"bf16_tflop_s", gpu.tflop_s},
                    {"from_host_gb_s", gpu.from_host_gb_s}});
  }
  Json pairs = Json::array();
  for (const PairFigures& pair : d.measured.pairs) {
    pairs.push_back({{"from", pair.from},
                     {"to", pair.to},
                     {"direct", pair.can_reach},
                     {"damage", pair.damage},
                     {"gb_s", pair.gb_s},
                     {"latency_us", pair.latency_us}});
  }
  Json all_reduces = Json::array();
  for (const AllReduceFigures& one : d.measured.all_reduces)
    all_reduces.push_back({{"way", one.way}, {"bytes", one.bytes}, {"us", one.us}});
  Json findings = Json::array();
  for (const Finding& f : d.findings) {
    findings.push_back({{"severity", name_of(f.severity)},
                        {"id", f.id},
                        {"what", f.what},
                        {"meaning", f.meaning},
                        {"advice", f.advice}});
  }
  const Json report = {
      {"status", exit_status(d.findings)},
      {"findings", findings},
      {"cpu",
       {{"model", machine.cpu.model},
        {"cores", machine.cpu.cores},
        {"numa_nodes", machine.cpu.numa_nodes},
        {"instruction_sets", machine.cpu.instruction_sets},
        {"huge_pages", machine.cpu.huge_pages},
        {"read_gb_s", d.measured.cpu_read_gb_s},
        {"bf16_tflop_s", d.measured.cpu_tflop_s}}},
      {"driver", machine.driver},
      {"cuda", {{"driver", d.measured.cuda_of_driver}, {"program", d.measured.cuda_of_program}}},
      {"kernel_options", kernel_options(machine.command_line)},
      {"bus", bus},
      {"bridges", bridges},
      {"gpus", gpus},
      {"pairs", pairs},
      {"all_reduces", all_reduces}};
  // Names of cards and kernels come from outside: bytes that are no text are replaced.
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace tessera::doctor
