#include "server/http/io_thread.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "server/http/connection.h"
#include "server/http/failure.h"

namespace tessera::http {

IoThread::IoThread(std::chrono::milliseconds tick) : tick_(tick) {
  // Called under the mailbox's lock, and not after close(): the loop is there.
  mailbox_ = std::make_shared<Mailbox>(
      [this] { boost::asio::post(context_, [box = mailbox_] { box->deliver(); }); });
}

IoThread::~IoThread() { stop(); }

void IoThread::start() {
  tick();
  thread_ = std::thread([this] {
    while (true) {
      try {
        context_.run();
        return;
      } catch (...) {  // of one event, such as running out of memory while reading; the others go on
        spdlog::error("an event of an io thread failed: {}", describe_failure());
      }
    }
  });
}

void IoThread::stop() {
  mailbox_->close();
  context_.stop();
  if (thread_.joinable()) thread_.join();
  // Closing runs on_gone callbacks, and takes the connection from the set.
  const std::vector<std::shared_ptr<Connection>> open(connections.begin(), connections.end());
  for (const auto& connection : open) connection->close();
}

void IoThread::tick() {
  timer_.expires_after(tick_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    const auto now = std::chrono::steady_clock::now();
    // A copy, since a connection that is cut leaves the set.
    const std::vector<std::shared_ptr<Connection>> all(connections.begin(), connections.end());
    for (const auto& connection : all) connection->tick(now);
    tick();
  });
}

}  // namespace tessera::http
