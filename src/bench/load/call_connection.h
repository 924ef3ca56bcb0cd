// One call on one connection: a socket that never blocks, what is still to be sent, and the answer as it
// comes. Told by its loop when the socket is ready; reads once each time, so that an event costs one system
// call.
#pragma once

#include <netdb.h>

#include <array>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <string>

#include "bench/load/load_loop.h"

namespace tessera::bench {

// A body that is handed on as it comes.
struct SinkBody {
  struct value_type {
    CallSink* sink = nullptr;
    double at = 0;  // when the bytes arrived
  };
  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(boost::beast::http::header<isRequest, Fields>&, value_type& value) : value_(value) {}
    void init(const boost::optional<std::uint64_t>&, boost::system::error_code& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      std::size_t taken = 0;
      for (auto at = boost::asio::buffer_sequence_begin(buffers);
           at != boost::asio::buffer_sequence_end(buffers); ++at) {
        const boost::asio::const_buffer buffer = *at;
        taken += buffer.size();
        if (value_.sink != nullptr)
          value_.sink->on_body({static_cast<const char*>(buffer.data()), buffer.size()}, value_.at);
      }
      return taken;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& value_;
  };
};

// What a loop lends its connections: one buffer for all of them, and its clock.
struct LoopTools {
  std::array<char, 65536> input;
  double now = 0;           // on the loop's clock, of this wake
  double now_realtime = 0;  // the same moment on the clock that the kernel stamps with
  bool has_stamps = false;  // the kernel says when bytes arrived, so looking later loses nothing
  LoopCounts counts;
};

class CallConnection {
 public:
  // The sink outlives the connection or its close().
  CallConnection(LoopTools& tools, std::string url, std::string request, CallSink& sink);
  ~CallConnection() { close(); }
  CallConnection(const CallConnection&) = delete;
  CallConnection& operator=(const CallConnection&) = delete;

  // Tries the addresses one after the other; the socket may be another one after a call of on_ready().
  void connect(const addrinfo* addresses);
  // The sink hears of nothing any more.
  void close();

  bool is_open() const { return socket_ >= 0; }
  bool is_over() const { return sink_ == nullptr; }
  int socket() const { return socket_; }
  bool wants_to_write() const { return !is_connected_ || sent_ < request_.size(); }
  void on_ready(std::uint32_t epoll_events);

 private:
  bool next_address();
  void finish_connecting();
  void send_more();
  void read_once();
  double arrival_of(const msghdr& message);
  void parse(boost::asio::const_buffer bytes);
  void end(const Result<void>& how);
  void fail(const char* what, int error);

  LoopTools& tools_;
  std::string url_;
  std::string request_;
  CallSink* sink_;
  const addrinfo* address_ = nullptr;  // the next to try
  int socket_ = -1;
  bool is_connected_ = false;
  std::size_t sent_ = 0;
  int write_error_ = 0;
  boost::beast::flat_buffer rest_;  // what the parser could not use yet
  boost::beast::http::response_parser<SinkBody> parser_;
  bool head_told_ = false;
};

}  // namespace tessera::bench
