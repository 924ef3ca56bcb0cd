// A machine that is a folder.
#include "doctor/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/scratch_folder.h"

namespace tessera::doctor {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class MadeUpMachine : public testing::Test {
 protected:
  void write(const fs::path& path, const std::string& text) { folder_.write(path.string(), text); }
  // `place`: below the root complex, "0000:00:01.0/0000:01:00.0".
  fs::path device(const std::string& place, const std::string& kind, const std::string& vendor = "0x10de") {
    const fs::path folder = "sys/devices/pci0000:00/" + place;
    write(folder / "class", kind + "\n");
    write(folder / "vendor", vendor + "\n");
    fs::create_directories(root_ / "sys/bus/pci/devices");
    fs::create_directory_symlink(root_ / folder, root_ / "sys/bus/pci/devices" / folder.filename());
    return folder;
  }
  // 256 bytes of plain space, one capability before that of access control.
  static std::string space(unsigned control) {
    std::string bytes(512, '\0');
    const auto put = [&](std::size_t at, std::uint32_t value) {
      for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
    };
    put(0x100, 0x14010001);  // error reporting; next at 0x140
    put(0x140, 0x0001000d);
    put(0x144, control << 16);
    return bytes;
  }

  const ScratchFolder folder_;
  const fs::path& root_ = folder_.path();
};

TEST_F(MadeUpMachine, AnEmptyFolderIsAMachineWithoutAnything) {
  const Machine machine = read_machine(root_);
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_TRUE(machine.driver.empty());
  EXPECT_EQ(machine.cpu.cores, 0);
}

TEST_F(MadeUpMachine, GpusTellLinkWindowNodeAndWhatIsAboveThem) {
  device("0000:00:01.0", "0x060400", "0x8086");
  device("0000:00:01.0/0000:01:00.0", "0x060400", "0x1000");
  const fs::path gpu = device("0000:00:01.0/0000:01:00.0/0000:02:00.0", "0x030200");
  device("0000:00:01.0/0000:01:00.0/0000:02:00.1", "0x040300");  // its sound
  device("0000:00:02.0", "0x030000", "0x1a03");                  // a console's display
  write(gpu / "numa_node", "1\n");
  write(gpu / "current_link_speed", "16.0 GT/s PCIe\n");
  write(gpu / "max_link_speed", "32.0 GT/s PCIe\n");
  write(gpu / "current_link_width", "4\n");
  write(gpu / "max_link_width", "16\n");
  write(gpu / "resource",
        "0x00000000c0000000 0x00000000c0ffffff 0x0000000000040200\n"
        "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
        "0x0000021000000000 0x0000022fffffffff 0x000000000014220c\n"
        "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
        "0x0000000000004000 0x00000000ffffffff 0x0000000000000101\n"  // ports, whatever their size
        "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
        "0x0000000000000000 0x00ffffffffffffff 0x0000000000000200\n");  // the seventh is no window
  write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n");
  fs::create_directory_symlink(root_ / "sys/kernel/iommu_groups/7", root_ / gpu / "iommu_group");

  const Machine machine = read_machine(root_);
  ASSERT_EQ(machine.gpus.size(), 1);
  const PciGpu& found = machine.gpus[0];
  EXPECT_EQ(found.address, "0000:02:00.0");
  EXPECT_EQ(found.numa_node, 1);
  EXPECT_EQ(found.link.gt_s, 16);
  EXPECT_EQ(found.link.most_gt_s, 32);
  EXPECT_EQ(found.link.width, 4);
  EXPECT_EQ(found.link.most_width, 16);
  EXPECT_EQ(found.window_bytes, std::int64_t{128} << 30);
  EXPECT_THAT(found.bridges, ElementsAre("0000:01:00.0", "0000:00:01.0"));
  EXPECT_EQ(found.iommu, "DMA-FQ");
  EXPECT_EQ(machine.bridges.size(), 2);
}

TEST_F(MadeUpMachine, AccessControlIsReadFromTheConfigurationSpace) {
  write(device("0000:00:01.0", "0x060400") / "config", space(0x1d));  // validation, redirects, forwarding
  write(device("0000:00:02.0", "0x060400") / "config", space(0x01));  // validation alone
  write(device("0000:00:03.0", "0x060400") / "config", space(0x08));  // completions
  write(device("0000:00:04.0", "0x060400") / "config", space(0x1d).substr(0, 64));  // not by root
  device("0000:00:05.0", "0x060400");
  std::string circle = space(0x1d);
  circle[0x143] = 0x10;  // the capability after the first is the first
  circle[0x103] = 0x10;
  circle[0x102] = 0x01;
  write(device("0000:00:06.0", "0x060400") / "config", circle);
  write(device("0000:00:07.0", "0x060400") / "config", space(0x1d).substr(0, 0x146));  // cut in the midst
  const Machine machine = read_machine(root_);
  const auto redirects = [&](const char* address) { return machine.bridge(address)->redirects; };
  EXPECT_EQ(redirects("0000:00:01.0"), true);
  EXPECT_EQ(redirects("0000:00:02.0"), false);
  EXPECT_EQ(redirects("0000:00:03.0"), true);
  EXPECT_EQ(redirects("0000:00:04.0"), std::nullopt);
  EXPECT_EQ(redirects("0000:00:05.0"), std::nullopt);
  EXPECT_EQ(redirects("0000:00:06.0"), false);
  EXPECT_EQ(redirects("0000:00:07.0"), false);
}

TEST_F(MadeUpMachine, BothKindsOfDriverTellTheirVersion) {
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.20  Fri Mar 14 10:00:00 UTC 2025\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
  EXPECT_EQ(read_machine(root_).driver, "570.133.20");
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (root@build)\n");
  EXPECT_EQ(read_machine(root_).driver, "580.159.04");
}

TEST_F(MadeUpMachine, CpuHugePagesAndCommandLine) {
  std::string info;
  for (int i = 0; i < 3; ++i)
    info += "processor\t: " + std::to_string(i) +
            "\nmodel name\t: A CPU\nflags\t\t: fpu avx2 avx512f amx_bf16\n\n";
  write("proc/cpuinfo", info);
  write("proc/cmdline", "root=/dev/sda iommu=pt\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  for (const char* node : {"node0", "node1", "online"})
    fs::create_directories(root_ / "sys/devices/system/node" / node);
  write("sys/module/nvidia_peermem/refcnt", "0\n");
  const Machine machine = read_machine(root_);
  EXPECT_EQ(machine.cpu.model, "A CPU");
  EXPECT_EQ(machine.cpu.cores, 3);
  EXPECT_EQ(machine.cpu.numa_nodes, 2);
  EXPECT_EQ(machine.cpu.huge_pages, "never");
  EXPECT_THAT(machine.cpu.instruction_sets, ElementsAre("avx2", "avx512f", "amx_bf16"));
  EXPECT_EQ(machine.command_line, "root=/dev/sda iommu=pt");
  EXPECT_TRUE(machine.has_peer_memory);
  EXPECT_FALSE(machine.has_infiniband);
}

}  // namespace
}  // namespace tessera::doctor
