// An event loop on a thread of its own, with a mailbox and a list of the connections that live on it.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <unordered_set>

#include "server/http/mailbox.h"

namespace tessera::http {

class Connection;

class IoThread {
 public:
  explicit IoThread(std::chrono::milliseconds tick);
  ~IoThread();

  boost::asio::io_context& context() { return context_; }
  void start();
  // Ends the loop and joins; connections are closed on the caller's thread afterwards.
  void stop();

  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  // On the loop's thread only. The set owns the connections while they are open.
  std::unordered_set<std::shared_ptr<Connection>> connections;

 private:
  void tick();

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{context_.get_executor()};
  boost::asio::steady_timer timer_{context_};
  std::chrono::milliseconds tick_;
  std::shared_ptr<Mailbox> mailbox_;  // shared with whoever mails, for as long as they like
  std::thread thread_;
};

}  // namespace tessera::http
