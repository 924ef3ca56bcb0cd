#include "doctor.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "bench/report/progress.h"
#include "doctor/doctor_report.h"
#include "doctor/host_probe.h"
#ifdef TESSERA_HAS_CUDA
#include "doctor/cuda/gpu_probe.h"
#endif

namespace tessera {

using namespace doctor;

void declare_doctor_flags(CLI::App& app, DoctorFlags& flags) {
  app.add_flag("--json", flags.json, "Print JSON");
  app.add_flag("--look-only", flags.only_look, "Read what the system tells and measure nothing");
  app.add_option("--root", flags.root, "Folder with another machine's /sys and /proc; nothing is measured")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.footer(R"(
Looks at CPU, GPUs, driver and PCI bus, moves data between every pair of GPUs and looks whether it arrives, times sums over all
of them by each way there is, and says what each finding means and what to change. Nothing is changed. Stop servers first: they share the
GPUs. Root sees more (access control of bridges).

Examples:
  tessera doctor
  sudo tessera doctor --json > machine.json
  tessera doctor --look-only

Exit codes: 0 all well, 1 something costs speed, 2 something is broken (or wrong usage).)");
}

int run_doctor(const DoctorFlags& flags) {
  Diagnosis diagnosis;
#ifdef TESSERA_HAS_CUDA
  diagnosis.measured.has_cuda_code = true;
#endif
  const bool measures = !flags.only_look && flags.root == "/";
  if (measures) {
    bench::Progress progress(stderr, isatty(STDERR_FILENO) == 1);
    const auto say = [&](const std::string& what) { progress.now("doctor: " + what); };
#ifdef TESSERA_HAS_CUDA
    probe_gpus(diagnosis.measured, say);
#endif
    say("sums of threads");
    constexpr int kFewestRanks = 2;
    probe_thread_sums(std::max(kFewestRanks, static_cast<int>(diagnosis.measured.gpus.size())),
                      diagnosis.measured);
    say("the host");
    probe_host(diagnosis.measured);
    progress.done("doctor: done");
  }
  // Now, while the cards are awake: an idle one lowers its link.
  diagnosis.machine = read_machine(flags.root);
  diagnosis.findings = judge(diagnosis.machine, diagnosis.measured);
  std::cout << (flags.json ? report_json(diagnosis) : report_text(diagnosis));
  return exit_status(diagnosis.findings);
}

}  // namespace tessera
