// Without a GPU: a library in NCCL's place that answers as a broken, a slow or a lonely one would. What NCCL
// really computes is tested on GPUs (tests/cuda/ranks_test.cpp).
#include "comm/nccl/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "comm/thread_communicator.h"

namespace tessera {
namespace {

using testing::HasSubstr;

// What the fake library does, and what it was asked; one at a time, so a global is what a C interface leaves.
struct Script {
  ncclResult_t init = ncclSuccess;
  ncclResult_t async = ncclSuccess;
  ncclResult_t id = ncclSuccess;
  int aborted = 0;
  bool saw_graph_file = false;
} script;

ncclComm_t fake_comm() { return reinterpret_cast<ncclComm_t>(&script); }

NcclApi fake_api() {
  NcclApi api;
  api.get_version = [](int* version) {
    *version = 22809;
    return ncclSuccess;
  };
  api.error_string = [](ncclResult_t) -> const char* { return "unhandled system error"; };
  api.last_error = [](ncclComm_t) -> const char* { return "the cable is out"; };
  api.get_unique_id = [](ncclUniqueId* id) {
    std::memset(id, 7, sizeof *id);
    return script.id;
  };
  api.init_rank = [](ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t* config) {
    EXPECT_EQ(config->blocking, 0);
    script.saw_graph_file = std::getenv("NCCL_GRAPH_FILE") != nullptr;
    *comm = fake_comm();
    return script.init;
  };
  api.async_error = [](ncclComm_t, ncclResult_t* state) {
    *state = script.async;
    return ncclSuccess;
  };
  api.abort = [](ncclComm_t) {
    ++script.aborted;
    return ncclSuccess;
  };
  return api;
}

class FakeStream final : public DeviceStream {
 public:
  int device() const override { return 0; }
  void enter() const override {}
  void* handle() const override { return nullptr; }
  void enqueued(const std::string& what) override { last = what; }
  void join(Party&) override { ++parties; }
  void leave(Party&) override { --parties; }
  void wait() override {}
  std::string last;
  int parties = 0;
};

class NcclWithoutDevice : public testing::Test {
 protected:
  void SetUp() override { script = {}; }
  Error start() {
    auto made =
        make_nccl_communicator(fake_api(), *host_.front(), stream_,
                               {.graph_file = {}, .deadline = std::chrono::milliseconds(30), .log = {}});
    EXPECT_FALSE(made.ok());
    return made ? Error{} : made.error();
  }
  std::vector<std::unique_ptr<Communicator>> host_ =
      make_thread_communicators(1, "tp of 1 GPU", std::chrono::seconds(5));
  FakeStream stream_;
};

TEST_F(NcclWithoutDevice, ALibraryWithoutAnIdIsNamedWithWhatItSays) {
  script.id = ncclSystemError;
  const Error error = start();
  EXPECT_EQ(error.where, "tp of 1 GPU");
  EXPECT_THAT(error.what, HasSubstr("making the communicator in tp of 1 GPU over NCCL: rank 0: NCCL says "
                                    "unhandled system error"));
  EXPECT_EQ(stream_.parties, 0);
}

TEST_F(NcclWithoutDevice, ARankThatDoesNotComeEndsTheStartAtTheDeadline) {
  script.init = script.async = ncclInProgress;
  EXPECT_THAT(start().what,
              HasSubstr("making the communicator in tp of 1 GPU over NCCL: rank 0 waited 30 ms for "
                        "the other ranks"));
  EXPECT_EQ(script.aborted, 1);  // once, or NCCL would free it twice
}

TEST_F(NcclWithoutDevice, AnErrorWhileConnectingEndsTheStartAtOnce) {
  script.init = ncclInProgress;
  script.async = ncclRemoteError;
  EXPECT_THAT(start().what, HasSubstr("NCCL says unhandled system error (the cable is out)"));
  EXPECT_EQ(script.aborted, 1);
}

// A file of eight ranks says nothing about a group of one: NCCL must not find the variable.
TEST_F(NcclWithoutDevice, AGraphFileOfAnotherSizeIsHiddenWhileTheCommunicatorIsMade) {
  const std::string file = std::string(TESSERA_SOURCE_DIR) + "/src/comm/testdata/eight_ranks.xml";
  ASSERT_EQ(setenv("NCCL_GRAPH_FILE", file.c_str(), 1), 0);
  script.init = ncclInternalError;
  std::string logged;
  auto made = make_nccl_communicator(fake_api(), *host_.front(), stream_,
                                     {.graph_file = file,
                                      .deadline = std::chrono::milliseconds(30),
                                      .log = [&](const std::string& sentence) { logged = sentence; }});
  EXPECT_FALSE(made.ok());
  EXPECT_FALSE(script.saw_graph_file);
  EXPECT_THAT(logged, HasSubstr("tp of 1 GPU"));
  EXPECT_NE(std::getenv("NCCL_GRAPH_FILE"), nullptr);  // it is there again
  unsetenv("NCCL_GRAPH_FILE");
}

TEST_F(NcclWithoutDevice, AGraphFileThatCannotBeReadIsRefusedBeforeNcclSeesIt) {
  auto made = make_nccl_communicator(
      fake_api(), *host_.front(), stream_,
      {.graph_file = "/nowhere/graph.xml", .deadline = std::chrono::milliseconds(30), .log = {}});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().what, HasSubstr("/nowhere/graph.xml"));
  EXPECT_EQ(stream_.parties, 0);
}

TEST(NcclLibrary, IsOpenedOrRefusedByName) {
  const auto api = open_nccl();
  if (api) {
    EXPECT_THAT(nccl_version_text(*api), testing::MatchesRegex("2\\.[0-9]+\\.[0-9]+"));
  } else {
    EXPECT_THAT(api.error().message(), HasSubstr("libnccl.so.2"));
  }
}

}  // namespace
}  // namespace tessera
