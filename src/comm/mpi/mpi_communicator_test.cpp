// Run by mpirun with any number of processes; every process runs the same tests in the same order.
//
// comm_mpi_test                     all collectives, compared with the thread communicator of as many ranks
// comm_mpi_test --stalled-process   and the like: a failure, which ends with all processes aborted
#include "comm/mpi/mpi_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "comm/agreement.h"
#include "comm/mpi/mpi_channel.h"
#include "comm/mpi/process_group.h"
#include "comm/thread_communicator.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using Bytes = std::vector<std::byte>;

constexpr milliseconds kPatient{30000};  // for tests that do not end at a deadline, on a busy machine

MpiSession* session = nullptr;  // main's, because MPI starts once a process

// Runs `body` with each communicator on a thread of its own, and returns what each gave or threw.
std::vector<Bytes> on_threads(std::vector<std::unique_ptr<Communicator>> communicators,
                              const std::function<Bytes(Communicator&)>& body) {
  std::vector<Bytes> results(communicators.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < communicators.size(); ++t) {
    threads.emplace_back([&, t, mine = std::move(communicators[t])]() mutable {
      try {
        results[t] = body(*mine);
      } catch (const CommError& error) {
        ADD_FAILURE() << "process " << session->process() << " thread " << t << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// The ranks of this process must give what the same ranks give as threads of one process.
void expect_same_as_threads(int threads, const std::function<Bytes(Communicator&)>& body) {
  auto mpi = make_mpi_communicators(*session, threads, "world", kPatient);
  ASSERT_TRUE(mpi.ok()) << mpi.error().message();
  const int ranks = threads * session->processes();
  for (int t = 0; t < threads; ++t) {
    const Communicator& comm = *(*mpi)[static_cast<std::size_t>(t)];
    EXPECT_EQ(comm.size(), ranks);
    EXPECT_EQ(comm.rank(), session->process() * threads + t);
  }
  const std::vector<Bytes> got = on_threads(*std::move(mpi), body);
  const std::vector<Bytes> want = on_threads(make_thread_communicators(ranks, "world", kPatient), body);
  for (int t = 0; t < threads; ++t) {
    const Bytes& expected = want[static_cast<std::size_t>(session->process() * threads + t)];
    const Bytes& found = got[static_cast<std::size_t>(t)];
    ASSERT_EQ(found.size(), expected.size());
    const auto [first, other] = std::ranges::mismatch(found, expected);
    EXPECT_TRUE(first == found.end())
        << "thread " << t << " of process " << session->process() << " differs at byte "
        << first - found.begin() << " of " << found.size();
  }
}

// Values of very different size, so that another order of summing gives other bits.
template <class T>
std::vector<T> values(const Communicator& comm, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(comm.rank() * 7919 + 17));
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const float mantissa = static_cast<float>(random() % 2000001) / 1e6F - 1.0F;
    result.push_back(T(std::ldexp(mantissa, static_cast<int>(random() % 24) - 12)));
  }
  return result;
}

template <class T>
Bytes bytes_of_values(const std::vector<T>& v) {
  Bytes bytes(v.size() * sizeof(T));
  if (!v.empty()) std::memcpy(bytes.data(), v.data(), bytes.size());
  return bytes;
}

template <class T>
Bytes all_reduced(Communicator& comm, DType dtype, std::int64_t count) {
  auto data = values<T>(comm, count);
  comm.all_reduce(data.data(), dtype, count);
  return bytes_of_values(data);
}

class Threads : public testing::TestWithParam<int> {};

TEST_P(Threads, AllReduceSumsInTheSameOrder) {
  // Both ways, and the sizes around the change at 32 KiB; 70,001 does not divide by any number of ranks here.
  for (const std::int64_t count : {1, 2, 7, 1000, 8192, 8193, 70001}) {
    expect_same_as_threads(GetParam(),
                           [&](Communicator& c) { return all_reduced<float>(c, DType::kF32, count); });
  }
  for (const std::int64_t count : {3, 16384, 16385, 70001}) {
    expect_same_as_threads(GetParam(),
                           [&](Communicator& c) { return all_reduced<BF16>(c, DType::kBF16, count); });
  }
}

TEST_P(Threads, ReduceScatterSumsInTheSameOrder) {
  for (const std::int64_t count : {1, 5, 513, 20000}) {
    expect_same_as_threads(GetParam(), [&](Communicator& comm) {
      const auto in = values<float>(comm, count * comm.size());
      std::vector<float> out(static_cast<std::size_t>(count));
      comm.reduce_scatter(in.data(), out.data(), DType::kF32, count);
      return bytes_of_values(out);
    });
    expect_same_as_threads(GetParam(), [&](Communicator& comm) {
      const auto in = values<BF16>(comm, count * comm.size());
      std::vector<BF16> out(static_cast<std::size_t>(count));
      comm.reduce_scatter(in.data(), out.data(), DType::kBF16, count);
      return bytes_of_values(out);
    });
  }
}

TEST_P(Threads, AllGatherAndAllToAllMoveEveryByteToItsPlace) {
  for (const std::int64_t count : {1, 3, 4096, 50001}) {
    expect_same_as_threads(GetParam(), [&](Communicator& comm) {
      const auto in = values<float>(comm, count);
      std::vector<float> out(static_cast<std::size_t>(count * comm.size()));
      comm.all_gather(in.data(), out.data(), in.size() * sizeof(float));
      return bytes_of_values(out);
    });
    expect_same_as_threads(GetParam(), [&](Communicator& comm) {
      const auto in = values<float>(comm, count * comm.size());
      std::vector<float> out(in.size());
      comm.all_to_all(in.data(), out.data(), static_cast<std::size_t>(count) * sizeof(float));
      return bytes_of_values(out);
    });
  }
}

TEST_P(Threads, EveryRankCanBroadcast) {
  for (const std::int64_t count : {0, 1, 100000}) {
    expect_same_as_threads(GetParam(), [&](Communicator& comm) {
      Bytes all;
      for (int root = 0; root < comm.size(); ++root) {
        auto data = values<float>(comm, count);
        comm.broadcast(data.data(), data.size() * sizeof(float), root);
        const Bytes bytes = bytes_of_values(data);
        all.insert(all.end(), bytes.begin(), bytes.end());
      }
      return all;
    });
  }
}

// Long runs of small collectives without a barrier: a fast process must not disturb a slow one's results.
TEST_P(Threads, CollectivesInARowDoNotMix) {
  expect_same_as_threads(GetParam(), [&](Communicator& comm) {
    auto data = values<float>(comm, 33);
    std::vector<float> gathered(static_cast<std::size_t>(comm.size()) * 33);
    for (int i = 0; i < 100; ++i) {
      comm.all_reduce(data.data(), DType::kF32, 33);
      for (float& x : data) x = x * 0.25F + static_cast<float>(comm.rank());
      comm.all_gather(data.data(), gathered.data(), data.size() * sizeof(float));
      data[0] += gathered[static_cast<std::size_t>((i * 33) % (comm.size() * 33))];
      comm.broadcast(&data[1], sizeof(float), i % comm.size());
      if (i % 10 == 0) comm.barrier();
    }
    return bytes_of_values(data);
  });
}

TEST_P(Threads, GroupsLieInsideProcessesAcrossThemAndBoth) {
  const int threads = GetParam();
  const std::function<int(int)> colourings[] = {
      [&](int rank) { return rank / threads; },           // one group a process
      [&](int rank) { return rank % threads; },           // across processes, several groups in each process
      [](int rank) { return rank == 0 ? -5 : 1000000; },  // one rank alone
      [](int rank) { return rank / 2; },                  // pairs, some inside a process, some not
      [](int rank) { return rank; },                      // everybody alone
  };
  for (const auto& colour : colourings) {
    expect_same_as_threads(threads, [&](Communicator& comm) {
      const auto group = comm.split(colour(comm.rank()), "part");
      const auto nested = group->split(group->rank() % 2, "half of part");
      EXPECT_EQ(group->name(), "part");
      std::vector<float> data = values<float>(comm, 501);
      for (int i = 0; i < 3; ++i) {  // the groups' messages cross each other
        group->all_reduce(data.data(), DType::kF32, 501);
        nested->all_reduce(data.data(), DType::kF32, 501);
        comm.all_reduce(data.data(), DType::kF32, 501);
      }
      data.push_back(static_cast<float>(100 * group->rank() + group->size()));
      data.push_back(static_cast<float>(100 * nested->rank() + nested->size()));
      return bytes_of_values(data);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(AProcess, Threads, testing::Values(1, 2, 3));

TEST(MpiCommunicator, ProcessesWithOtherThreadCountsAreRefusedByAll) {
  if (session->processes() == 1) GTEST_SKIP() << "needs two processes";
  const auto made = make_mpi_communicators(*session, session->process() == 1 ? 3 : 2, "world", kPatient);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kMismatch);
  EXPECT_THAT(made.error().what,
              testing::HasSubstr(session->process() == 1 ? "process 0 runs 2 ranks, process 1 runs 3"
                                                         : "process 1 runs 3 ranks, process"));
}

TEST(MpiCommunicator, ASecondSessionIsRefused) {
  const auto second = MpiSession::start();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kConflict);
}

TEST(GroupLayout, AColourKeepsTheOrderAndSkipsProcessesWithoutIt) {
  const GroupLayout parent{.processes = {0, 2, 5}, .first = {0, 2, 4, 7}, .here = 2};
  const GroupLayout child = layout_of_colour(parent, {1, 0, 0, 0, 1, 0, 1}, 1);
  EXPECT_THAT(child.processes, testing::ElementsAre(0, 5));
  EXPECT_THAT(child.first, testing::ElementsAre(0, 1, 3));
  EXPECT_EQ(child.here, 1);
  EXPECT_EQ(child.ranks_here(), 2);
}

// Message `index`: sizes around the frame's, and long ones; the bytes tell their place.
std::vector<std::byte> message(int index) {
  constexpr std::size_t kSizes[] = {0, 1, 100, 4079, 4080, 4081, 4096, 100'000, 3'000'000};
  std::vector<std::byte> bytes(kSizes[static_cast<std::size_t>(index) % std::size(kSizes)]);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(index)) % 251);
  return bytes;
}

// With heartbeats in between, so often that they meet every message.
TEST(MpiChannel, CarriesMessagesInOrderBetweenHeartbeats) {
  const MpiChannelOptions options{
      .name = "plans", .heartbeat = milliseconds(1), .patience = kPatient, .on_lost = {}};
  constexpr int kMessages = 60;
  if (session->process() == 0) {
    const auto sender = make_mpi_sender(*session, options);
    for (int i = 0; i < kMessages; ++i) {
      sender->send(message(i));
      sender->idle();
      if (i % 10 == 0) std::this_thread::sleep_for(milliseconds(5));
    }
    return;
  }
  const auto receiver = make_mpi_receiver(*session, options);
  for (int i = 0; i < kMessages; ++i) {
    const auto got = receiver->receive();
    ASSERT_TRUE(got.has_value()) << i;
    const std::vector<std::byte> want = message(i);
    ASSERT_TRUE(std::ranges::equal(*got, want)) << i;
  }
  EXPECT_FALSE(receiver->receive().has_value());  // the sender has ended
}

TEST(MpiChannel, AProcessWithOtherFlagsIsNamed) {
  if (session->processes() == 1) GTEST_SKIP() << "needs two processes";
  auto group = make_mpi_communicators(*session, 1, "start", kPatient);
  ASSERT_TRUE(group.ok());
  const Fact facts[] = {{"model", "tiny"}, {"--max-model-len", session->process() == 1 ? "512" : "1024"}};
  const auto agreed = check_agreement(*group->front(), facts, "process");
  ASSERT_FALSE(agreed.ok());
  EXPECT_EQ(
      agreed.error().message(),
      "--max-model-len: process 0 has 1024, process 1 has 512; start every process with the same program, "
      "model and flags.");
}

// What ctest looks for. Flushed, because MPI_Abort follows.
void report(bool expected, const std::string& what) {
  std::printf("%s: %s\n", expected ? "as expected" : "unexpected", what.c_str());
  std::fflush(stdout);
}

std::string error_of(Communicator& comm) {
  try {
    float x = 1;
    comm.all_reduce(&x, DType::kF32, 1);
    return "the all-reduce came back";
  } catch (const CommError& error) {
    return error.what();
  }
}

void stall() {  // longer than ctest's limit would be noticed as a hang; the others end this process before
  std::this_thread::sleep_for(std::chrono::minutes(3));
  report(false, "the stalled process was not ended");
}

void stalled_process() {
  auto made = make_mpi_communicators(*session, 2, "tp", kPatient);
  if (!made) return report(false, made.error().message());
  made = make_mpi_communicators(*session, 2, "tp", milliseconds(300));
  if (!made) return report(false, made.error().message());
  if (session->process() == 1) return stall();
  auto other = std::async(std::launch::async, [&] { return error_of(*(*made)[1]); });
  const std::string mine = error_of(*(*made)[0]);
  const std::string theirs = other.get();
  const std::string again = error_of(*(*made)[0]);  // a group that has failed stays so
  const std::string want = "all-reduce in tp: process 1 (ranks 2 to 3) did not come within 300 ms";
  report(mine == want && theirs == want && again == want && !session->finish(milliseconds(100)),
         mine + " | " + theirs);
}

void stalled_rank() {
  auto made =
      make_mpi_communicators(*session, 2, "tp", session->process() == 1 ? milliseconds(300) : kPatient);
  if (!made) return report(false, made.error().message());
  if (session->process() == 0) {  // waits in vain; ended by process 1
    auto other = std::async(std::launch::async, [&] { return error_of(*(*made)[1]); });
    return report(false, error_of(*(*made)[0]));
  }
  const std::string mine = error_of(*(*made)[0]);  // nobody ever calls rank 3
  report(mine == "all-reduce in tp: rank 3 did not come within 300 ms", mine);
}

void missing_at_start() {
  if (session->process() == 1) return stall();
  const auto made = make_mpi_communicators(*session, 2, "tp", milliseconds(300));
  const std::string what = made ? "the group started" : made.error().message();
  report(what == "tp: all-gather in tp (start): process 1 (rank 1) did not come within 300 ms", what);
}

// Process 1 neither receives nor answers: noticed while nothing is sent.
void silent_receiver() {
  if (session->process() == 1) return stall();
  std::promise<std::string> lost;
  MpiChannelOptions options{.name = "plans",
                            .heartbeat = milliseconds(50),
                            .patience = milliseconds(300),
                            .on_lost = [&](const std::string& message) { lost.set_value(message); }};
  const auto sender = make_mpi_sender(*session, options);
  const std::string idle = lost.get_future().get();
  std::string sending = "it was sent";
  try {
    sender->send({});
  } catch (const CommError& error) {
    sending = error.what();
  }
  const std::string want = "heartbeat in plans: process 1 did not answer within 300 ms";
  report(idle == want && sending == want, idle + " | " + sending);
}

// Process 0 says nothing more: its receivers do not wait for ever.
void silent_sender() {
  if (session->process() == 0) return stall();
  const auto receiver =
      make_mpi_receiver(*session, {.name = "plans", .patience = milliseconds(300), .on_lost = {}});
  std::string what = "a message came";
  try {
    (void)receiver->receive();
  } catch (const CommError& error) {
    what = error.what();
  }
  report(what == "waiting for a message in plans: process 0 did not answer within 300 ms", what);
}

void sizes_differ() {
  auto made = make_mpi_communicators(*session, 1, "tp", kPatient);
  if (!made) return report(false, made.error().message());
  char out[16] = {};
  try {
    (*made)[0]->all_gather("sevenchr", out, session->process() == 0 ? 4 : 8);
    report(false, "the all-gather came back");
  } catch (const CommError& error) {
    const std::string want = session->process() == 0
                                 ? "all-gather in tp: process 1 sent more than the 4 bytes expected"
                                 : "all-gather in tp: process 0 sent 4 bytes, 8 were expected";
    report(error.what() == want, error.what());
  }
}

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto started = MpiSession::start();
  if (!started) {
    std::fprintf(stderr, "%s\n", started.error().message().c_str());
    return 1;
  }
  session = started->get();
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--stalled-process") return stalled_process(), 1;
  if (mode == "--stalled-rank") return stalled_rank(), 1;
  if (mode == "--missing-at-start") return missing_at_start(), 1;
  if (mode == "--sizes-differ") return sizes_differ(), 1;
  if (mode == "--silent-receiver") return silent_receiver(), 1;
  if (mode == "--silent-sender") return silent_sender(), 1;
  const int failed = RUN_ALL_TESTS();
  if (!session->finish(kPatient)) return 1;
  return failed;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
