#include "comm/nccl/nccl_communicator.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "base/check.h"
#include "comm/nccl_graph_scope.h"

namespace tessera {
namespace {

enum class Operation : std::uint8_t {
  kCreation,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kBarrier,
};
constexpr std::array<const char*, 7> kOperationNames = {"making the communicator",
                                                        "all-reduce",
                                                        "all-gather",
                                                        "reduce-scatter",
                                                        "all-to-all",
                                                        "broadcast",
                                                        "barrier"};

void check_cuda(cudaError_t status, const std::string& where) {
  if (status != cudaSuccess)
    throw CommError(where + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

ncclDataType_t nccl_type(DType dtype) {
  TS_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, name_of(dtype));
  return dtype == DType::kF32 ? ncclFloat32 : ncclBfloat16;
}

class NcclCommunicator final : public Communicator, private DeviceStream::Party {
 public:
  NcclCommunicator(const NcclApi& api, Communicator& host, DeviceStream& stream, NcclOptions options)
      : api_(api), host_(host), stream_(stream), options_(std::move(options)) {
    for (std::size_t i = 0; i < kOperationNames.size(); ++i)
      names_[i] = std::string(kOperationNames[i]) + " in " + host.name() + " over NCCL";
    stream_.join(*this);
  }
  // Not in order with the peers: abort does not wait for them, and nothing is left to be done.
  ~NcclCommunicator() override {
    stream_.leave(*this);
    end_collectives();
    if (word_ != nullptr) (void)cudaFree(word_);
  }

  // The first collective is part of it, because NCCL connects lazily. Throws CommError.
  void start() {
    struct Hello {
      ncclUniqueId id = {};
      ncclResult_t status = ncclSuccess;
    };
    Hello hello;
    if (rank() == 0) hello.status = api_.get_unique_id(&hello.id);
    host_.broadcast(&hello, sizeof hello, 0);
    if (hello.status != ncclSuccess) fail(Operation::kCreation, hello.status);

    const auto decision =
        decide_nccl_graph(options_.graph_file ? options_.graph_file->c_str() : nullptr, host_.name(), size());
    if (!decision) throw CommError(decision.error().message());
    if (rank() == 0 && options_.log) options_.log(decision->sentence);
    const NcclGraphScope scope(decision->use);
    stream_.enter();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    settle(Operation::kCreation, api_.init_rank(&comm_, size(), hello.id, rank(), &config));
    check_cuda(cudaMalloc(&word_, sizeof(float)), name(Operation::kCreation));
    check_cuda(cudaMemset(word_, 0, sizeof(float)), name(Operation::kCreation));
    barrier();
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::string name() const override { return host_.name() + " over NCCL"; }

  void all_reduce(void* data, DType dtype, std::int64_t count) override {
    if (count == 0) return;
    enqueue(Operation::kAllReduce, [&] {
      return api_.all_reduce(data, data, static_cast<std::size_t>(count), nccl_type(dtype), ncclSum, comm_,
                             stream());
    });
  }
  void all_gather(const void* in, void* out, std::size_t bytes) override {
    if (bytes == 0) return;
    enqueue(Operation::kAllGather,
            [&] { return api_.all_gather(in, out, bytes, ncclUint8, comm_, stream()); });
  }
  void reduce_scatter(const void* in, void* out, DType dtype, std::int64_t count) override {
    if (count == 0) return;
    enqueue(Operation::kReduceScatter, [&] {
      return api_.reduce_scatter(in, out, static_cast<std::size_t>(count), nccl_type(dtype), ncclSum, comm_,
                                 stream());
    });
  }
  // As messages between all pairs, the own part included.
  void all_to_all(const void* in, void* out, std::size_t bytes) override {
    if (bytes == 0) return;
    enqueue(Operation::kAllToAll, [&] {
      ncclResult_t status = api_.group_start();
      for (int r = 0; r < size() && is_going(status); ++r) {
        const std::size_t part = static_cast<std::size_t>(r) * bytes;
        status = api_.send(static_cast<const std::byte*>(in) + part, bytes, ncclUint8, r, comm_, stream());
        if (!is_going(status)) break;
        status = api_.recv(static_cast<std::byte*>(out) + part, bytes, ncclUint8, r, comm_, stream());
      }
      const ncclResult_t end = api_.group_end();
      return is_going(status) ? end : status;
    });
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    TS_CHECK(root >= 0 && root < size(), root, size());
    if (bytes == 0) return;
    enqueue(Operation::kBroadcast,
            [&] { return api_.broadcast(data, data, bytes, ncclUint8, root, comm_, stream()); });
  }
  void barrier() override {
    enqueue(Operation::kBarrier,
            [&] { return api_.all_reduce(word_, word_, 1, ncclFloat32, ncclSum, comm_, stream()); });
    stream_.wait();
  }

  std::unique_ptr<Communicator> split(int colour, const std::string& part_name) override {
    std::unique_ptr<Communicator> host = host_.split(colour, part_name);
    auto part = std::make_unique<NcclCommunicator>(api_, *host, stream_, options_);
    part->own_host_ = std::move(host);
    part->start();
    return part;
  }

 private:
  cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_.handle()); }
  const std::string& name(Operation operation) const { return names_[static_cast<std::size_t>(operation)]; }
  static bool is_going(ncclResult_t status) { return status == ncclSuccess || status == ncclInProgress; }

  template <class Call>
  void enqueue(Operation operation, const Call& call) {
    if (comm_ == nullptr) throw CommError(failure_.empty() ? name(operation) + ": it has ended" : failure_);
    last_ = operation;
    stream_.enqueued(name(operation));
    settle(operation, call());
  }

  // Until NCCL has done what the call asked of the host.
  void settle(Operation operation, ncclResult_t status) {
    const auto end = std::chrono::steady_clock::now() + options_.deadline;
    auto pause = std::chrono::microseconds(1);
    while (status == ncclInProgress) {
      if (std::chrono::steady_clock::now() > end) {
        failure_ = name(operation) + ": rank " + std::to_string(rank()) + " waited " +
                   std::to_string(options_.deadline.count()) + " ms for the other ranks";
        end_collectives();
        throw CommError(failure_);
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::microseconds(1000));
      if (api_.async_error(comm_, &status) != ncclSuccess) status = ncclInternalError;
    }
    if (status != ncclSuccess) fail(operation, status);
  }

  [[noreturn]] void fail(Operation operation, ncclResult_t status) {
    failure_ = describe(operation, status);
    end_collectives();
    throw CommError(failure_);
  }
  std::string describe(Operation operation, ncclResult_t status) const {
    const char* const detail = comm_ != nullptr ? api_.last_error(comm_) : nullptr;
    std::string text =
        name(operation) + ": rank " + std::to_string(rank()) + ": NCCL says " + api_.error_string(status);
    if (detail != nullptr && *detail != '\0') text += std::string(" (") + detail + ")";
    return text;
  }

  // --- DeviceStream::Party
  std::optional<std::string> trouble() override {
    if (comm_ == nullptr) return std::nullopt;
    ncclResult_t state = ncclSuccess;
    if (api_.async_error(comm_, &state) != ncclSuccess) state = ncclInternalError;
    if (is_going(state)) return std::nullopt;
    failure_ = describe(last_, state);
    return failure_;
  }
  void end_collectives() override {
    if (comm_ != nullptr) (void)api_.abort(std::exchange(comm_, nullptr));
  }

  const NcclApi api_;
  std::unique_ptr<Communicator> own_host_;  // of a part: split from the whole's
  Communicator& host_;
  DeviceStream& stream_;
  NcclOptions options_;
  std::array<std::string, kOperationNames.size()> names_;
  Operation last_ = Operation::kCreation;
  ncclComm_t comm_ = nullptr;
  void* word_ = nullptr;  // of barrier()
  std::string failure_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_nccl_communicator(const NcclApi& api, Communicator& host,
                                                             DeviceStream& stream,
                                                             const NcclOptions& options) {
  auto communicator = std::make_unique<NcclCommunicator>(api, host, stream, options);
  try {
    communicator->start();
  } catch (const CommError& error) {
    return Error{ErrorKind::kUnavailable, host.name(), error.what()};
  }
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace tessera
