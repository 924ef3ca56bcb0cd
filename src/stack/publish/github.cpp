#include "stack/publish/github.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "stack/object/checked_json.h"
#include "stack/object/printable.h"
#include "stack/publish/pull_request.h"

namespace tessera::stack {
namespace {

constexpr int kAttempts = 4;
constexpr double kLongestWait = 300;     // seconds; a longer Retry-After is an error that says so
constexpr double kBetweenChanges = 1.0;  // GitHub asks for a second between requests that create content

std::string url_escaped(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
    if (safe) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

// What GitHub says went wrong: its message and the messages of its list of errors.
std::string reason_in(const std::string& body) {
  const auto json = parse_json(body, "answer");
  if (!json) return "it gave no reason";
  std::string out = json_string(*json, "message");
  const nlohmann::json& errors = json_field(*json, "errors");
  if (errors.is_array()) {
    for (const nlohmann::json& error : errors) {
      std::string text = json_string(error, "message");
      if (text.empty()) text = json_string(error, "field") + " " + json_string(error, "code");
      out += "; " + text;
    }
  }
  return printable(out);
}

double number_or(const std::map<std::string, std::string>& headers, const char* name, double otherwise) {
  const auto found = headers.find(name);
  if (found == headers.end()) return otherwise;
  double value = 0;
  const auto [end, status] =
      std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return status == std::errc() ? value : otherwise;
}

Error failed(const std::string& topic, int status, const std::string& body) {
  const ErrorKind kind = status == 401 || status == 403 ? ErrorKind::kIo
                         : status == 404                ? ErrorKind::kNotFound
                                                        : ErrorKind::kConflict;
  return Error{kind, printable(topic),
               "GitHub answered " + std::to_string(status) + ": " + reason_in(body) + "."};
}

}  // namespace

std::string_view name_of(SendOutcome outcome) {
  switch (outcome) {
    case SendOutcome::kCreated:
      return "created";
    case SendOutcome::kUpdated:
      return "updated";
    case SendOutcome::kUnchanged:
      return "unchanged";
    case SendOutcome::kMerged:
      return "merged";
    case SendOutcome::kClosed:
      return "closed";
  }
  return "unknown";
}

Result<GitHub> GitHub::open(HttpClient& client, GitHubOptions options) {
  if (options.token.empty()) {
    return Error{ErrorKind::kInvalidArgument, "token",
                 "There is none; put it into the environment variable GITHUB_TOKEN."};
  }
  const bool plain_token =
      std::all_of(options.token.begin(), options.token.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!plain_token) {
    return Error{ErrorKind::kInvalidArgument, "token",
                 "It holds blanks, line ends or other characters that no token has."};
  }
  if (options.owner.empty() || options.repository.empty() || options.head_owner.empty()) {
    return Error{ErrorKind::kInvalidArgument, "repository",
                 "Name the target as OWNER/NAME and the owner of the fork that holds the branches."};
  }
  return GitHub(client, std::move(options));
}

std::string GitHub::repository_path() const {
  return "/repos/" + url_escaped(options_.owner) + "/" + url_escaped(options_.repository);
}

Result<HttpResponse> GitHub::call(const std::string& method, const std::string& path,
                                  const std::string& body) {
  HttpRequest request{.method = method, .url = options_.api + path, .body = body};
  request.headers = {"Accept: application/vnd.github+json", "X-GitHub-Api-Version: 2022-11-28",
                     "Authorization: Bearer " + options_.token, "Content-Type: application/json"};
  for (int attempt = 1;; ++attempt) {
    if (method != "GET" && options_.wait) options_.wait(kBetweenChanges);
    TS_TRY(HttpResponse response, client_->send(request));
    if (options_.log) options_.log(method + ' ' + printable(path) + ": " + std::to_string(response.status));
    // 403 with Retry-After is the secondary limit; without it, a right that we do not have.
    const bool limited =
        response.status == 429 || (response.status == 403 && response.headers.contains("retry-after"));
    const bool broken = response.status >= 500 && response.status != 501;
    if (!(limited || broken) || attempt == kAttempts) return response;
    // A create that failed with 5xx may have happened: the caller finds it by its head on the next run, so it
    // is not repeated here.
    if (broken && method == "POST") return response;
    const double seconds = number_or(response.headers, "retry-after", limited ? 60.0 : 2.0 * attempt);
    if (seconds > kLongestWait) {
      return Error{ErrorKind::kUnavailable, printable(path),
                   "GitHub asks to wait " + std::to_string(static_cast<long>(seconds)) +
                       " seconds; run it again then, nothing is sent twice."};
    }
    if (options_.wait) options_.wait(seconds);
  }
}

Result<SentDraft> GitHub::send(const Draft& draft) {
  const std::string head = options_.head_owner + ':' + draft.branch;
  TS_TRY(const HttpResponse found,
         call("GET", repository_path() + "/pulls?state=all&per_page=100&head=" + url_escaped(head), ""));
  if (found.status != 200) return failed(draft.topic, found.status, found.body);
  TS_TRY(const nlohmann::json pulls, parse_json(found.body, printable(draft.topic)));
  if (!pulls.is_array())
    return Error{ErrorKind::kCorrupt, printable(draft.topic), "GitHub's list of pull requests is none."};
  const nlohmann::json* chosen = nullptr;
  for (const nlohmann::json& pull : pulls) {
    // The filter is the server's; a wrong one must not make us edit somebody else's request.
    const nlohmann::json& pull_head = json_field(pull, "head");
    if (json_string(pull_head, "ref") != draft.branch) continue;
    const std::string label = json_string(pull_head, "label");
    if (!label.empty() && label != head) continue;
    const bool open = json_string(pull, "state") == "open";
    if (chosen == nullptr || open) chosen = &pull;
    if (open) break;
  }
  if (chosen == nullptr) return create(draft);
  const auto number = static_cast<std::int64_t>(json_count(*chosen, "number").value_or(0));
  const std::string url = json_string(*chosen, "html_url");
  if (json_string(*chosen, "state") == "open")
    return update(draft, number, url, json_string(*chosen, "body"));
  const bool merged = json_field(*chosen, "merged_at").is_string();
  return SentDraft{
      .outcome = merged ? SendOutcome::kMerged : SendOutcome::kClosed, .number = number, .url = url};
}

Result<SentDraft> GitHub::create(const Draft& draft) {
  const nlohmann::json body = {{"title", draft.title},  {"head", options_.head_owner + ':' + draft.branch},
                               {"base", options_.base}, {"body", draft.body},
                               {"draft", true},         {"maintainer_can_modify", true}};
  TS_TRY(const HttpResponse made, call("POST", repository_path() + "/pulls",
                                       body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  if (made.status == 422) {
    const std::string reason = reason_in(made.body);
    if (reason.find("base") != std::string::npos) {
      return Error{ErrorKind::kInvalidArgument, printable(draft.topic),
                   "GitHub refuses the base \"" + printable(options_.base) + "\" (" + reason +
                       "): it must be a branch of " + printable(options_.owner + "/" + options_.repository) +
                       " itself. Stacks do not cross forks; send it against that repository's main branch, "
                       "cumulative if it needs others."};
    }
    if (reason.find("head") != std::string::npos) {
      return Error{ErrorKind::kNotFound, printable(draft.topic),
                   "GitHub does not know the branch " + printable(options_.head_owner + ":" + draft.branch) +
                       " (" + reason + "); push it first: git push <your fork> " + printable(draft.branch) +
                       "."};
    }
    return Error{ErrorKind::kConflict, printable(draft.topic), "GitHub answered 422: " + reason + "."};
  }
  if (made.status != 201) return failed(draft.topic, made.status, made.body);
  TS_TRY(const nlohmann::json json, parse_json(made.body, printable(draft.topic)));
  SentDraft sent{.outcome = SendOutcome::kCreated,
                 .number = static_cast<std::int64_t>(json_count(json, "number").value_or(0)),
                 .url = json_string(json, "html_url")};
  set_labels(draft, sent);
  return sent;
}

Result<SentDraft> GitHub::update(const Draft& draft, std::int64_t number, const std::string& url,
                                 const std::string& body) {
  SentDraft sent{.outcome = SendOutcome::kUnchanged, .number = number, .url = url};
  const std::string merged = merge_body(body, draft.body);
  if (merged == body) return sent;
  const nlohmann::json change = {{"body", merged}};
  TS_TRY(const HttpResponse made,
         call("PATCH", repository_path() + "/pulls/" + std::to_string(number),
              change.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  if (made.status != 200) return failed(draft.topic, made.status, made.body);
  sent.outcome = SendOutcome::kUpdated;
  return sent;
}

void GitHub::set_labels(const Draft& draft, SentDraft& sent) {
  if (draft.labels.empty()) return;
  const nlohmann::json body = {{"labels", draft.labels}};
  const auto made = call("POST", repository_path() + "/issues/" + std::to_string(sent.number) + "/labels",
                         body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  // Setting labels needs a right that contributors seldom have; the draft stands without them.
  if (!made) {
    sent.warnings.push_back(made.error().message());
  } else if (made->status != 200) {
    sent.warnings.push_back("The labels were not set: GitHub answered " + std::to_string(made->status) + ".");
  }
}

}  // namespace tessera::stack
