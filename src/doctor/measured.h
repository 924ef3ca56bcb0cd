// What has been measured on a machine: GPUs alone, in pairs, and all together. Plain data, filled by
// cuda/gpu_probe.h where there are GPUs, and by tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::doctor {

struct GpuFigures {
  std::string name;
  std::string address;  // on the PCI bus
  std::int64_t memory_bytes = 0;
  int capability = 0;         // 90 for 9.0
  double memory_gb_s = 0;     // reading and writing its own memory, 0: not measured
  double tflop_s = 0;         // a large bf16 product
  double from_host_gb_s = 0;  // out of pinned memory
};

struct PairFigures {
  int from = 0;
  int to = 0;
  bool can_reach = false;  // as the driver says: without the host's memory in between
  std::string damage;      // how what was moved differs from what was sent; empty: it does not
  double gb_s = 0;
  double latency_us = 0;  // of a few bytes
};

struct AllReduceFigures {
  std::string way;  // "NCCL", "one shot", "host threads"
  std::int64_t bytes = 0;
  double us = 0;
};

struct Measured {
  bool has_cuda_code = false;  // built with nvcc
  std::string unavailable;     // why the GPUs cannot be used; empty: they can, or there are none
  int cuda_of_driver = 0;      // 13000 for 13.0; 0: no driver
  int cuda_of_program = 0;
  std::vector<GpuFigures> gpus;
  std::vector<PairFigures> pairs;
  std::vector<AllReduceFigures> all_reduces;
  std::string one_shot_objection;  // why GPUs do not sum by writing to each other; empty: they can, or one
  std::string nccl_objection;
  double cpu_read_gb_s = 0;  // 0: not measured
  double cpu_tflop_s = 0;
};

}  // namespace tessera::doctor
