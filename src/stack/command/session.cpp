#include "stack/command/session.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stack/object/next_command.h"
#include "stack/object/printable.h"

namespace tessera::stack {

namespace {

// With the plan that was named for this run, so that it can be pasted.
std::string with_plan(std::string command, const Session& session) {
  if (session.plan.empty() || command == session.typed) return command;
  constexpr std::string_view kOurs = "tessera-stack ";
  const std::string ours = std::string(kOurs) + "--plan " + shell_quoted(session.plan) + " ";
  for (std::size_t at = 0; at != std::string::npos && at < command.size();) {
    if (command.compare(at, kOurs.size(), kOurs) == 0 &&
        command.compare(at + kOurs.size(), 7, "--plan ") != 0)
      command.replace(at, kOurs.size(), ours);
    at = command.find(" && ", at);
    if (at != std::string::npos) at += 4;
  }
  return command;
}

std::string default_next(const Session& session, const Error& error) {
  const std::string plan =
      session.plan.empty() ? "stack.toml" : std::filesystem::path(session.plan).filename().string();
  const bool is_of_plan = error.where.starts_with("plan:") || error.where.starts_with(plan + ":");
  if (is_of_plan && error.kind != ErrorKind::kInternal) return "tessera-stack plan check";
  switch (error.kind) {
    case ErrorKind::kInternal:
      return "";
    case ErrorKind::kConflict:
    case ErrorKind::kIo:
    case ErrorKind::kUnavailable:
      return session.typed;
    default:
      return "tessera-stack " + session.verb + " --help";
  }
}

// The error with its next command; both halves.
std::pair<Error, std::string> completed(const Session& session, Error error) {
  SentenceAndNext halves = split_next(error.what);
  if (halves.next.empty()) halves.next = default_next(session, error);
  error.what = std::move(halves.sentence);
  return {std::move(error), with_plan(std::move(halves.next), session)};
}

std::string as_line(const Error& error, const std::string& next) {
  return printable(next.empty() ? error.message() : with_next(error.message(), next));
}

}  // namespace

Result<std::string> Session::plan_path() const {
  if (!plan.empty()) return plan;
  std::error_code failed;
  std::filesystem::path folder = std::filesystem::current_path(failed);
  std::string relative;
  while (!failed) {
    if (std::filesystem::exists(folder / "stack.toml", failed)) return relative + "stack.toml";
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
    relative += "../";
  }
  return Error{
      ErrorKind::kNotFound, "stack.toml",
      with_next("There is no plan here or in any folder above; init writes one, --plan names another",
                "tessera-stack init --repo REPO --base COMMIT --tree SOURCE")};
}

StageProgress Session::progress() const {
  if (!progress_line) return {};
  return [line = progress_line](std::string_view stage, std::uint64_t done, std::uint64_t total) {
    line->show(stage, done, total);
  };
}

void Session::say(std::string_view line) const {
  if (progress_line) progress_line->clear();
  if (!json && !quiet) out << line << '\n';
}

void Session::warn(std::string_view sentence) const {
  if (progress_line) progress_line->clear();
  err << "warning: " << printable(pasteable(sentence)) << '\n';
}

std::string Session::pasteable(std::string_view sentence) const {
  const SentenceAndNext halves = split_next(sentence);
  if (halves.next.empty()) return std::string(sentence);
  return with_next(halves.sentence, with_plan(halves.next, *this));
}

void Session::complain(const Error& error) const {
  if (progress_line) progress_line->clear();
  const auto [told, next] = completed(*this, error);
  err << "error: " << as_line(told, next) << '\n';
}

void Session::answer(std::string_view command, const nlohmann::ordered_json& body) const {
  if (!json) return;
  nlohmann::ordered_json whole{{"schema", 1}, {"command", command}};
  whole.update(body);
  out << whole.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

Exit exit_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kInternal:
      return Exit::kBug;
    case ErrorKind::kConflict:
      return Exit::kConflict;
    default:
      return Exit::kInput;
  }
}

Exit report(const Session& session, const Error& error) {
  session.complain(error);
  const auto [told, next] = completed(session, error);
  session.answer("error", {{"kind", name_of(told.kind)},
                           {"where", printable(told.where)},
                           {"what", printable(told.what)},
                           {"next", printable(next)}});
  return exit_of(error);
}

ProgressLine::ProgressLine(std::ostream& err, std::function<double()> seconds)
    : err_(err), seconds_(std::move(seconds)), started_(seconds_()) {}

void ProgressLine::clear() {
  if (is_shown_) err_ << "\r\x1b[K" << std::flush;
  is_shown_ = false;
}

void ProgressLine::show(std::string_view what, std::uint64_t done, std::uint64_t total) {
  if (total > 0 && done == total) return clear();
  const double now = seconds_();
  if (now - started_ < 1.0 || now - last_ < 0.2) return;
  last_ = now;
  is_shown_ = true;
  err_ << "\r\x1b[K" << printable(what);
  char text[64];
  if (total > 0) {
    std::snprintf(text, sizeof text, " %3.0f %%",
                  100.0 * static_cast<double>(done) / static_cast<double>(total));
  } else {
    std::snprintf(text, sizeof text, " %.0f MiB", static_cast<double>(done) / (1 << 20));
  }
  err_ << text << std::flush;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  std::vector<std::vector<std::string>> cells;
  for (const auto& row : rows) {
    std::vector<std::string>& shown = cells.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      shown.push_back(printable(row[i]));
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], shown[i].size());
    }
  }
  std::string out;
  for (const auto& row : cells) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    out += line + '\n';
  }
  return out;
}

void put_path(nlohmann::ordered_json& object, std::string_view path) {
  if (is_utf8(path))
    object["path"] = path;
  else
    object["path_bytes"] = percent_encoded(path);
}

}  // namespace tessera::stack
