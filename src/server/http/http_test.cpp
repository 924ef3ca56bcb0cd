// Over loopback sockets: what only a socket can show. Clients are plain blocking sockets, so that requests
// can be malformed, cut and slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <future>

#include "server/http/http_server.h"

namespace tessera::http {
namespace {

using boost::asio::ip::tcp;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

struct TestHandler : Handler {
  bool refuse(const Request& head, Exchange& exchange) override {
    if (head.path != "/secret") return false;
    exchange.respond({.status = 401, .body = "no"});
    return true;
  }
  void handle(std::shared_ptr<Exchange> exchange, Request request) override {
    if (request.path == "/echo")
      return exchange->respond({.content_type = "text/plain", .body = request.body});
    if (request.path == "/big") return exchange->respond({.body = std::string(64U << 20, 'x')});
    if (request.path == "/stream") {
      exchange->begin_stream({.content_type = "text/event-stream"});
      exchange->write("one ");
      exchange->mailbox()->mail([exchange] {
        exchange->write("two");
        exchange->end_stream();
      });
      return;
    }
    if (request.path == "/hang") {
      exchange->on_gone([this] { gone.set_value(); });
      hanging.set_value(exchange);
      return;
    }
    if (request.path == "/throw") throw std::runtime_error("thrown");
    if (request.path == "/throw-in-stream") {
      exchange->begin_stream({.content_type = "text/event-stream"});
      exchange->write("half an ");
      throw 1;
    }
    if (request.path == "/throw-later") {
      exchange->on_tick([](auto) { throw std::runtime_error("thrown later"); });
      exchange->mailbox()->mail([] { throw std::runtime_error("thrown in a task"); });
      return;
    }
    exchange->respond({.status = 404, .body = "nothing at " + request.path});
  }
  Response problem(int status, std::string message) override { return {.status = status, .body = message}; }

  std::promise<void> gone;
  std::promise<std::weak_ptr<Exchange>> hanging;  // weak: this outlives the server
};

struct Client {
  explicit Client(std::uint16_t port) : socket(context) {
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), port});
  }
  void send(std::string_view text) { boost::asio::write(socket, boost::asio::buffer(text)); }
  // Until the server closes.
  std::string rest() {
    boost::system::error_code error;
    boost::asio::read(socket, boost::asio::dynamic_buffer(pending), error);
    return std::exchange(pending, {});
  }
  std::string until(std::string_view end) {
    const std::size_t bytes =
        boost::asio::read_until(socket, boost::asio::dynamic_buffer(pending), std::string(end));
    std::string out = pending.substr(0, bytes);
    pending.erase(0, bytes);
    return out;
  }
  boost::asio::io_context context;
  tcp::socket socket;
  std::string pending;
};

HttpOptions quick() {
  return {.host = "127.0.0.1",
          .port = 0,
          .max_header_bytes = 2048,
          .max_body_bytes = 100'000,
          .max_unsent_bytes = 1U << 20,
          .header_timeout = 150ms,
          .body_timeout = 150ms,
          .idle_timeout = 5s,
          .write_timeout = 200ms,
          .tick = 10ms};
}

struct Http : testing::Test {
  void start(HttpOptions options = quick()) {
    server = std::make_unique<HttpServer>(options, handler);
    const auto started = server->start();
    ASSERT_TRUE(started.ok()) << started.error().message();
  }
  TestHandler handler;
  std::unique_ptr<HttpServer> server;
};

TEST_F(Http, KeepsTheConnectionForTheNextRequest) {
  start();
  Client client(server->port());
  for (int i = 0; i < 3; ++i) {
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabc" + std::to_string(i));
    EXPECT_THAT(client.until("abc" + std::to_string(i)), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
}

TEST_F(Http, AHandlerThatThrowsIsAnswered500AndTheConnectionGoesOn) {
  start();
  Client client(server->port());
  for (const char* path : {"/throw", "/throw-later", "/throw"}) {
    client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(client.until("this request."), StartsWith("HTTP/1.1 500 ")) << path;
  }
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(client.until("abc"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(Http, AStreamThatThrowsIsCutSoThatItDoesNotLookComplete) {
  start();
  Client client(server->port());
  client.send("GET /throw-in-stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.rest(), testing::Not(HasSubstr("0\r\n\r\n")));
  Client next(server->port());
  next.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(next.until("abc"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(Http, AnswersPipelinedRequestsInOrder) {
  start();
  Client client(server->port());
  std::string all;
  for (int i = 0; i < 50; ++i)
    all += "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n" + std::to_string(10 + i);
  client.send(all);
  for (int i = 0; i < 50; ++i)
    EXPECT_THAT(client.until("\r\n\r\n" + std::to_string(10 + i)), HasSubstr("200 OK"));
}

TEST_F(Http, ReadsARequestThatComesByteByByte) {
  start();
  Client client(server->port());
  for (const char c : std::string("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"))
    client.send({&c, 1});
  EXPECT_THAT(client.until("abc"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(Http, ReadsChunkedBodies) {
  start();
  Client client(server->port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_THAT(client.until("abcde"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(Http, StreamsInChunksAndWithoutThemToHttp10) {
  start();
  Client client(server->port());
  client.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.until("0\r\n\r\n"), HasSubstr("4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"));
  Client old(server->port());
  old.send("GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.rest(), testing::EndsWith("\r\n\r\none two"));
}

TEST_F(Http, AnswersHeadWithoutABody) {
  start();
  Client client(server->port());
  client.send("HEAD /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = client.rest();
  EXPECT_THAT(answer, HasSubstr("Content-Length: 19\r\n"));
  EXPECT_THAT(answer, testing::EndsWith("\r\n\r\n"));
}

TEST_F(Http, RefusesBeforeTheBodyIsSentAndStillDeliversTheAnswer) {
  start();
  Client client(server->port());
  client.send("POST /secret HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n");
  client.send(std::string(50'000, 'x'));
  EXPECT_THAT(client.until("no"), StartsWith("HTTP/1.1 401 Unauthorized"));
}

TEST_F(Http, SaysThatABodyIsTooLarge) {
  start();
  Client client(server->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n");
  const std::string answer = client.until("bytes.");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(answer, HasSubstr("100000"));
}

TEST_F(Http, SaysThatAChunkedBodyIsTooLarge) {
  start();
  Client client(server->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n186a1\r\n" +
              std::string(100'001, 'x'));
  EXPECT_THAT(client.until("\r\n"), StartsWith("HTTP/1.1 413"));
}

TEST_F(Http, SaysThatAHeaderIsTooLarge) {
  start();
  Client client(server->port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(4000, 'x') + "\r\n\r\n");
  EXPECT_THAT(client.until("\r\n"), StartsWith("HTTP/1.1 431"));
}

TEST_F(Http, AnswersGarbageWith400) {
  start();
  Client client(server->port());
  client.send("\x16\x03\x01\x02 this is no HTTP\r\n\r\n");
  EXPECT_THAT(client.until("\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(Http, RefusesBothLengthAndChunksAsASmugglerWouldSend) {
  start();
  Client client(server->port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_THAT(client.until("\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(Http, CutsHeadersAndBodiesThatNeverEnd) {
  start();
  Client header(server->port());
  header.send("GET / HTT");
  EXPECT_THAT(header.rest(), StartsWith("HTTP/1.1 408"));
  Client body(server->port());
  body.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_THAT(body.rest(), StartsWith("HTTP/1.1 408"));
}

TEST_F(Http, TellsTheHandlerThatAClientLeft) {
  start();
  auto client = std::make_unique<Client>(server->port());
  client->send("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n");
  handler.hanging.get_future().wait();
  client.reset();
  EXPECT_EQ(handler.gone.get_future().wait_for(5s), std::future_status::ready);
}

TEST_F(Http, CutsAClientThatDoesNotRead) {
  start();
  Client client(server->port());
  client.send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  client.until("\r\n\r\n");
  for (int i = 0; i < 500 && server->open_connections() > 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(server->open_connections(), 0);
}

TEST_F(Http, CutsAStreamThatPilesUpUnread) {
  start();
  Client client(server->port());
  client.send("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto exchange = handler.hanging.get_future().get().lock();
  exchange->mailbox()->mail([exchange] {
    exchange->begin_stream({});
    for (int i = 0; i < 100; ++i) exchange->write(std::string(100'000, 'x'));
  });
  EXPECT_EQ(handler.gone.get_future().wait_for(5s), std::future_status::ready);
}

TEST_F(Http, RefusesConnectionsAboveTheLimit) {
  HttpOptions options = quick();
  options.max_connections = 1;
  start(options);
  Client first(server->port());
  first.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  first.until("\r\n\r\n");
  Client second(server->port());
  EXPECT_THAT(second.rest(), StartsWith("HTTP/1.1 503"));
}

TEST_F(Http, DrainingLetsOpenRequestsFinish) {
  start();
  Client client(server->port());
  client.send("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto exchange = handler.hanging.get_future().get().lock();
  server->drain();
  exchange->mailbox()->mail([exchange] { exchange->respond({.body = "done"}); });
  const std::string answer = client.rest();
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  EXPECT_THAT(answer, testing::EndsWith("done"));
}

TEST_F(Http, StoppingTellsHandlersOfOpenRequests) {
  start();
  Client client(server->port());
  client.send("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n");
  handler.hanging.get_future().wait();
  server->stop();
  EXPECT_EQ(handler.gone.get_future().wait_for(0s), std::future_status::ready);
}

TEST_F(Http, MailToAStoppedServerIsDropped) {
  start();
  Client client(server->port());
  client.send("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n");
  auto box = handler.hanging.get_future().get().lock()->mailbox();
  server.reset();
  box->mail([] { FAIL() << "ran"; });
}

TEST_F(Http, NamesAnAddressThatIsTaken) {
  start();
  HttpOptions options = quick();
  options.port = server->port();
  HttpServer second(options, handler);
  const auto started = second.start();
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.error().where, HasSubstr(std::to_string(options.port)));
}

}  // namespace
}  // namespace tessera::http
