#include "server/recorder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "server/record/secrets.h"

namespace tessera {

std::string record_time() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     ms % 1000);
}

// Hands everything on, and notes it. Lives on the connection's thread, as every exchange does.
class Recorder::Watched final : public http::Exchange {
 public:
  Watched(Recorder& recorder, std::shared_ptr<http::Exchange> inner, RecordedRequest record)
      : recorder_(recorder), inner_(std::move(inner)), record_(std::move(record)) {}
  ~Watched() override { finish("cut"); }

  void respond(http::Response response) override {
    note_head(response);
    note(response.body);
    finish(is_stream_ ? "cut" : "complete");
    inner_->respond(std::move(response));
  }
  void begin_stream(http::Response head) override {
    is_stream_ = true;
    note_head(head);
    inner_->begin_stream(std::move(head));
  }
  void write(std::string_view bytes) override {
    note(bytes);
    inner_->write(bytes);
  }
  void end_stream() override {
    finish("complete");
    inner_->end_stream();
  }
  std::shared_ptr<http::Mailbox> mailbox() override { return inner_->mailbox(); }
  void on_gone(std::function<void()> callback) override {
    // The callback owns what owns this object, so it is here whenever it is called.
    inner_->on_gone([this, callback = std::move(callback)] {
      finish("client left");
      callback();
    });
  }
  void on_tick(std::function<void(std::chrono::steady_clock::time_point)> callback) override {
    inner_->on_tick(std::move(callback));
  }

 private:
  double elapsed_ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began_).count();
  }
  void note_head(const http::Response& head) {
    if (record_.status == 0) record_.first_byte_ms = elapsed_ms();
    if (!is_stream_ || record_.status == 0) record_.status = head.status;
  }
  void note(std::string_view bytes) {
    if (is_finished_) return;
    const std::size_t room = recorder_.limits_.answer_bytes - record_.answer.size();
    record_.answer += bytes.substr(0, room);
    if (bytes.size() > room) record_.answer_is_whole = false;
  }
  void finish(const char* how) {
    if (std::exchange(is_finished_, true)) return;
    record_.ended = how;
    record_.total_ms = elapsed_ms();
    recorder_.keep(std::move(record_));
  }

  Recorder& recorder_;
  std::shared_ptr<http::Exchange> inner_;  // shared as every handler's exchange is
  RecordedRequest record_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool is_stream_ = false;
  bool is_finished_ = false;
};

Recorder::Recorder(RecordFolder folder, std::vector<std::string> keys, RecorderLimits limits)
    : keys_(std::move(keys)), limits_(limits), folder_(std::move(folder)) {}

Result<std::unique_ptr<Recorder>> Recorder::open(const std::string& folder, std::vector<std::string> keys,
                                                 RecorderLimits limits) {
  TS_TRY(RecordFolder opened, RecordFolder::open(folder, limits.folder_bytes));
  return std::unique_ptr<Recorder>(new Recorder(std::move(opened), std::move(keys), limits));
}

std::shared_ptr<http::Exchange> Recorder::watch(std::shared_ptr<http::Exchange> exchange,
                                                RecordedRequest known) {
  return std::make_shared<Watched>(*this, std::move(exchange), std::move(known));
}

void Recorder::stop() { writer_.join(); }

// On a connection's thread: nothing here waits for a disk or looks through a text.
void Recorder::keep(RecordedRequest record) {
  const std::size_t bytes = record.body.size() + record.answer.size();
  if (waiting_bytes_.fetch_add(bytes) + bytes > limits_.waiting_bytes) {
    waiting_bytes_ -= bytes;
    // Said for the 1st, 2nd, 4th, 8th … so that the log does not fill up as well.
    const std::int64_t dropped = ++dropped_;
    if ((dropped & (dropped - 1)) == 0) {
      spdlog::warn("--record-requests: the disk does not keep up; {} requests were not recorded", dropped);
    }
    return;
  }
  writer_.post(
      [this, bytes, shared = std::make_shared<RecordedRequest>(std::move(record))] {  // std::function copies
        try {
          write(std::move(*shared));
        } catch (const std::exception& failure) {
          spdlog::warn("--record-requests: a request was not recorded: {}", failure.what());
        }
        waiting_bytes_ -= bytes;
      });
}

void Recorder::write(RecordedRequest record) {
  for (std::string* text : {&record.path, &record.user_agent, &record.body, &record.answer}) {
    *text = remove_secrets(std::move(*text), keys_);
  }
  const std::string path = folder_.next_file(record.at);
  const std::string text = to_json(record);
  // Under another name until it is whole: who reads the folder meanwhile finds whole records only.
  const std::string unfinished = path + ".part";
  const int file = ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool is_written = file >= 0;
  for (std::size_t at = 0; is_written && at < text.size();) {
    const auto count = ::write(file, text.data() + at, text.size() - at);
    is_written = count > 0 || (count < 0 && errno == EINTR);
    if (count > 0) at += static_cast<std::size_t>(count);
  }
  const int problem = errno;
  if (file >= 0) ::close(file);
  if (is_written && ::rename(unfinished.c_str(), path.c_str()) == 0) {
    const std::int64_t before = deleted_;
    deleted_ += folder_.added(path, static_cast<std::int64_t>(text.size()));
    if (std::bit_width(static_cast<std::uint64_t>(before)) !=
        std::bit_width(static_cast<std::uint64_t>(deleted_))) {
      spdlog::info(
          "--record-requests: the folder is full ({} bytes, --record-requests-max-bytes); {} of the oldest "
          "records were deleted",
          limits_.folder_bytes, deleted_);
    }
    return;
  }
  spdlog::warn("--record-requests: {} cannot be written: {}", path,
               std::strerror(is_written ? errno : problem));
  if (file >= 0) ::unlink(unfinished.c_str());
}

}  // namespace tessera
