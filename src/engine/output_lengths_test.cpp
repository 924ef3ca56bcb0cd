#include "engine/output_lengths.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(OutputLengths, JudgesNothingOnLittleExperience) {
  OutputLengths lengths;
  for (int i = 0; i < 15; ++i) lengths.add(100);
  EXPECT_EQ(lengths.likely_remaining(0), std::nullopt);
  EXPECT_EQ(lengths.longest_remaining(0), std::nullopt);
  lengths.add(100);
  EXPECT_EQ(lengths.likely_remaining(0), 100);
  EXPECT_EQ(lengths.longest_remaining(0), 100);
}

TEST(OutputLengths, AsksThoseThatBecameLonger) {
  OutputLengths lengths;
  for (int i = 1; i <= 20; ++i) lengths.add(i * 10);
  EXPECT_EQ(lengths.likely_remaining(0), 180);
  EXPECT_EQ(lengths.likely_remaining(150), 40);  // of 160 .. 200 the fourth is 190
  EXPECT_EQ(lengths.longest_remaining(150), 50);
}

TEST(OutputLengths, LetsARecordDouble) {
  OutputLengths lengths;
  for (int i = 0; i < 16; ++i) lengths.add(10);
  EXPECT_EQ(lengths.likely_remaining(10), 10);
  EXPECT_EQ(lengths.likely_remaining(500), 500);
  EXPECT_EQ(lengths.longest_remaining(10), std::nullopt);
}

TEST(OutputLengths, ForgetsAnOldLoad) {
  OutputLengths lengths;
  for (int i = 0; i < 128; ++i) lengths.add(9000);
  for (int i = 0; i < 127; ++i) lengths.add(10 + i % 2);
  EXPECT_EQ(lengths.longest_remaining(0), 9000);
  lengths.add(10);
  EXPECT_EQ(lengths.longest_remaining(0), 11);
  EXPECT_EQ(lengths.likely_remaining(0), 11);
}

}  // namespace
}  // namespace tessera
