#include "bench/load/replay_trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

namespace tessera::bench {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostTokens = 10'000'000;
constexpr double kMostSeconds = 1e7;

// Reads one line's fields and remembers the first that is wrong.
class Line {
 public:
  Line(const json& fields, std::string where) : fields_(fields), where_(std::move(where)) {}

  std::int64_t tokens(const char* key, std::int64_t least, std::int64_t otherwise) {
    if (!fields_.contains(key)) {
      if (otherwise < least) refuse(key, "is missing.");
      return otherwise;
    }
    const json& field = fields_[key];
    if (!field.is_number_integer()) {
      refuse(key, "is no whole number.");
      return least;
    }
    const auto value = field.get<std::int64_t>();
    if (value < least || value > kMostTokens) {
      refuse(key, "is " + std::to_string(value) + "; it must be from " + std::to_string(least) + " to " +
                      std::to_string(kMostTokens) + ".");
      return least;
    }
    return value;
  }

  double seconds(const char* key) {
    if (!fields_.contains(key)) return 0;
    const json& field = fields_[key];
    const double value = field.is_number() ? field.get<double>() : -1;
    if (!(value >= 0 && value <= kMostSeconds)) refuse(key, "is no number of seconds from 0 to 10,000,000.");
    return value;
  }

  void refuse(const std::string& key, const std::string& what) {
    if (!error_) error_ = Error{ErrorKind::kCorrupt, where_, "'" + key + "' " + what};
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const json& fields_;
  std::string where_;
  std::optional<Error> error_;
};

}  // namespace

std::int64_t TraceSession::longest() const {
  std::int64_t tokens = prefix_tokens;
  for (const TraceTurn& turn : turns) tokens += turn.new_tokens + turn.output_tokens;
  return tokens;
}

Result<ReplayTrace> parse_trace(std::string_view text, const std::string& where) {
  ReplayTrace trace;
  std::map<std::int64_t, std::size_t> place;  // of a session's id
  std::size_t number = 0;
  bool has_head = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string here = where + ":" + std::to_string(number);
    const json fields = json::parse(line, nullptr, false);
    if (!fields.is_object()) return Error{ErrorKind::kCorrupt, here, "The line is no JSON object."};
    if (!has_head) {
      if (!fields.contains("tessera_trace") || fields["tessera_trace"] != 1)
        return Error{ErrorKind::kUnsupported, here, "A trace begins with a line {\"tessera_trace\": 1, …}."};
      has_head = true;
      if (fields.contains("name") && fields["name"].is_string()) trace.name = fields["name"];
      if (fields.contains("about") && fields["about"].is_string()) trace.about = fields["about"];
      continue;
    }
    Line in(fields, here);
    const std::int64_t id = in.tokens("session", 0, -1);
    if (in.error()) return *in.error();
    const auto [found, is_new] = place.emplace(id, trace.sessions.size());
    if (is_new) {
      TraceSession session{.at_s = in.seconds("at_s"), .prefix_tokens = in.tokens("prefix_tokens", 0, 0)};
      if (fields.contains("prefix") && fields["prefix"].is_string()) session.prefix = fields["prefix"];
      if (session.prefix.empty() && session.prefix_tokens > 0)
        in.refuse("prefix", "is missing: which prefix has these tokens?");
      trace.sessions.push_back(std::move(session));
    } else {
      for (const char* key : {"at_s", "prefix", "prefix_tokens"}) {
        if (fields.contains(key)) in.refuse(key, "belongs to a session's first line alone.");
      }
    }
    TraceSession& session = trace.sessions[found->second];
    session.turns.push_back(
        {.wait_s = in.seconds("wait_s"),
         .new_tokens = in.tokens("new_tokens", is_new && session.prefix_tokens == 0 ? 1 : 0, -1),
         .output_tokens = in.tokens("output_tokens", 1, -1)});
    if (session.longest() > kMostTokens)
      in.refuse("new_tokens", "makes the session longer than 10,000,000 tokens.");
    if (in.error()) return *in.error();
  }
  if (trace.sessions.empty()) return Error{ErrorKind::kCorrupt, where, "The trace has no requests."};
  std::ranges::stable_sort(trace.sessions, {}, &TraceSession::at_s);
  return trace;
}

ReplayTrace arrivals(const ArrivalPlan& plan) {
  ReplayTrace trace{.name = "arrivals", .about = {}, .sessions = {}};
  std::mt19937_64 random(plan.seed);
  std::gamma_distribution<double> gap(plan.burstiness, 1 / (plan.requests_per_s * plan.burstiness));
  double at = 0;
  for (std::int32_t i = 0; i < plan.requests; ++i) {
    trace.sessions.push_back(
        {.at_s = at,
         .prefix = {},
         .turns = {{.new_tokens = plan.prompt_tokens, .output_tokens = plan.output_tokens}}});
    at += gap(random);
  }
  return trace;
}

}  // namespace tessera::bench
