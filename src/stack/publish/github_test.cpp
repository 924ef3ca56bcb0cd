// Against a small GitHub of our own, over real HTTP on a socket of this machine.
#include "stack/publish/github.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "stack/publish/pull_request.h"

namespace tessera::stack {
namespace {

struct Seen {
  std::string method, path, headers, body;
};

// Keeps pull requests in memory; one connection, one request at a time.
class FakeGitHub {
 public:
  FakeGitHub() {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeGitHub() {
    ::shutdown(listener_, SHUT_RDWR);
    ::close(listener_);
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::vector<Seen> seen;
  nlohmann::json pulls = nlohmann::json::array();
  std::vector<std::string> branches = {"main"};  // of the target repository
  int label_status = 403;
  int limited = 0;  // answer that many requests with 429 first

 private:
  void serve() {
    for (int connection; (connection = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(connection)) {
      std::string text;
      char buffer[4096];
      std::size_t head_end = std::string::npos, length = 0;
      while (head_end == std::string::npos || text.size() < head_end + 4 + length) {
        const ssize_t got = ::recv(connection, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        text.append(buffer, static_cast<std::size_t>(got));
        head_end = text.find("\r\n\r\n");
        const std::size_t at = text.find("Content-Length: ");
        if (head_end != std::string::npos && at < head_end) length = std::stoul(text.substr(at + 16));
        if (text.find("Expect: 100-continue") < head_end && text.size() == head_end + 4) {
          const std::string go = "HTTP/1.1 100 Continue\r\n\r\n";
          ::send(connection, go.data(), go.size(), MSG_NOSIGNAL);
        }
      }
      if (head_end == std::string::npos) continue;
      Seen request{.method = text.substr(0, text.find(' ')),
                   .path = {},
                   .headers = text.substr(0, head_end),
                   .body = text.substr(head_end + 4)};
      request.path = text.substr(request.method.size() + 1,
                                 text.find(' ', request.method.size() + 1) - request.method.size() - 1);
      std::string more;
      const auto [status, body] = answer(request, more);
      seen.push_back(std::move(request));
      const std::string out =
          "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" + more +
          "Connection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
      ::send(connection, out.data(), out.size(), MSG_NOSIGNAL);
    }
  }

  std::pair<int, std::string> answer(const Seen& request, std::string& headers) {
    if (limited > 0) {
      --limited;
      headers = "Retry-After: 7\r\n";
      return {429, R"({"message":"You have exceeded a secondary rate limit"})"};
    }
    const std::string pulls_path = "/repos/up/vllm/pulls";
    if (request.method == "GET" && request.path.starts_with(pulls_path + "?")) {
      nlohmann::json found = nlohmann::json::array();
      for (const auto& pull : pulls) {
        std::string head = pull["head"]["label"];
        head.replace(head.find(':'), 1, "%3A");
        std::replace(head.begin(), head.end(), '/', '\1');
        for (std::size_t at; (at = head.find('\1')) != std::string::npos;) head.replace(at, 1, "%2F");
        if (request.path.ends_with("head=" + head)) found.push_back(pull);
      }
      return {200, found.dump()};
    }
    if (request.method == "POST" && request.path == pulls_path) {
      nlohmann::json body = nlohmann::json::parse(request.body);
      if (std::find(branches.begin(), branches.end(), body["base"]) == branches.end()) {
        return {
            422,
            R"({"message":"Validation Failed","errors":[{"resource":"PullRequest","field":"base","code":"invalid"}]})"};
      }
      const std::string head = body["head"];
      nlohmann::json pull = {{"number", pulls.size() + 1},
                             {"state", "open"},
                             {"title", body["title"]},
                             {"body", body["body"]},
                             {"draft", body["draft"]},
                             {"html_url", "https://example.org/" + std::to_string(pulls.size() + 1)},
                             {"merged_at", nullptr},
                             {"head", {{"ref", head.substr(head.find(':') + 1)}, {"label", head}}}};
      pulls.push_back(pull);
      return {201, pull.dump()};
    }
    if (request.method == "PATCH") {
      auto& pull = pulls[std::stoul(request.path.substr(request.path.rfind('/') + 1)) - 1];
      pull.update(nlohmann::json::parse(request.body));
      return {200, pull.dump()};
    }
    if (request.path.ends_with("/labels")) return {label_status, R"({"message":"Must have admin rights"})"};
    return {404, R"({"message":"Not Found"})"};
  }

  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
};

constexpr const char* kToken = "ghp_secret0123456789";

struct Sender {
  explicit Sender(const FakeGitHub& server) {
    options = {.api = server.url(),
               .token = kToken,
               .owner = "up",
               .repository = "vllm",
               .head_owner = "me",
               .wait = [this](double seconds) { waited.push_back(seconds); },
               .log = [this](const std::string& line) { log += line + "\n"; }};
  }
  Result<SentDraft> send(const Draft& draft) {
    auto github = GitHub::open(client, options);
    if (!github) return github.error();
    return github->send(draft);
  }
  CurlClient client;
  GitHubOptions options;
  std::vector<double> waited;
  std::string log;
};

Draft small_draft(const std::string& inner = "v1") {
  return {
      .topic = "demo/fp8",
      .branch = "t/fp8",
      .title = "[Kernel] FP8",
      .body = "Purpose\n" + std::string(kStackBegin) + "\n" + inner + "\n" + std::string(kStackEnd) + "\n"};
}

TEST(GitHub, CreatesADraftOnceAndFindsItAgainByItsHead) {
  FakeGitHub server;
  Sender sender(server);
  const auto first = sender.send(small_draft());
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->outcome, SendOutcome::kCreated);
  const auto second = sender.send(small_draft());
  EXPECT_EQ(second->outcome, SendOutcome::kUnchanged);
  EXPECT_EQ(second->number, first->number);
  EXPECT_EQ(server.pulls.size(), 1U);
  EXPECT_EQ(server.pulls[0]["draft"], true);
  EXPECT_EQ(server.pulls[0]["head"]["label"], "me:t/fp8");
}

TEST(GitHub, ChangesOnlyTheTextBetweenTheMarkers) {
  FakeGitHub server;
  Sender sender(server);
  ASSERT_TRUE(sender.send(small_draft()));
  server.pulls[0]["title"] = "People's title";
  server.pulls[0]["body"] =
      "People's words\n" + std::string(kStackBegin) + "\nv1\n" + std::string(kStackEnd) + "\nPS\n";
  EXPECT_EQ(sender.send(small_draft("v2"))->outcome, SendOutcome::kUpdated);
  EXPECT_EQ(server.pulls[0]["body"],
            "People's words\n" + std::string(kStackBegin) + "\nv2\n" + std::string(kStackEnd) + "\nPS\n");
  EXPECT_EQ(server.pulls[0]["title"], "People's title");
}

TEST(GitHub, SurvivesAForbiddenLabel) {
  FakeGitHub server;
  Sender sender(server);
  Draft draft = small_draft();
  draft.labels = {"performance"};
  const auto sent = sender.send(draft);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->outcome, SendOutcome::kCreated);
  ASSERT_EQ(sent->warnings.size(), 1U);
  EXPECT_NE(sent->warnings[0].find("403"), std::string::npos);
}

TEST(GitHub, BaseThatIsNoBranchOfTheTargetIsExplained) {
  FakeGitHub server;
  Sender sender(server);
  sender.options.base = "t/below";
  const auto sent = sender.send(small_draft());
  ASSERT_FALSE(sent);
  EXPECT_NE(sent.error().what.find("Stacks do not cross forks"), std::string::npos) << sent.error().message();
}

TEST(GitHub, WaitsAsLongAsItIsAsked) {
  FakeGitHub server;
  server.limited = 2;
  Sender sender(server);
  ASSERT_TRUE(sender.send(small_draft()));
  EXPECT_EQ(std::count(sender.waited.begin(), sender.waited.end(), 7.0), 2);
  EXPECT_EQ(server.pulls.size(), 1U);
}

TEST(GitHub, MergedAndClosedOnesAreLeftAlone) {
  FakeGitHub server;
  Sender sender(server);
  ASSERT_TRUE(sender.send(small_draft()));
  server.pulls[0]["state"] = "closed";
  EXPECT_EQ(sender.send(small_draft("v2"))->outcome, SendOutcome::kClosed);
  server.pulls[0]["merged_at"] = "2026-01-01T00:00:00Z";
  EXPECT_EQ(sender.send(small_draft("v3"))->outcome, SendOutcome::kMerged);
  EXPECT_EQ(server.pulls.size(), 1U);
}

TEST(GitHub, TokenIsSentAndNeverLogged) {
  FakeGitHub server;
  Sender sender(server);
  sender.options.base = "none";
  const auto sent = sender.send(small_draft());
  EXPECT_NE(server.seen[0].headers.find(kToken), std::string::npos);
  EXPECT_EQ(sender.log.find(kToken), std::string::npos);
  EXPECT_EQ(sent.error().message().find(kToken), std::string::npos);
  for (const Seen& request : server.seen)
    EXPECT_EQ((request.path + request.body).find(kToken), std::string::npos);
}

TEST(GitHub, TokenThatCouldForgeAHeaderIsRefused) {
  FakeGitHub server;
  Sender sender(server);
  sender.options.token = "x\r\nX-Evil: 1";
  EXPECT_EQ(sender.send(small_draft()).error().kind, ErrorKind::kInvalidArgument);
  sender.options.token = "";
  EXPECT_EQ(sender.send(small_draft()).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_TRUE(server.seen.empty());
}

TEST(Http, ServerThatIsGoneIsAnErrorWithItsAddress) {
  CurlClient client;
  const auto answer = client.send({.url = "http://127.0.0.1:9/x"});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().where, "http://127.0.0.1:9/x");
  EXPECT_FALSE(client.send({.url = "file:///etc/passwd"}));
}

}  // namespace
}  // namespace tessera::stack
