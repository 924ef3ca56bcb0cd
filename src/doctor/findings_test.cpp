#include "doctor/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <regex>

#include "doctor/doctor_report.h"

namespace tessera::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  Machine machine;
  Measured measured;
};

// Cards of one kind below one switch each with its own port, all well.
Case good(int gpus) {
  Case c;
  c.machine.cpu = {
      .model = "A CPU", .cores = 64, .numa_nodes = 1, .instruction_sets = {"avx2"}, .huge_pages = "madvise"};
  c.machine.driver = "580.159.04";
  c.machine.has_persistence = true;
  c.measured.has_cuda_code = true;
  c.measured.cuda_of_driver = 13000;
  c.measured.cuda_of_program = 13000;
  c.machine.bridges.push_back({"0000:00:01.0", false});
  for (int i = 0; i < gpus; ++i) {
    const std::string port = "0000:02:0" + std::to_string(i) + ".0";
    const std::string address = "0000:1" + std::to_string(i) + ":00.0";
    c.machine.bridges.push_back({port, false});
    c.machine.gpus.push_back({.address = address,
                              .numa_node = 0,
                              .link = {.gt_s = 32, .most_gt_s = 32, .width = 16, .most_width = 16},
                              .window_bytes = std::int64_t{256} << 30,
                              .bridges = {port, "0000:01:00.0", "0000:00:01.0"},
                              .iommu = "identity"});
    c.measured.gpus.push_back({.name = "NVIDIA H200",
                               .address = address,
                               .memory_bytes = std::int64_t{140} << 30,
                               .capability = 90,
                               .memory_gb_s = 4100,
                               .tflop_s = 780,
                               .from_host_gb_s = 55});
    for (int j = 0; j < gpus; ++j) {
      if (i != j)
        c.measured.pairs.push_back(
            {.from = i, .to = j, .can_reach = true, .damage = "", .gb_s = 370, .latency_us = 2});
    }
  }
  return c;
}

std::vector<std::string> ids(const Case& c, Severity least = Severity::kCostsSpeed) {
  std::vector<std::string> ids;
  for (const Finding& finding : judge(c.machine, c.measured)) {
    if (finding.severity >= least) ids.push_back(finding.id);
  }
  return ids;
}
int status(const Case& c) { return exit_status(judge(c.machine, c.measured)); }

TEST(Findings, AGoodMachineHasNone) {
  for (const int gpus : {2, 4, 8}) {
    EXPECT_THAT(ids(good(gpus), Severity::kNote), IsEmpty()) << gpus;
    EXPECT_EQ(status(good(gpus)), 0);
  }
}

TEST(Findings, OneGpuHasNoPairsAndThatIsSaid) {
  EXPECT_THAT(ids(good(1), Severity::kNote), ElementsAre("one-gpu"));
  EXPECT_EQ(status(good(1)), 0);
}

TEST(Findings, NoGpuIsWellAndSaysWhatToTry) {
  Case c = good(0);
  c.machine.driver = "";
  c.measured.cuda_of_driver = 0;
  const std::vector<Finding> findings = judge(c.machine, c.measured);
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].id, "no-gpu");
  EXPECT_THAT(findings[0].advice, HasSubstr("lspci"));
  EXPECT_EQ(exit_status(findings), 0);
}

// One thing wrong at a time: what is found, and how bad it is.
TEST(Findings, EachDefectHasItsName) {
  struct Defect {
    const char* id;
    int status;
    std::function<void(Case&)> make;
  };
  const std::vector<Defect> defects = {
      {"link-narrow", 1, [](Case& c) { c.machine.gpus[2].link.width = 4; }},
      {"link-slow", 1,
       [](Case& c) {
         c.machine.gpus[0].link.gt_s = 8;
         for (GpuFigures& gpu : c.measured.gpus) gpu.from_host_gb_s = 13;
       }},
      {"bar-small", 1, [](Case& c) { c.machine.gpus[1].window_bytes = std::int64_t{256} << 20; }},
      {"bar-small", 1, [](Case& c) { c.machine.gpus[1].window_bytes = std::int64_t{32} << 30; }},
      {"acs-redirects", 1, [](Case& c) { c.machine.bridges[2].redirects = true; }},
      {"iommu-translates", 1,
       [](Case& c) {
         for (PciGpu& gpu : c.machine.gpus) gpu.iommu = "DMA-FQ";
       }},
      {"p2p-refused", 1, [](Case& c) { c.measured.pairs[3].can_reach = false; }},
      {"p2p-damages", 2, [](Case& c) { c.measured.pairs[3].damage = "byte 0 of 4096 is 255, 17 was sent"; }},
      {"pair-slow", 1, [](Case& c) { c.measured.pairs[5].gb_s = 20; }},
      {"rank-slow", 1, [](Case& c) { c.measured.gpus[3].tflop_s = 600; }},
      {"rank-slow", 1, [](Case& c) { c.measured.gpus[3].memory_gb_s = 3000; }},
      {"rank-slow", 1, [](Case& c) { c.measured.gpus[0].from_host_gb_s = 12; }},
      {"cards-differ", 1, [](Case& c) { c.measured.gpus[1].name = "NVIDIA H100"; }},
      {"cards-differ", 1, [](Case& c) { c.measured.gpus[1].memory_bytes = std::int64_t{80} << 30; }},
      {"old-card", 2,
       [](Case& c) {
         for (GpuFigures& gpu : c.measured.gpus) gpu.capability = 75;
       }},
      {"old-driver", 2, [](Case& c) { c.measured.cuda_of_driver = 12020; }},
      {"gpu-unusable", 2, [](Case& c) { c.measured.unavailable = "cudaErrorSystemNotReady"; }},
      {"no-driver", 2,
       [](Case& c) {
         c.machine.driver = "";
         c.measured.cuda_of_driver = 0;
       }},
      {"no-cuda-code", 2, [](Case& c) { c.measured.has_cuda_code = false; }},
      {"no-peermem", 1, [](Case& c) { c.machine.has_infiniband = true; }},
      {"no-nccl", 2, [](Case& c) { c.measured.nccl_objection = "libnccl.so.2 is not there"; }},
  };
  for (const Defect& defect : defects) {
    Case c = good(4);
    defect.make(c);
    const std::vector<std::string> found = ids(c);
    ASSERT_FALSE(found.empty()) << defect.id;
    for (const std::string& id : found) EXPECT_EQ(id, defect.id);
    EXPECT_EQ(status(c), defect.status) << defect.id;
    for (const Finding& finding : judge(c.machine, c.measured)) {
      EXPECT_FALSE(finding.what.empty() || finding.meaning.empty()) << finding.id;
      EXPECT_TRUE(finding.severity == Severity::kNote || !finding.advice.empty()) << finding.id;
    }
  }
}

TEST(Findings, TheSlowRankIsNamed) {
  Case c = good(4);
  c.measured.gpus[2].memory_gb_s = 2050;
  const std::vector<Finding> findings = judge(c.machine, c.measured);
  ASSERT_EQ(findings.size(), 1);
  EXPECT_THAT(findings[0].what, HasSubstr("GPU 2 is slow: its memory at 2050 GB/s, the middle GPU 4100"));
  c.measured.gpus[2].memory_gb_s = 3900;  // within what cards differ by
  EXPECT_THAT(ids(c), IsEmpty());
}

TEST(Findings, AnIdleCardsLinkIsNotCalledSlow) {
  Case c = good(2);
  for (PciGpu& gpu : c.machine.gpus) gpu.link.gt_s = 2.5;  // asleep; the copy was as fast as ever
  EXPECT_THAT(ids(c), IsEmpty());
  c.measured.gpus.clear();
  c.measured.pairs.clear();
  EXPECT_THAT(ids(c), IsEmpty());
}

TEST(Findings, AccessControlMattersOnlyBetweenGpusOfOneSwitch) {
  Case apart = good(2);
  apart.machine.gpus[0].bridges = {"0000:02:00.0", "0000:00:01.0"};
  apart.machine.gpus[1].bridges = {"0000:02:01.0", "0000:00:03.0"};
  for (PciBridge& bridge : apart.machine.bridges) bridge.redirects = true;
  EXPECT_THAT(ids(apart), IsEmpty());

  Case above = good(2);  // of the port above the switch
  above.machine.bridges[0].redirects = true;
  EXPECT_THAT(ids(above), IsEmpty());

  Case hidden = good(2);
  for (PciBridge& bridge : hidden.machine.bridges) bridge.redirects.reset();
  EXPECT_THAT(ids(hidden, Severity::kNote), ElementsAre("acs-hidden"));

  Case both = good(2);
  both.machine.bridges[1].redirects = both.machine.bridges[2].redirects = true;
  const std::vector<Finding> findings = judge(both.machine, both.measured);
  ASSERT_EQ(findings.size(), 1);
  EXPECT_THAT(findings[0].advice,
              HasSubstr("setpci -s 0000:02:00.0 ECAP_ACS+0x6.w=0000; setpci -s 0000:02:01.0"));
}

TEST(Findings, OneGpuLosesNothingByABarOrAnIommu) {
  Case c = good(1);
  c.machine.gpus[0].window_bytes = std::int64_t{256} << 20;
  c.machine.gpus[0].iommu = "DMA";
  EXPECT_EQ(status(c), 0);
  EXPECT_THAT(ids(c, Severity::kNote), ElementsAre("bar-small", "iommu-translates", "one-gpu"));
}

TEST(Findings, WhereGroupsDoNotTellTheirTypeTheKernelsOptionsCount) {
  Case c = good(2);
  for (PciGpu& gpu : c.machine.gpus) gpu.iommu = "";
  EXPECT_THAT(ids(c), IsEmpty());
  c.machine.command_line = "quiet intel_iommu=on";
  EXPECT_THAT(ids(c), ElementsAre("iommu-translates"));
  c.machine.command_line += " iommu=pt";
  EXPECT_THAT(ids(c), IsEmpty());
}

TEST(Findings, TheWorstComesFirstAndDecides) {
  Case c = good(4);
  c.machine.gpus[2].link.width = 4;
  c.measured.pairs[3].damage = "all of it";
  EXPECT_THAT(ids(c), ElementsAre("p2p-damages", "link-narrow"));
  EXPECT_EQ(status(c), 2);
}

TEST(Findings, TheSizeUpToWhichOneShotPaysIsThatWithoutAnExceptionBelow) {
  Case c = good(2);
  for (const auto& [bytes, shot, nccl] :
       {std::tuple{1024, 4.0, 12.0}, {2048, 5.0, 12.0}, {4096, 13.0, 12.0}, {8192, 8.0, 12.0}}) {
    c.measured.all_reduces.push_back({"NCCL", bytes, nccl});
    c.measured.all_reduces.push_back({"one shot", bytes, shot});
  }
  const std::vector<Finding> findings = judge(c.machine, c.measured);
  ASSERT_EQ(findings.size(), 1);
  EXPECT_THAT(findings[0].what, HasSubstr("up to 2 KiB, by 3.0 times"));
}

TEST(DoctorReport, SaysEverythingAsTextAndAsJson) {
  Case c = good(2);
  c.machine.gpus[1].link.width = 4;
  c.measured.all_reduces = {{"NCCL", 1024, 11.5}, {"host threads", 1024, 3.25}, {"NCCL", 2048, 12}};
  const Diagnosis diagnosis{c.machine, c.measured, judge(c.machine, c.measured)};
  const std::string text = report_text(diagnosis);
  EXPECT_THAT(text, HasSubstr("costs speed [link-narrow]: GPU 1 (0000:11:00.0) is linked by 4 lanes of 16."));
  EXPECT_THAT(text, HasSubstr("       1          11.5           3.2\n"));
  EXPECT_THAT(text, HasSubstr("       2          12.0             -\n"));
  const std::string json = report_json(diagnosis);
  EXPECT_THAT(json, HasSubstr("\"status\": 1"));
  EXPECT_THAT(json, HasSubstr("\"id\": \"link-narrow\""));
  EXPECT_THAT(json, HasSubstr("\"acs_redirects\": false"));
}

TEST(DoctorReport, TellsOfTheKernelOnlyWhatConcernsDevices) {
  Diagnosis diagnosis;
  diagnosis.machine.command_line = "root=/dev/sda token=secret iommu=pt intel_iommu=on pci=realloc quiet";
  const std::string json = report_json(diagnosis);
  EXPECT_THAT(json, HasSubstr("\"iommu=pt\",\n    \"intel_iommu=on\",\n    \"pci=realloc\""));
  EXPECT_THAT(json, testing::Not(HasSubstr("secret")));
}

// The names of findings are in the code as literals of add(); each is a row of the reference.
TEST(DoctorReference, ListsEveryFinding) {
  const auto text_of = [](const std::string& path) {
    std::ifstream file(std::string(TESSERA_SOURCE_DIR) + path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string code = text_of("/src/doctor/findings.cpp");
  const std::string reference = text_of("/docs/reference/doctor.md");
  const std::regex name(R"re(add\([^"]*"([a-z0-9-]+)")re");
  int count = 0;
  for (std::sregex_iterator it(code.begin(), code.end(), name), end; it != end; ++it, ++count)
    EXPECT_THAT(reference, HasSubstr("| `" + (*it)[1].str() + "` |"));
  EXPECT_GE(count, 20);
}

TEST(DoctorReport, NamesThatAreNoTextDoNotBreakJson) {
  Diagnosis diagnosis;
  diagnosis.machine.cpu.model = "\xff\xfe";
  EXPECT_THAT(report_json(diagnosis), HasSubstr("\"model\""));
}

}  // namespace
}  // namespace tessera::doctor
