// Reads a checkpoint's bytes from the disk before the loader asks for them: one thread, in order, in large
// pieces and with the next piece already asked for, so that the disk never waits for whoever converts the
// weights. All ranks of a host profit from one reader, and every byte is read from the disk once.
//
//   ReadAhead ahead(checkpoint.weight_bytes(), window);
//   ... load, and after each weight: ahead.consumed(bytes) ...
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace tessera {

class ReadAhead {
 public:
  using Bytes = std::span<const std::byte>;
  struct Disk {
    std::function<void(Bytes)> start;  // asks for the bytes, does not wait
    std::function<void(Bytes)> wait;   // returns when they are in memory
  };
  static constexpr std::int64_t kPiece = std::int64_t{32}
                                         << 20;  // bytes asked for at once; two are on their way

  // Goes at most `window_bytes` beyond what was consumed. The parts must outlive this.
  ReadAhead(std::vector<Bytes> parts, std::int64_t window_bytes);  // of mapped files
  ReadAhead(std::vector<Bytes> parts, std::int64_t window_bytes, Disk disk);
  // Stops after the piece that is being read.
  ~ReadAhead();

  // Any thread may call it. More than there is does no harm: ranks that all keep a weight all count it.
  void consumed(std::int64_t bytes);

 private:
  void run(const std::vector<Bytes>& pieces);
  bool wait_for_room(std::int64_t end);  // false: stopping

  std::int64_t window_;
  Disk disk_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable moved_;
  std::int64_t consumed_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tessera
