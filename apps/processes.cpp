#include "processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "engine_setup.h"
#include "serve_flags.h"
#ifdef TESSERA_HAS_MPI
#include "comm/mpi/mpi_channel.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/mpi_session.h"
#endif

namespace tessera {
namespace {

// A number that a process manager set; `otherwise` when it did not.
int number_of(std::initializer_list<const char*> variables, int otherwise = 1) {
  for (const char* name : variables) {
    if (const char* value = std::getenv(name)) return std::max(otherwise, std::atoi(value));
  }
  return otherwise;
}

}  // namespace

#ifdef TESSERA_HAS_MPI

namespace {

// How long processes may take to reach the same point of start and end. Loading is not counted: during it
// they tell each other that they are at it.
constexpr std::chrono::milliseconds kStartDeadline{60'000};
constexpr std::chrono::milliseconds kEndDeadline{20'000};
constexpr std::chrono::milliseconds kErrorDeadline{2'000};
constexpr std::chrono::milliseconds kLoadingInterval{500};

}  // namespace

Result<std::unique_ptr<Processes>> Processes::join() {
  if (number_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) == 1) return std::unique_ptr<Processes>();
  std::unique_ptr<Processes> processes(new Processes);
  TS_TRY(processes->session_, MpiSession::start());
  processes->local_ = number_of({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  processes->place_ = number_of({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}, 0);
  TS_TRY(auto start, make_mpi_communicators(*processes->session_, 1, "start", kStartDeadline));
  processes->start_ = std::move(start.front());
  return processes;
}

Processes::~Processes() {
  // Errors that all processes found together end in order; else the session aborts whoever is left.
  start_.reset();
  if (session_) (void)session_->finish(kErrorDeadline);
}

int Processes::process() const { return session_->process(); }
int Processes::count() const { return session_->processes(); }

Result<void> Processes::check_agreement(std::span<const Fact> facts) {
  return tessera::check_agreement(*start_, facts, "process");
}

Result<std::vector<std::unique_ptr<Communicator>>> Processes::communicators(
    int ranks_each, std::chrono::milliseconds deadline) {
  return make_mpi_communicators(*session_, ranks_each,
                                fmt::format("tp of {} ranks in {} processes", ranks_each * count(), count()),
                                deadline);
}

std::unique_ptr<Rendezvous> Processes::loading() {
  return std::make_unique<Rendezvous>(*start_, "process", kLoadingInterval);
}

std::vector<std::byte> Processes::gather(std::span<const std::byte> mine) {
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(count()));
  start_->all_gather(mine.data(), all.data(), mine.size());
  return all;
}

std::unique_ptr<MessageSender> Processes::sender(std::function<void(const std::string&)> on_lost) {
  MpiChannelOptions options;
  options.on_lost = std::move(on_lost);
  return make_mpi_sender(*session_, std::move(options));
}

std::unique_ptr<MessageReceiver> Processes::receiver() { return make_mpi_receiver(*session_, {}); }

bool Processes::finish() {
  start_.reset();
  return session_->finish(kEndDeadline);
}

#else  // without MPI there is never more than one process

class MpiSession {};

Result<std::unique_ptr<Processes>> Processes::join() {
  const int count = number_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (count == 1) return std::unique_ptr<Processes>();
  return Error{
      ErrorKind::kUnsupported, "mpirun",
      fmt::format("{} processes were started, but this program was built without MPI; install Open MPI's "
                  "development package and build again.",
                  count)};
}
Processes::~Processes() = default;
int Processes::process() const { return 0; }
int Processes::count() const { return 1; }
Result<void> Processes::check_agreement(std::span<const Fact>) { return {}; }
Result<std::vector<std::unique_ptr<Communicator>>> Processes::communicators(int, std::chrono::milliseconds) {
  return std::vector<std::unique_ptr<Communicator>>();
}
std::unique_ptr<Rendezvous> Processes::loading() { return nullptr; }
std::vector<std::byte> Processes::gather(std::span<const std::byte>) { return {}; }
std::unique_ptr<MessageSender> Processes::sender(std::function<void(const std::string&)>) { return nullptr; }
std::unique_ptr<MessageReceiver> Processes::receiver() { return nullptr; }
bool Processes::finish() { return true; }

#endif

Result<int> Processes::ranks_each(int ranks) const {
  if (ranks % count() == 0) return ranks / count();
  const int below = ranks / count() * count();
  const int above = below + count();
  const int nearest = below > 0 && ranks - below <= above - ranks ? below : above;
  return Error{
      ErrorKind::kInvalidArgument, "--tensor-parallel-size",
      fmt::format("is {}, but mpirun started {} processes, which must run equally many ranks; the nearest "
                  "size that works is {}.",
                  ranks, count(), nearest)};
}

int run_follower(const ServeFlags& flags, Processes& processes) {
  // The leader decides when to end, and mpirun passes its signals to everybody.
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_color_mt(fmt::format("tessera process {}", processes.process())));
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  const auto follow_to_the_end = [&]() -> Result<void> {
    TS_TRY(const Checkpoint checkpoint, Checkpoint::open(flags.model));
    LaunchHooks hooks;
    hooks.processes = &processes;
    TS_TRY(LaunchedEngine launched, launch_engine(flags, checkpoint, hooks));
    spdlog::info("following process 0 with {} ranks", launched.plan.ranks / processes.count());
    return follow(launched);
  };
  const auto ended = follow_to_the_end();
  if (!ended) {
    spdlog::critical("the ranks of process {} have stopped: {}", processes.process(),
                     ended.error().message());
    std::fflush(nullptr);
    return 1;
  }
  return processes.finish() ? 0 : 1;
}

}  // namespace tessera
