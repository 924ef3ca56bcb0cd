// What a machine is, as the kernel tells it (/sys and /proc): nothing is measured, no driver is called.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera::doctor {

struct PciLink {
  double gt_s = 0;  // giga-transfers a second and lane, now: an idle card may lower it; 0: not told
  double most_gt_s = 0;
  int width = 0;  // lanes
  int most_width = 0;
};

// A port of a switch or of the processor, above devices.
struct PciBridge {
  std::string address;  // "0000:16:00.0"
  // Whether access control sends what one device writes to another up to the processor first. Not told to
  // those who may not read all of the configuration space.
  std::optional<bool> redirects;
};

struct PciGpu {
  std::string address;
  int numa_node = -1;  // -1: not told, or one node
  PciLink link;
  std::int64_t window_bytes = 0;     // the largest memory window (BAR)
  std::vector<std::string> bridges;  // above it, the nearest first
  std::string iommu;                 // "identity", "DMA", "DMA-FQ"; empty: in no group, or not told
};

struct Cpu {
  std::string model;
  int cores = 0;
  int numa_nodes = 0;
  std::vector<std::string> instruction_sets;  // of those that the CPU back-end has kernels for
  std::string huge_pages;                     // "always", "madvise", "never"; empty: not told
};

struct Machine {
  Cpu cpu;
  std::vector<PciGpu> gpus;  // NVIDIA's
  std::vector<PciBridge> bridges;
  std::string driver;  // version of the kernel's module; empty: not loaded
  bool has_persistence = false;
  bool has_infiniband = false;
  bool has_peer_memory = false;  // nvidia_peermem is loaded
  std::string command_line;      // the kernel's

  const PciBridge* bridge(const std::string& address) const;
};

// `root` stands before /sys and /proc: "/" for this machine, a folder for a copy of another's.
Machine read_machine(const std::filesystem::path& root);

}  // namespace tessera::doctor
