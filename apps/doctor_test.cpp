#include "doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"

namespace tessera {
namespace {

using testing::HasSubstr;

TEST(Doctor, AMachineWithoutAGpuIsWellAndToldWhatToTry) {
  const ScratchFolder folder;
  folder.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\nflags\t: avx2\n");
  for (const bool json : {false, true}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_doctor({.json = json, .root = folder.path()}), 0);
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_THAT(text, HasSubstr("A CPU"));
    EXPECT_THAT(text, HasSubstr("no-gpu"));
    EXPECT_THAT(text, HasSubstr("lspci"));
  }
}

}  // namespace
}  // namespace tessera
