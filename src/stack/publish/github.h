// Draft pull requests on GitHub: each is created once, found again by its head branch, and changed only
// between our markers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/publish/http.h"

namespace tessera::stack {

struct GitHubOptions {
  std::string api = "https://api.github.com";
  std::string token;  // from the environment; never printed, never stored
  std::string owner;  // of the target repository
  std::string repository;
  std::string head_owner;                         // of the fork that holds the branches
  std::string base = "main";                      // must be a branch of the target repository
  std::function<void(double seconds)> wait;       // a test passes one that only counts
  std::function<void(const std::string&)> log{};  // "POST /repos/…: 201"; never a header
};

struct Draft {
  std::string topic;   // "<plan>/<bucket>", for messages
  std::string branch;  // in the fork
  std::string title;
  std::string body;
  std::vector<std::string> labels{};
};

enum class SendOutcome {
  kCreated,
  kUpdated,  // the part between the markers changed
  kUnchanged,
  kMerged,  // by its head branch; nothing is done
  kClosed,  // by somebody; it is not opened again behind their back
};
std::string_view name_of(SendOutcome outcome);

struct SentDraft {
  SendOutcome outcome = SendOutcome::kUnchanged;
  std::int64_t number = 0;
  std::string url;
  std::vector<std::string> warnings{};  // full sentences: a label that could not be set
};

class GitHub {
 public:
  // Both are borrowed. Refuses a token with line ends, which would forge headers.
  static Result<GitHub> open(HttpClient& client, GitHubOptions options);
  Result<SentDraft> send(const Draft& draft);

 private:
  GitHub(HttpClient& client, GitHubOptions options) : client_(&client), options_(std::move(options)) {}
  Result<HttpResponse> call(const std::string& method, const std::string& path, const std::string& body);
  Result<SentDraft> create(const Draft& draft);
  Result<SentDraft> update(const Draft& draft, std::int64_t number, const std::string& url,
                           const std::string& body);
  void set_labels(const Draft& draft, SentDraft& sent);
  std::string repository_path() const;

  HttpClient* client_;
  GitHubOptions options_;
};

}  // namespace tessera::stack
