#include "doctor/findings.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

namespace tessera::doctor {
namespace {

// A rank this much below the middle one keeps the others waiting in every layer.
constexpr double kSlowShare = 0.85;
// Of what a link can carry, the least that a copy out of pinned memory should reach.
constexpr double kLinkShare = 0.6;
// Cards that show all of their memory have a window of its size; others 256 MiB.
constexpr std::int64_t kSmallWindow = std::int64_t{256} << 20;
// Of the CUDA version that a program is linked with, drivers of the same major version serve all.
constexpr int kMajor = 1000;

std::string number(double value, const char* format = "%.1f") {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}
std::string bytes_text(std::int64_t bytes) {
  return bytes < (std::int64_t{1} << 30) ? std::to_string(bytes >> 20) + " MiB"
                                         : std::to_string(bytes >> 30) + " GiB";
}
std::string cuda_text(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}
std::string gpu_text(std::size_t index, const PciGpu& gpu) {
  return "GPU " + std::to_string(index) + " (" + gpu.address + ')';
}
bool has_word(const std::string& line, const std::string& word) {
  return (' ' + line + ' ').find(' ' + word + ' ') != std::string::npos;
}

class Judge {
 public:
  Judge(const Machine& machine, const Measured& measured) : machine_(machine), measured_(measured) {}

  std::vector<Finding> findings() {
    driver();
    cards();
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      link(i, machine_.gpus[i]);
      window(i, machine_.gpus[i]);
    }
    translation();
    access_control();
    pairs();
    slow_ranks();
    together();
    host();
    std::ranges::stable_sort(found_,
                             [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
    return std::move(found_);
  }

 private:
  void add(Severity severity, std::string id, std::string what, std::string meaning, std::string advice) {
    found_.push_back({severity, std::move(id), std::move(what), std::move(meaning), std::move(advice)});
  }

  void driver() {
    const std::size_t on_bus = machine_.gpus.size();
    if (on_bus == 0 && measured_.gpus.empty()) {
      add(Severity::kNote, "no-gpu", "No NVIDIA GPU is on the PCI bus.", "Models run on the CPU.",
          "If there should be one: in a virtual machine or container it has to be handed through; else look "
          "at "
          "lspci and the BIOS.");
      return;
    }
    if (machine_.driver.empty() && measured_.cuda_of_driver == 0) {
      add(Severity::kBroken, "no-driver",
          std::to_string(on_bus) + " NVIDIA GPUs are on the bus, no driver is loaded.",
          "They cannot be used; models run on the CPU.",
          "Install NVIDIA's driver, or load it: modprobe nvidia; then look at dmesg and nvidia-smi.");
      return;
    }
    if (!measured_.has_cuda_code) {
      add(Severity::kBroken, "no-cuda-code", "This program was built without nvcc.",
          "GPUs are here and cannot be used by it.", "Build it where CUDA is, or take a program that was.");
      return;
    }
    if (measured_.cuda_of_driver > 0 &&
        measured_.cuda_of_driver / kMajor < measured_.cuda_of_program / kMajor) {
      add(Severity::kBroken, "old-driver",
          "The driver " + machine_.driver + " serves CUDA up to " + cuda_text(measured_.cuda_of_driver) +
              ", this program needs " + cuda_text(measured_.cuda_of_program) + '.',
          "No GPU can be used.", "Install a newer driver, or a program that was built with an older CUDA.");
    } else if (!measured_.unavailable.empty()) {
      add(Severity::kBroken, "gpu-unusable", "The driver refuses: " + measured_.unavailable,
          "No GPU can be used.",
          "Look at nvidia-smi and dmesg (Xid lines); in a container check that the devices are handed "
          "through.");
    }
    if (!machine_.driver.empty() && !machine_.has_persistence && !machine_.gpus.empty()) {
      add(Severity::kNote, "no-persistence", "nvidia-persistenced does not run.",
          "The driver may let go of cards that nobody uses, and starting takes seconds longer.",
          "systemctl enable --now nvidia-persistenced");
    }
    if (machine_.has_infiniband && !machine_.has_peer_memory) {
      add(Severity::kCostsSpeed, "no-peermem",
          "There are InfiniBand devices, and nvidia_peermem is not loaded.",
          "Between machines data goes through the host's memory.", "modprobe nvidia-peermem");
    }
  }

  void cards() {
    const std::vector<GpuFigures>& gpus = measured_.gpus;
    for (std::size_t i = 1; i < gpus.size(); ++i) {
      if (gpus[i].name == gpus[0].name && gpus[i].memory_bytes == gpus[0].memory_bytes) continue;
      add(Severity::kCostsSpeed, "cards-differ",
          "GPU 0 is a " + gpus[0].name + " of " + bytes_text(gpus[0].memory_bytes) + ", GPU " +
              std::to_string(i) + " a " + gpus[i].name + " of " + bytes_text(gpus[i].memory_bytes) + '.',
          "Ranks have equal shares: the slowest card sets the pace, the smallest the size of the cache.",
          "Use cards of one kind for one server (CUDA_VISIBLE_DEVICES).");
      return;
    }
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (gpus[i].capability >= 80) continue;
      add(Severity::kBroken, "old-card",
          "GPU " + std::to_string(i) + " (" + gpus[i].name + ") has compute capability " +
              std::to_string(gpus[i].capability / 10) + '.' + std::to_string(gpus[i].capability % 10) + '.',
          "8.0 or newer is needed.", "Leave it out (CUDA_VISIBLE_DEVICES).");
    }
  }

  const GpuFigures* figures_of(const PciGpu& gpu) const {
    const auto at = std::ranges::find(measured_.gpus, gpu.address, &GpuFigures::address);
    return at == measured_.gpus.end() ? nullptr : &*at;
  }

  void link(std::size_t index, const PciGpu& gpu) {
    const PciLink& link = gpu.link;
    if (link.width > 0 && link.width < link.most_width) {
      add(Severity::kCostsSpeed, "link-narrow",
          gpu_text(index, gpu) + " is linked by " + std::to_string(link.width) + " lanes of " +
              std::to_string(link.most_width) + '.',
          "Loading weights, and everything between cards that goes over PCIe, has " +
              number(100.0 * link.width / link.most_width, "%.0f") + " % of the bandwidth.",
          "Seat the card again, or use a slot or riser with all lanes; the BIOS may split a slot "
          "(bifurcation).");
    }
    const GpuFigures* const measured = figures_of(gpu);
    if (link.gt_s <= 0 || link.gt_s >= link.most_gt_s) return;
    // A card lowers its link when it idles, so the speed counts only beside a copy that was slow.
    const double could_gb_s = link.most_gt_s / 8 * link.width;
    if (measured == nullptr || measured->from_host_gb_s <= 0 ||
        measured->from_host_gb_s >= kLinkShare * could_gb_s)
      return;
    add(Severity::kCostsSpeed, "link-slow",
        gpu_text(index, gpu) + " is linked at " + number(link.gt_s) + " of " + number(link.most_gt_s) +
            " GT/s, and takes " + number(measured->from_host_gb_s) + " GB/s from the host.",
        "Loading weights, and everything between cards that goes over PCIe, is slow.",
        "Look for a BIOS setting of the slot's generation, for risers and cables of an older one, and at "
        "dmesg (AER).");
  }

  void window(std::size_t index, const PciGpu& gpu) {
    const GpuFigures* const measured = figures_of(gpu);
    if (gpu.window_bytes <= 0) return;
    const bool is_small = gpu.window_bytes <= kSmallWindow ||
                          (measured != nullptr && gpu.window_bytes < measured->memory_bytes / 2);
    if (!is_small) return;
    add(machine_.gpus.size() > 1 ? Severity::kCostsSpeed : Severity::kNote, "bar-small",
        gpu_text(index, gpu) + " shows " + bytes_text(gpu.window_bytes) + " of its memory on the bus.",
        "Other cards cannot write to it directly over PCIe.",
        "Switch Resizable BAR and Above 4G Decoding on in the BIOS; some cards need "
        "NVreg_EnableResizableBar=1.");
  }

  bool is_translated(const PciGpu& gpu) const {
    if (!gpu.iommu.empty()) return gpu.iommu.starts_with("DMA");
    // Where that is not told, what the kernel was asked for counts.
    return !passes_through() && (has_word(machine_.command_line, "intel_iommu=on") ||
                                 has_word(machine_.command_line, "amd_iommu=on"));
  }
  bool passes_through() const {
    return has_word(machine_.command_line, "iommu=pt") ||
           has_word(machine_.command_line, "iommu.passthrough=1");
  }
  void translation() {
    const auto count =
        std::ranges::count_if(machine_.gpus, [&](const PciGpu& g) { return is_translated(g); });
    if (count == 0) return;
    add(machine_.gpus.size() > 1 ? Severity::kCostsSpeed : Severity::kNote, "iommu-translates",
        "The IOMMU translates addresses of " + std::to_string(count) + " GPUs" +
            (passes_through() ? ", though the kernel was told not to (iommu=pt)." : "."),
        "What cards send each other goes up to the processor and through its tables; on some machines it "
        "arrives damaged.",
        "Start the kernel with iommu=pt, or switch the IOMMU (VT-d, AMD-Vi) off in the BIOS or with "
        "iommu=off; in a virtual machine this is the host's to do.");
  }

  // Bridges that two cards have in common lie above both; what is below them on the way may redirect.
  void access_control() {
    std::vector<std::string> redirecting;
    bool is_hidden = false;
    for (std::size_t a = 0; a < machine_.gpus.size(); ++a) {
      for (std::size_t b = a + 1; b < machine_.gpus.size(); ++b) {
        const auto& above_a = machine_.gpus[a].bridges;
        const auto& above_b = machine_.gpus[b].bridges;
        const auto is_common = [&](const std::string& address) {
          return std::ranges::find(above_a, address) != above_a.end() &&
                 std::ranges::find(above_b, address) != above_b.end();
        };
        if (std::ranges::none_of(above_a, is_common))
          continue;  // no switch: the way is the processor's anyway
        for (const auto* above : {&above_a, &above_b}) {
          for (const std::string& address : *above) {
            if (is_common(address)) break;
            const PciBridge* const bridge = machine_.bridge(address);
            if (bridge == nullptr || !bridge->redirects) {
              is_hidden = true;
            } else if (*bridge->redirects && std::ranges::find(redirecting, address) == redirecting.end()) {
              redirecting.push_back(address);
            }
          }
        }
      }
    }
    if (!redirecting.empty()) {
      std::string list;
      std::string commands;
      for (const std::string& address : redirecting) {
        list += (list.empty() ? "" : ", ") + address;
        commands += (commands.empty() ? "" : "; ") + ("setpci -s " + address + " ECAP_ACS+0x6.w=0000");
      }
      add(Severity::kCostsSpeed, "acs-redirects",
          "Access control (ACS) is on between GPUs of one switch: " + list + '.',
          "What they send each other makes a detour through the processor instead of staying in the switch.",
          "As root, after every boot: " + commands + ". Or switch ACS off in the BIOS.");
    } else if (is_hidden) {
      add(Severity::kNote, "acs-hidden",
          "Whether access control (ACS) is on between GPUs of one switch cannot be read.",
          "It would send what they write to each other through the processor.",
          "Run tessera doctor as root.");
    }
  }

  void pairs() {
    if (measured_.gpus.size() == 1) {
      add(Severity::kNote, "one-gpu", "There is one GPU.",
          "There are no pairs to measure and no ranks to compare.", "");
    }
    std::vector<double> rates;
    for (const PairFigures& pair : measured_.pairs) {
      const std::string who = "GPU " + std::to_string(pair.from) + " to GPU " + std::to_string(pair.to);
      if (!pair.damage.empty()) {
        add(Severity::kBroken, "p2p-damages", who + ": data arrives changed: " + pair.damage + '.',
            "Results would be wrong without a word.",
            "Do not use --enable-pcie-allreduce, set NCCL_P2P_DISABLE=1, and then: IOMMU off or iommu=pt, "
            "ACS off, newest "
            "driver.");
      } else if (!pair.can_reach) {
        add(Severity::kCostsSpeed, "p2p-refused", who + ": the driver lets neither reach the other's memory.",
            "What they exchange goes through the host's memory.",
            "Consumer cards need a driver that allows it; else look at ACS, the IOMMU and the BAR size "
            "above, and at "
            "nvidia-smi topo -p2p w.");
      }
      if (pair.gb_s > 0) rates.push_back(pair.gb_s);
    }
    if (rates.size() < 3) return;
    std::ranges::sort(rates);
    const double middle = rates[rates.size() / 2];
    for (const PairFigures& pair : measured_.pairs) {
      if (pair.gb_s <= 0 || pair.gb_s >= middle / 2) continue;
      add(Severity::kCostsSpeed, "pair-slow",
          "GPU " + std::to_string(pair.from) + " to GPU " + std::to_string(pair.to) + " moves " +
              number(pair.gb_s) + " GB/s, the middle pair " + number(middle) + '.',
          "Collectives go at the pace of their slowest link.",
          "See which bridge or NUMA boundary lies between them: nvidia-smi topo -m.");
    }
  }

  void slow_ranks() {
    struct Figure {
      const char* what;
      const char* unit;
      double GpuFigures::*value;
    };
    constexpr std::array<Figure, 3> kFigures = {
        {{"its memory", "GB/s", &GpuFigures::memory_gb_s},
         {"products", "TFLOP/s", &GpuFigures::tflop_s},
         {"copies from the host", "GB/s", &GpuFigures::from_host_gb_s}}};
    const std::vector<GpuFigures>& gpus = measured_.gpus;
    if (gpus.size() < 2) return;
    for (const Figure& figure : kFigures) {
      std::vector<double> values;
      for (const GpuFigures& gpu : gpus) values.push_back(gpu.*figure.value);
      std::ranges::sort(values);
      const double middle = values[values.size() / 2];  // of two, the better
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        const double value = gpus[i].*figure.value;
        if (value <= 0 || value >= kSlowShare * middle) continue;
        add(Severity::kCostsSpeed, "rank-slow",
            "GPU " + std::to_string(i) + " is slow: " + figure.what + " at " + number(value, "%.0f") + ' ' +
                figure.unit + ", the middle GPU " + number(middle, "%.0f") + '.',
            "In every layer all ranks wait for the slowest.",
            "Look for another program on it, heat and power limits (nvidia-smi -q -d PERFORMANCE,CLOCK), ECC "
            "errors, and "
            "its link above.");
      }
    }
  }

  void together() {
    if (measured_.gpus.size() < 2) return;
    if (!measured_.nccl_objection.empty()) {
      add(Severity::kBroken, "no-nccl", "NCCL cannot connect the GPUs: " + measured_.nccl_objection,
          "--tensor-parallel-size above 1 does not run on GPUs.",
          "Install libnccl.so.2 (2.18 or newer); NCCL_DEBUG=INFO says more.");
    }
    if (!measured_.one_shot_objection.empty()) {
      add(Severity::kNote, "no-one-shot", "No one-shot all-reduce: " + measured_.one_shot_objection,
          "Small sums go by NCCL.", "");
      return;
    }
    // The largest size up to which the short way was never slower.
    std::int64_t limit = 0;
    double gain = 0;
    for (const AllReduceFigures& one : measured_.all_reduces) {
      if (one.way != "one shot") continue;
      const auto other = std::ranges::find_if(measured_.all_reduces, [&](const AllReduceFigures& f) {
        return f.way == "NCCL" && f.bytes == one.bytes;
      });
      if (other == measured_.all_reduces.end() || one.us > other->us) break;
      limit = one.bytes;
      gain = std::max(gain, other->us / one.us);
    }
    if (limit == 0) return;
    add(Severity::kNote, "one-shot-pays",
        "The one-shot all-reduce is faster up to " + std::to_string(limit >> 10) + " KiB, by " +
            number(gain) + " times at best.",
        "Decode steps sum 14 KiB a token twice a layer on a Kimi-class model.",
        "Serve with --enable-pcie-allreduce.");
  }

  void host() {
    const Cpu& cpu = machine_.cpu;
    if (cpu.huge_pages == "never") {
      add(Severity::kNote, "no-huge-pages", "Transparent huge pages are off.",
          "On the CPU, reading weights spends time on address translation.",
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
    }
    if (!cpu.instruction_sets.empty() || cpu.model.empty()) return;
    add(Severity::kNote, "plain-cpu", "The CPU has none of AVX2, AVX-512 and AMX.",
        "Products on it take plain loops.", "");
  }

  const Machine& machine_;
  const Measured& measured_;
  std::vector<Finding> found_;
};

}  // namespace

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kCostsSpeed:
      return "costs speed";
    case Severity::kBroken:
      return "broken";
  }
  return "?";
}

std::vector<Finding> judge(const Machine& machine, const Measured& measured) {
  return Judge(machine, measured).findings();
}

int exit_status(const std::vector<Finding>& findings) {
  int status = 0;
  for (const Finding& finding : findings) status = std::max(status, static_cast<int>(finding.severity));
  return status;
}

}  // namespace tessera::doctor
