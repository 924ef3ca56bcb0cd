// The choice of the way; what needs GPUs is in tests/cuda/ranks_test.cpp.
#include "comm/peer/peer_communicator.h"

#include <gtest/gtest.h>

#include "comm/peer/peer_kernel.h"

namespace tessera {
namespace {

TEST(PeerLimit, IsTheSizeUpToWhichTheShortWayIsNeverSlower) {
  EXPECT_EQ(peer_limit({{1024, 5, 11}, {2048, 6, 11}, {4096, 12, 11}, {8192, 9, 11}}), 2048);
  EXPECT_EQ(peer_limit({{1024, 12, 11}, {2048, 6, 11}}), 0);
  EXPECT_EQ(peer_limit({{1024, 5, 11}, {2048, 11, 11}}), 2048);
  EXPECT_EQ(peer_limit({}), 0);
}

TEST(PeerBlocks, AreBetweenOneAndWhatFlagsAllow) {
  EXPECT_EQ(peer_blocks(1), 1);
  EXPECT_EQ(peer_blocks(512), 1);
  EXPECT_EQ(peer_blocks(513), 2);
  EXPECT_EQ(peer_blocks(1 << 20), kPeerMostBlocks);
}

}  // namespace
}  // namespace tessera
