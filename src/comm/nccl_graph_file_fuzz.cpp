// Any text as an NCCL graph file: refused with one line, or it describes at least one rank.
//
//   nccl_graph_file_fuzz src/comm/testdata/nccl_graph_file_fuzz
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "comm/nccl_graph_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = tessera::parse_nccl_graph_file({reinterpret_cast<const char*>(data), size}, "graph.xml");
  if (!file) {
    TS_CHECK(file.error().where.starts_with("graph.xml:"), file.error().where);
    return 0;
  }
  TS_CHECK(file->ranks >= 1 && file->graphs >= 1 && file->channels >= 1, file->ranks, file->graphs,
           file->channels);
  TS_CHECK(file->applies_to(file->ranks) && !file->applies_to(file->ranks + 1), file->ranks);
  return 0;
}
