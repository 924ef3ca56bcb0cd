#include "doctor/machine.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace tessera::doctor {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}
std::uint64_t read_hex(const fs::path& path) { return std::strtoull(read_text(path).c_str(), nullptr, 16); }
double read_number(const fs::path& path) { return std::strtod(read_text(path).c_str(), nullptr); }

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> paths;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    paths.push_back(it->path());
  std::ranges::sort(paths);
  return paths;
}

// "0000:17:00.0"
bool is_address(const std::string& name) {
  return name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

// Of all six: a line holds first and last byte and flags, of which bit 9 means memory.
std::int64_t largest_window(const fs::path& device) {
  std::istringstream lines(read_text(device / "resource"));
  std::uint64_t largest = 0;
  std::string first, last, flags;
  for (int i = 0; i < 6 && lines >> first >> last >> flags; ++i) {
    const std::uint64_t begin = std::strtoull(first.c_str(), nullptr, 16);
    const std::uint64_t end = std::strtoull(last.c_str(), nullptr, 16);
    if ((std::strtoull(flags.c_str(), nullptr, 16) & 0x200U) != 0 && end > begin)
      largest = std::max(largest, end - begin + 1);
  }
  return static_cast<std::int64_t>(largest);
}

// The access control capability (PCIe base specification, 7.7.11) in a device's configuration space.
std::optional<bool> redirects(const fs::path& device) {
  constexpr std::size_t kExtended = 0x100;
  constexpr std::uint32_t kAccessControl = 0x000d;
  constexpr std::uint32_t kRequestRedirect = 1U << 2;
  constexpr std::uint32_t kCompletionRedirect = 1U << 3;
  const std::string space = read_text(device / "config");  // may be cut: what is not there is not looked at
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value |= std::uint32_t{static_cast<unsigned char>(space[at + i])} << (8 * i);
    return value;
  };
  if (space.size() <= kExtended) return std::nullopt;
  std::set<std::size_t> seen;  // a list that leads into itself ends
  for (std::size_t at = kExtended; at >= kExtended && at + 8 <= space.size() && seen.insert(at).second;) {
    const std::uint32_t head = word(at);
    if ((head & 0xffffU) == kAccessControl)
      return ((word(at + 4) >> 16) & (kRequestRedirect | kCompletionRedirect)) != 0;
    at = head >> 20;
  }
  return false;
}

Cpu read_cpu(const fs::path& root) {
  Cpu cpu;
  std::ifstream info(root / "proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (line.starts_with("processor")) ++cpu.cores;
    if (line.starts_with("model name")) cpu.model = value;
    if (line.starts_with("flags")) {
      std::istringstream words(value);
      flags.insert(std::istream_iterator<std::string>(words), {});
    }
  }
  for (const char* name : {"avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16"}) {
    if (flags.contains(name)) cpu.instruction_sets.emplace_back(name);
  }
  for (const fs::path& path : entries_of(root / "sys/devices/system/node")) {
    const std::string name = path.filename().string();
    if (name.starts_with("node") && name.size() > 4 && name[4] >= '0' && name[4] <= '9') ++cpu.numa_nodes;
  }
  // "always [madvise] never"
  const std::string choice = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = choice.find('[');
  const std::size_t close = choice.find(']');
  if (open != std::string::npos && close != std::string::npos && close > open)
    cpu.huge_pages = choice.substr(open + 1, close - open - 1);
  return cpu;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon …": the first word of digits and points.
std::string driver_version(const fs::path& root) {
  std::istringstream words(read_text(root / "proc/driver/nvidia/version"));
  for (std::string word; words >> word;) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  }
  return "";
}

// Where a device hangs: the folders above it that are devices too.
std::vector<std::string> bridges_above(const fs::path& device) {
  std::error_code code;
  const fs::path real = fs::canonical(device, code);
  std::vector<std::string> above;
  for (fs::path path = real.parent_path(); !code && path.has_relative_path(); path = path.parent_path()) {
    if (!is_address(path.filename().string())) break;
    above.push_back(path.filename().string());
  }
  return above;
}

PciGpu read_gpu(const fs::path& device) {
  PciGpu gpu;
  gpu.address = device.filename().string();
  const std::string node = read_text(device / "numa_node");
  if (!node.empty()) gpu.numa_node = std::atoi(node.c_str());
  gpu.link = {.gt_s = read_number(device / "current_link_speed"),
              .most_gt_s = read_number(device / "max_link_speed"),
              .width = static_cast<int>(read_number(device / "current_link_width")),
              .most_width = static_cast<int>(read_number(device / "max_link_width"))};
  gpu.window_bytes = largest_window(device);
  gpu.bridges = bridges_above(device);
  gpu.iommu = read_text(device / "iommu_group/type");
  return gpu;
}

}  // namespace

const PciBridge* Machine::bridge(const std::string& address) const {
  const auto at = std::ranges::find(bridges, address, &PciBridge::address);
  return at == bridges.end() ? nullptr : &*at;
}

Machine read_machine(const fs::path& root) {
  Machine machine;
  machine.cpu = read_cpu(root);
  constexpr std::uint64_t kNvidia = 0x10de;
  constexpr std::uint64_t kDisplay = 0x03;  // VGA and 3D controllers
  constexpr std::uint64_t kBridge = 0x0604;
  for (const fs::path& device : entries_of(root / "sys/bus/pci/devices")) {
    const std::uint64_t kind = read_hex(device / "class");  // class, subclass, interface
    if (kind >> 16 == kDisplay && read_hex(device / "vendor") == kNvidia) {
      machine.gpus.push_back(read_gpu(device));
    } else if (kind >> 8 == kBridge) {
      machine.bridges.push_back({device.filename().string(), redirects(device)});
    }
  }
  machine.driver = driver_version(root);
  std::error_code ignored;
  machine.has_persistence = fs::exists(root / "run/nvidia-persistenced/socket", ignored) ||
                            fs::exists(root / "var/run/nvidia-persistenced/socket", ignored);
  machine.has_infiniband = !entries_of(root / "sys/class/infiniband").empty();
  machine.has_peer_memory = fs::exists(root / "sys/module/nvidia_peermem", ignored);
  machine.command_line = read_text(root / "proc/cmdline");
  return machine;
}

}  // namespace tessera::doctor
