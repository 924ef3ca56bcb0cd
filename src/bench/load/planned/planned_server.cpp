#include "bench/load/planned/planned_server.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

namespace tessera::bench {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr std::array<const char*, 64> kWords = {
    "the",   "sea",    "wind",    "over",  "hill",  "stone", "river", "light",  "under",   "house",
    "bread", "window", "long",    "road",  "green", "field", "early", "frost",  "iron",    "gate",
    "paper", "lamp",   "quiet",   "water", "north", "star",  "cloud", "apple",  "tree",    "cold",
    "night", "clear",  "song",    "horse", "small", "town",  "white", "sail",   "harbour", "rope",
    "salt",  "bell",   "tower",   "glass", "red",   "brick", "smoke", "winter", "first",   "snow",
    "bird",  "wing",   "feather", "ash",   "oak",   "deep",  "well",  "bright", "morning", "dew",
    "grass", "path",   "bridge",  "mill"};

// A word for the n-th token of a request: looks random, and is the same each time.
const char* word(std::uint64_t request, std::int64_t n) {
  std::uint64_t x = request * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(n) * 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 31;
  x *= 0x94D049BB133111EBULL;
  return kWords[(x >> 33) % kWords.size()];
}

struct Session : std::enable_shared_from_this<Session> {
  explicit Session(asio::io_context& context) : socket(context) {}
  tcp::socket socket;
  std::string input;
  std::array<char, 16384> buffer{};
  std::string outbox, flying;
  bool writing = false;
  bool closing = false;  // once all is written
  bool gone = false;     // the client has left

  void write(std::string_view bytes) {
    outbox += bytes;
    if (!writing) flush();
  }
  void flush() {
    if (outbox.empty()) {
      writing = false;
      if (closing) {
        boost::system::error_code ignored;
        socket.shutdown(tcp::socket::shutdown_both, ignored);
        socket.close(ignored);
      }
      return;
    }
    writing = true;
    flying.swap(outbox);
    outbox.clear();
    asio::async_write(socket, asio::buffer(flying),
                      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                        if (!error) self->flush();
                      });
  }
  void answer(int status, const std::string& body) {
    closing = true;
    write("HTTP/1.1 " + std::to_string(status) +
          " X\r\nContent-Type: application/json\r\nConnection: close\r\n" +
          "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  void chunk(const std::string& bytes) {
    std::array<char, 16> size;
    std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
    write(size.data() + bytes + "\r\n");
  }
};

struct Request {
  std::shared_ptr<Session> session;
  std::uint64_t id = 0;
  std::int64_t prompt = 0;
  std::int64_t max_tokens = 16;
  std::int64_t generated = 0;
};

}  // namespace

class PlannedServer::Impl {
 public:
  explicit Impl(const ServerScript& script)
      : script_(script),
        acceptor_(context_, {asio::ip::address_v4::loopback(), 0}),
        step_timer_(context_),
        prefill_timer_(context_) {
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }
  ~Impl() {
    context_.stop();
    thread_.join();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void accept() {
    auto session = std::make_shared<Session>(context_);
    acceptor_.async_accept(session->socket, [this, session](const boost::system::error_code& error) {
      if (error) return;
      session->socket.set_option(tcp::no_delay(true));
      read(session);
      accept();
    });
  }

  // Also after the request: the end of the client's stream is how a cancelled request is noticed.
  void read(const std::shared_ptr<Session>& session) {
    session->socket.async_read_some(
        asio::buffer(session->buffer),
        [this, session](const boost::system::error_code& error, std::size_t bytes) {
          if (error) return leave(*session);
          session->input.append(session->buffer.data(), bytes);
          take_request(session);
          read(session);
        });
  }

  void take_request(const std::shared_ptr<Session>& session) {
    const std::size_t head = session->input.find("\r\n\r\n");
    if (head == std::string::npos) return;
    const std::size_t at = session->input.find("Content-Length: ");
    const std::size_t length = at < head ? std::stoul(session->input.substr(at + 16, 12)) : 0;
    if (session->input.size() < head + 4 + length) return;
    const std::string path = session->input.substr(
        session->input.find(' ') + 1, session->input.find(" HTTP") - session->input.find(' ') - 1);
    const std::string body = session->input.substr(head + 4, length);
    session->input.clear();
    handle(session, path, body);
  }

  void handle(const std::shared_ptr<Session>& session, const std::string& path, const std::string& body) {
    if (path == "/v1/models") {
      return session->answer(200, R"({"data":[{"id":"planned","max_model_len":)" +
                                      std::to_string(script_.max_model_len) + "}]}");
    }
    if (path == "/metrics") return session->answer(200, metrics());
    if (path == "/tokenize") {
      const auto json = nlohmann::json::parse(body);
      const std::string text = json.at("prompt");
      nlohmann::json tokens = nlohmann::json::array();
      for (std::size_t i = text.find_first_not_of(" \n"); i != std::string::npos;) {
        const std::size_t end = text.find_first_of(" \n", i);
        tokens.push_back(std::hash<std::string>()(text.substr(i, end - i)) % 50000);
        i = end == std::string::npos ? end : text.find_first_not_of(" \n", end);
      }
      return session->answer(200, nlohmann::json{{"count", tokens.size()}, {"tokens", tokens}}.dump());
    }
    if (path != "/v1/completions") return session->answer(404, R"({"error":{"message":"no such path"}})");
    const auto json = nlohmann::json::parse(body);
    Request request{.session = session,
                    .id = next_id_++,
                    .prompt = static_cast<std::int64_t>(json.at("prompt").size()),
                    .max_tokens = json.value("max_tokens", std::int64_t{16})};
    if (request.prompt + request.max_tokens > script_.max_model_len)
      return session->answer(400, R"({"error":{"message":"longer than the model's context"}})");
    if (!first_) first_ = Clock::now();
    session->write(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: "
        "chunked\r\n\r\n");
    waiting_.push_back(std::move(request));
    admit();
  }

  // One prefill at a time; a request that is done with it joins the next step.
  void admit() {
    if (prefilling_ || waiting_.empty() || static_cast<std::int32_t>(running_.size()) >= script_.most_running)
      return;
    prefilling_ = true;
    const double seconds = static_cast<double>(waiting_.front().prompt) / script_.prefill_tokens_per_s;
    Request request = std::move(waiting_.front());
    waiting_.pop_front();
    prefill_timer_.expires_after(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
    prefill_timer_.async_wait([this, seconds, request](const boost::system::error_code&) mutable {
      prefilling_ = false;
      prefill_seconds_ += seconds;
      ++prefills_;
      // The prefill gives the first token.
      if (!request.session->gone && !emit(request, 1)) {
        running_.push_back(std::move(request));
        if (running_.size() == 1) {
          next_step_ = Clock::now();
          step();
        }
      }
      admit();
    });
  }

  // Steps keep to their timetable: a late one does not push those after it.
  void step() {
    const bool cold = Clock::now() - *first_ < std::chrono::duration<double>(script_.cold_s);
    const double ms =
        (script_.step_ms + script_.step_ms_each * static_cast<double>(running_.size() - 1)) * (cold ? 3 : 1);
    next_step_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
    step_timer_.expires_at(next_step_);
    step_timer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      std::erase_if(running_,
                    [this](Request& r) { return r.session->gone || emit(r, script_.tokens_per_step); });
      if (script_.tokens_per_step > 1) {
        drafts_ += running_.size();
        accepted_ += running_.size() * static_cast<std::size_t>(script_.tokens_per_step - 1);
      }
      admit();
      if (!running_.empty()) step();
    });
  }

  // True when the request is over.
  bool emit(Request& request, std::int64_t tokens) {
    const std::int64_t most =
        script_.ends_after > 0 ? std::min(script_.ends_after, request.max_tokens) : request.max_tokens;
    tokens = std::min(tokens, most - request.generated);
    std::string text;
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t n = request.generated++;
      text += script_.loops ? (n % 2 == 0 ? "yes" : "no") : word(request.id, n);
      text += ' ';
    }
    generated_ += tokens;
    const bool over = request.generated >= most;
    const char* reason = !over ? "null" : most < request.max_tokens ? "\"stop\"" : "\"length\"";
    std::string usage;
    if (script_.counts_as_it_goes || over) {
      usage = R"(,"usage":{"prompt_tokens":)" + std::to_string(request.prompt + script_.miscounts_prompt_by) +
              R"(,"completion_tokens":)" + std::to_string(request.generated) +
              R"(,"prompt_tokens_details":{"cached_tokens":)" +
              std::to_string(script_.caches_prefixes ? request.prompt / 2 : 0) + "}}";
    }
    request.session->chunk(
        "data: {\"id\":\"cmpl-0123456789\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":"
        "\"planned\",\"choices\":[{\"index\":0,\"text\":\"" +
        text + "\",\"logprobs\":null,\"finish_reason\":" + reason + ",\"stop_reason\":null}]" + usage +
        "}\n\n");
    if (over) {
      request.session->closing = true;
      request.session->chunk("data: [DONE]\n\n");
      request.session->write("0\r\n\r\n");
    }
    return over;
  }

  void leave(Session& session) {
    boost::system::error_code ignored;
    session.socket.close(ignored);
    session.gone = true;
    const auto is_gone = [](const Request& r) { return r.session->gone; };
    std::erase_if(waiting_, is_gone);
    std::erase_if(running_, is_gone);
    if (running_.empty()) step_timer_.cancel();
    admit();
  }

  std::string metrics() const {
    std::string out;
    const auto line = [&](const std::string& name, double value) {
      out += name + ' ' + std::to_string(value) + '\n';
    };
    line("vllm:num_requests_running", static_cast<double>(running_.size()));
    line("vllm:num_requests_waiting", static_cast<double>(waiting_.size() + (prefilling_ ? 1 : 0)));
    line("vllm:request_prefill_time_seconds_sum", prefill_seconds_);
    line("vllm:request_prefill_time_seconds_count", static_cast<double>(prefills_));
    line("vllm:generation_tokens_total", static_cast<double>(generated_));
    if (script_.tokens_per_step > 1) {
      line("vllm:spec_decode_num_drafts_total", static_cast<double>(drafts_));
      line("vllm:spec_decode_num_draft_tokens_total", static_cast<double>(4 * drafts_));
      line("vllm:spec_decode_num_accepted_tokens_total", static_cast<double>(accepted_));
    }
    if (script_.kv_tokens > 0) {
      line("vllm:cache_config_info{block_size=\"64\",num_gpu_blocks=\"" +
               std::to_string(script_.kv_tokens / 64) + "\"}",
           1);
    }
    return out;
  }

  const ServerScript script_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer step_timer_, prefill_timer_;
  std::deque<Request> waiting_;
  std::vector<Request> running_;
  bool prefilling_ = false;
  std::optional<Clock::time_point> first_;
  Clock::time_point next_step_;
  std::uint64_t next_id_ = 1;
  double prefill_seconds_ = 0;
  std::int64_t prefills_ = 0, generated_ = 0;
  std::size_t drafts_ = 0, accepted_ = 0;
  std::thread thread_;
};

PlannedServer::PlannedServer(const ServerScript& script) : impl_(std::make_unique<Impl>(script)) {}
PlannedServer::~PlannedServer() = default;

std::string PlannedServer::url() const { return "http://127.0.0.1:" + std::to_string(impl_->port()); }

}  // namespace tessera::bench
