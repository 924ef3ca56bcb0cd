#include "doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

using testing::HasSubstr;

TEST(Doctor, AMachineWithoutAGpuIsWellAndToldWhatToTry) {
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-doctor-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  std::filesystem::create_directories(folder + "/proc");
  std::ofstream(folder + "/proc/cpuinfo") << "processor\t: 0\nmodel name\t: A CPU\nflags\t: avx2\n";
  for (const bool json : {false, true}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_doctor({.json = json, .root = folder}), 0);
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_THAT(text, HasSubstr("A CPU"));
    EXPECT_THAT(text, HasSubstr("no-gpu"));
    EXPECT_THAT(text, HasSubstr("lspci"));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera
