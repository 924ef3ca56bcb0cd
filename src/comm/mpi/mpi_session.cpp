#include "comm/mpi/mpi_session.h"

// The C interface alone: Open MPI's old C++ bindings do not compile without warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "comm/communicator.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWorldTags =
    1024;  // tags below it name world groups, those above are handed out by reserve_tags
// MPI counts are ints; longer messages travel in pieces.
constexpr std::size_t kPiece = std::size_t{1} << 30;
// A decode step's exchange takes tens of microseconds, so for that long a waiting thread only gives way;
// after it, it sleeps, since ranks without a core of their own must not keep the others from theirs.
constexpr auto kYieldFor = std::chrono::microseconds(500);
constexpr auto kSleep = std::chrono::microseconds(50);
// An idle server waits for hours; then a millisecond's delay is nothing beside the load of looking often.
constexpr auto kShortSleepsFor = std::chrono::milliseconds(50);
constexpr auto kLongSleep = std::chrono::milliseconds(1);

void mpi_check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw CommError(std::string(call) + ": " + text);
}

// Calls `done` until it says yes or the deadline is over.
template <class Done>
bool poll(std::chrono::milliseconds deadline, const Done& done) {
  const auto start = Clock::now();
  while (!done()) {
    const auto waited = Clock::now() - start;
    if (waited > deadline) return false;
    if (waited < kYieldFor) {
      std::this_thread::yield();
    } else if (waited < kShortSleepsFor) {
      std::this_thread::sleep_for(kSleep);
    } else {
      std::this_thread::sleep_for(kLongSleep);
    }
  }
  return true;
}

}  // namespace

struct MpiSession::State {
  std::mutex mpi;  // held around every call of MPI
  MPI_Comm comm = MPI_COMM_NULL;
  int process = 0;
  int processes = 1;
  int max_tag = 0;
  bool finished = false;

  std::mutex mutex;  // guards what follows
  int worlds = 0;
  int reserved = 0;
  std::vector<std::shared_ptr<void>> kept;
};

Result<std::unique_ptr<MpiSession>> MpiSession::start() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) return Error{ErrorKind::kConflict, "mpi", "MPI was started before in this process."};
  int level = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
    return Error{ErrorKind::kUnavailable, "mpi", "MPI_Init_thread failed; start the program with mpirun."};
  if (level < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    return Error{ErrorKind::kUnsupported, "mpi",
                 "This MPI offers thread level " + std::to_string(level) +
                     ", ranks as threads need MPI_THREAD_SERIALIZED (" +
                     std::to_string(MPI_THREAD_SERIALIZED) + ")."};
  }
  auto state = std::make_unique<State>();
  try {
    // A communicator of our own, so that our tags meet nobody else's; errors come back as values.
    mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &state->comm), "MPI_Comm_dup");
    mpi_check(MPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    mpi_check(MPI_Comm_rank(state->comm, &state->process), "MPI_Comm_rank");
    mpi_check(MPI_Comm_size(state->comm, &state->processes), "MPI_Comm_size");
    int* bound = nullptr;
    int found = 0;
    mpi_check(MPI_Comm_get_attr(state->comm, MPI_TAG_UB, &bound, &found), "MPI_Comm_get_attr(MPI_TAG_UB)");
    state->max_tag = found != 0 ? *bound : 32767;  // the least that the standard promises
  } catch (const CommError& error) {
    return Error{ErrorKind::kUnavailable, "mpi", error.what()};
  }
  return std::unique_ptr<MpiSession>(new MpiSession(std::move(state)));
}

MpiSession::MpiSession(std::unique_ptr<State> state) : state_(std::move(state)) {}

bool MpiSession::finish(std::chrono::milliseconds deadline) {
  State& s = *state_;
  if (s.finished) return true;
  if (!s.kept.empty()) return false;  // an exchange was given up: the peers are not in step
  const std::lock_guard lock(s.mpi);
  MPI_Request everybody = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(s.comm, &everybody) != MPI_SUCCESS) return false;
  const bool came = poll(deadline, [&] {
    int done = 0;
    return MPI_Test(&everybody, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
  });
  if (!came) return false;
  MPI_Comm_free(&s.comm);
  MPI_Finalize();
  s.finished = true;
  return true;
}

MpiSession::~MpiSession() {
  if (!state_->finished) MPI_Abort(MPI_COMM_WORLD, 1);
}

int MpiSession::process() const { return state_->process; }
int MpiSession::processes() const { return state_->processes; }

int MpiSession::next_world_tag() {
  const std::lock_guard lock(state_->mutex);
  TS_CHECK(state_->worlds < kWorldTags, state_->worlds);
  return state_->worlds++;
}

int MpiSession::reserve_tags(int count) {
  const std::lock_guard lock(state_->mutex);
  const State& s = *state_;
  const std::int64_t first = kWorldTags + s.process + std::int64_t{s.reserved} * s.processes;
  if (first + std::int64_t{count} * s.processes > s.max_tag) {
    throw CommError("mpi: no message tags left for another split; " + std::to_string(s.reserved) +
                    " were handed out, the largest allowed is " + std::to_string(s.max_tag));
  }
  state_->reserved += count;
  return static_cast<int>(first);
}

void MpiSession::keep(std::shared_ptr<void> buffers) {
  const std::lock_guard lock(state_->mutex);
  state_->kept.push_back(std::move(buffers));
}

struct MpiExchange::Requests {
  // One entry for each piece, in step.
  std::vector<MPI_Request> handles;
  std::vector<MPI_Status> statuses;
  std::vector<int> peers;
  std::vector<int> expected;  // bytes to receive; -1 for sends
};

MpiExchange::MpiExchange(MpiSession& session, int tag)
    : session_(session), tag_(tag), requests_(std::make_unique<Requests>()) {}
MpiExchange::~MpiExchange() = default;

std::vector<int> MpiExchange::run(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                                  std::chrono::milliseconds deadline) {
  MpiSession::State& s = *session_.state_;
  Requests& r = *requests_;
  r.handles.clear();
  r.peers.clear();
  r.expected.clear();
  {
    // An empty message is sent too: barriers consist of them.
    const auto each_piece = [&](std::size_t bytes, const auto& post) {
      std::size_t at = 0;
      do {
        const std::size_t length = std::min(bytes - at, kPiece);
        r.handles.push_back(MPI_REQUEST_NULL);
        post(at, static_cast<int>(length));
        at += length;
      } while (at < bytes);
    };
    const std::lock_guard lock(s.mpi);
    for (const Incoming& message : receives) {
      each_piece(message.bytes.size(), [&](std::size_t at, int length) {
        r.peers.push_back(message.process);
        r.expected.push_back(length);
        mpi_check(MPI_Irecv(message.bytes.data() + at, length, MPI_BYTE, message.process, tag_, s.comm,
                            &r.handles.back()),
                  "MPI_Irecv");
      });
    }
    for (const Outgoing& message : sends) {
      each_piece(message.bytes.size(), [&](std::size_t at, int length) {
        r.peers.push_back(message.process);
        r.expected.push_back(-1);
        mpi_check(MPI_Isend(message.bytes.data() + at, length, MPI_BYTE, message.process, tag_, s.comm,
                            &r.handles.back()),
                  "MPI_Isend");
      });
    }
  }
  const int count = static_cast<int>(r.handles.size());
  r.statuses.resize(r.handles.size());
  const auto check_one = [&](int status, std::size_t i) {
    const std::string who = "process " + std::to_string(r.peers[i]);
    if (status == MPI_ERR_TRUNCATE)
      throw CommError(who + " sent more than the " + std::to_string(r.expected[i]) + " bytes expected");
    mpi_check(status, ("the message with " + who).c_str());
  };
  const bool complete = poll(deadline, [&] {
    const std::lock_guard lock(s.mpi);
    int done = 0;
    const int status = MPI_Testall(count, r.handles.data(), &done, r.statuses.data());
    if (status == MPI_ERR_IN_STATUS) {
      for (std::size_t i = 0; i < r.statuses.size(); ++i) {
        if (r.statuses[i].MPI_ERROR != MPI_ERR_PENDING) check_one(r.statuses[i].MPI_ERROR, i);
      }
    } else {
      mpi_check(status, "MPI_Testall");
    }
    return done != 0;
  });

  const std::lock_guard lock(s.mpi);
  std::vector<int> missing;
  for (std::size_t i = 0; i < r.handles.size(); ++i) {
    if (!complete) {
      int done = 0;
      check_one(MPI_Test(&r.handles[i], &done, &r.statuses[i]), i);
      if (done == 0) missing.push_back(r.peers[i]);
      continue;
    }
    if (r.expected[i] < 0) continue;
    int bytes = 0;
    MPI_Get_count(&r.statuses[i], MPI_BYTE, &bytes);
    if (bytes != r.expected[i]) {
      throw CommError("process " + std::to_string(r.peers[i]) + " sent " + std::to_string(bytes) +
                      " bytes, " + std::to_string(r.expected[i]) + " were expected");
    }
  }
  std::ranges::sort(missing);
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

}  // namespace tessera
