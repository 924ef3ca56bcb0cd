#include "stack/publish/series.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"
#include "stack/patch/patch_writer.h"

namespace tessera::stack {
namespace {

constexpr std::string_view kTopicTrailer = "\nTessera-Topic: ";

std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

std::string body_of(const std::string& message) {
  const std::size_t end = message.find('\n');
  if (end == std::string::npos) return {};
  const std::size_t start = message.find_first_not_of('\n', end);
  return start == std::string::npos ? std::string() : message.substr(start);
}

// Letters, digits and dashes: the only characters that every mail program and quilt take in a file name.
std::string file_name(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool word =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    if (word) {
      out += c;
    } else if (!out.empty() && !out.ends_with('-')) {
      out += '-';
    }
    if (out.size() >= 60) break;
  }
  while (out.ends_with('-') || out.ends_with('.')) out.pop_back();
  return out.empty() ? "patch" : out;
}

std::string name_of_topic(const std::string& message) {
  const std::size_t at = message.rfind(kTopicTrailer);
  if (at == std::string::npos) return file_name(first_line(message));
  const std::string value =
      message.substr(at + kTopicTrailer.size(), message.find('\n', at + 1) - at - kTopicTrailer.size());
  return file_name(value.substr(value.rfind('/') + 1));
}

std::string mail_date(const Signature& author) {
  const std::time_t local = static_cast<std::time_t>(author.seconds + author.offset_minutes * 60);
  std::tm parts{};
  gmtime_r(&local, &parts);
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::array<char, 64> text;
  const int offset = std::abs(author.offset_minutes);
  std::snprintf(text.data(), text.size(), "%s, %d %s %d %02d:%02d:%02d %c%02d%02d",
                kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour,
                parts.tm_min, parts.tm_sec, author.offset_minutes < 0 ? '-' : '+', offset / 60, offset % 60);
  return text.data();
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80 && c != '\n'; });
}

// RFC 2047, words of at most 75 characters, never cut inside a character.
std::string encoded(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "=?UTF-8?q?";
  std::size_t word = out.size();
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    std::string piece;
    for (; at < end; ++at) {
      const char c = text[at];
      const bool safe =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
      const auto byte = static_cast<unsigned char>(c);
      if (safe) {
        piece += c;
      } else {
        piece += {'=', kDigits[byte >> 4], kDigits[byte & 15]};
      }
    }
    if (word + piece.size() > 70) {
      out += "?=\n =?UTF-8?q?";
      word = 11;
    }
    out += piece;
    word += piece.size();
  }
  return out + "?=";
}

std::string mail_name(const std::string& name) {
  if (!is_ascii(name)) return encoded(name);
  if (name.find_first_of("()<>[]:;@\\,.\"") == std::string::npos) return name;
  std::string out = "\"";
  for (const char c : name) out += (c == '"' || c == '\\' ? std::string("\\") : std::string()) + c;
  return out + '"';
}

// The lines of a message at which `git am` would believe that the diff begins get a blank in front.
std::string message_for_mail(const std::string& body) {
  std::string out;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = std::min(body.find('\n', at), body.size());
    const std::string line = body.substr(at, end - at);
    if (line == "---" || line.starts_with("--- ") || line.starts_with("diff -") ||
        line.starts_with("Index: "))
      out += ' ';
    out += line + '\n';
    at = end + 1;
  }
  return out;
}

struct Side {
  std::string bytes{};
  std::optional<PathState> state{};
};

Result<void> load(const Repository& repository, const TreeEntry* entry, Side& side) {
  if (entry == nullptr) return {};
  if (entry->unreadable) return Error{ErrorKind::kNotFound, printable(entry->path), *entry->unreadable};
  if (entry->mode != FileMode::kGitlink) {
    TS_TRY(side.bytes, repository.read(entry->oid));
  }
  side.state = PathState{.mode = entry->mode, .oid = entry->oid, .bytes = side.bytes};
  return {};
}

using OnPath = std::function<Result<void>(const std::string& path, const Side& before, const Side& after)>;

Result<void> each_difference(const Repository& repository, const Oid& before, const Oid& after,
                             const OnPath& on_path) {
  TS_TRY(const Tree old_tree, repository.read_tree(before));
  TS_TRY(const Tree new_tree, repository.read_tree(after));
  auto a = old_tree.entries.begin();
  auto b = new_tree.entries.begin();
  while (a != old_tree.entries.end() || b != new_tree.entries.end()) {
    const bool only_old = b == new_tree.entries.end() || (a != old_tree.entries.end() && a->path < b->path);
    const bool only_new = a == old_tree.entries.end() || (b != new_tree.entries.end() && b->path < a->path);
    const TreeEntry* old_entry = only_new ? nullptr : &*a++;
    const TreeEntry* new_entry = only_old ? nullptr : &*b++;
    if (old_entry != nullptr && new_entry != nullptr && old_entry->mode == new_entry->mode &&
        old_entry->oid == new_entry->oid)
      continue;
    Side old_side, new_side;
    TS_TRY(load(repository, old_entry, old_side));
    TS_TRY(load(repository, new_entry, new_side));
    TS_TRY(on_path(old_entry != nullptr ? old_entry->path : new_entry->path, old_side, new_side));
  }
  return {};
}

}  // namespace

Result<std::vector<SeriesPatch>> read_series(const Repository& repository, const Oid& target,
                                             const Oid& integration) {
  std::vector<SeriesPatch> out;
  TS_TRY(Commit commit, repository.read_commit(integration));
  while (commit.id != target) {
    if (commit.parents.empty()) {
      return Error{ErrorKind::kMismatch, to_hex(integration),
                   with_next("The integration does not stand on the target " + to_hex(target),
                             "tessera-stack integrate")};
    }
    TS_TRY(Commit parent, repository.read_commit(commit.parents[0]));
    // A merge says whose topic it brings in by its second parent.
    Commit topic = commit;
    if (commit.parents.size() > 1) {
      TS_TRY(topic, repository.read_commit(commit.parents[1]));
      // Reviewers' commits may stand on the topic's own.
      while (topic.message.find(kTopicTrailer) == std::string::npos && topic.parents.size() == 1) {
        TS_TRY(topic, repository.read_commit(topic.parents[0]));
      }
    }
    if (parent.tree != commit.tree) {
      out.push_back({.name = name_of_topic(topic.message),
                     .author = topic.author,
                     .message = topic.message,
                     .commit = topic.id,
                     .before = parent.tree,
                     .after = commit.tree});
    }
    commit = std::move(parent);
  }
  std::reverse(out.begin(), out.end());
  std::map<std::string, int> used;  // two topics may have names that are equal as file names
  for (SeriesPatch& patch : out) {
    const int count = ++used[patch.name];
    if (count > 1) patch.name += '-' + std::to_string(count);
  }
  return out;
}

Result<std::string> tree_patch(const Repository& repository, const Oid& before, const Oid& after) {
  std::string deletions, rest;
  TS_TRY(each_difference(repository, before, after,
                         [&](const std::string& path, const Side& a, const Side& b) -> Result<void> {
                           (b.state ? rest : deletions) += write_file_patch(path, a.state, b.state);
                           return {};
                         }));
  return deletions + rest;
}

Result<std::map<std::string, std::string>> mail_series(const Repository& repository,
                                                       const std::vector<SeriesPatch>& series) {
  std::map<std::string, std::string> out;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const SeriesPatch& patch = series[i];
    TS_TRY(const std::string diff, tree_patch(repository, patch.before, patch.after));
    std::array<char, 24> number;
    std::snprintf(number.data(), number.size(), "%04zu", i + 1);
    const std::string count =
        series.size() == 1 ? "" : " " + std::to_string(i + 1) + "/" + std::to_string(series.size());
    // The date of the first line is the fixed one by which git knows its own mails.
    std::string mail =
        "From " + to_hex(patch.commit) + " Mon Sep 17 00:00:00 2001\nFrom: " + mail_name(patch.author.name) +
        " <" + patch.author.email + ">\nDate: " + mail_date(patch.author) +
        "\nSubject: " + encoded("[PATCH" + count + "] ") + encoded(first_line(patch.message)) + "\n";
    if (!is_ascii(patch.author.name) || !std::all_of(patch.message.begin(), patch.message.end(), [](char c) {
          return static_cast<unsigned char>(c) < 0x80;
        })) {
      mail += "MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n";
    }
    mail += "\n" + message_for_mail(body_of(patch.message)) + "---\n\n" + diff + "-- \ntessera-stack\n\n";
    out.emplace(std::string(number.data()) + "-" + patch.name + ".patch", std::move(mail));
  }
  return out;
}

Result<std::map<std::string, std::string>> quilt_series(const Repository& repository,
                                                        const std::vector<SeriesPatch>& series,
                                                        const std::map<std::string, QuiltHeader>& headers) {
  std::map<std::string, std::string> out;
  std::string order;
  for (const SeriesPatch& patch : series) {
    TS_TRY(each_difference(
        repository, patch.before, patch.after,
        [&](const std::string& path, const Side& a, const Side& b) -> Result<void> {
          const bool binary = a.bytes.substr(0, 8000).find('\0') != std::string::npos ||
                              b.bytes.substr(0, 8000).find('\0') != std::string::npos;
          if (!binary) return {};
          return Error{
              ErrorKind::kUnsupported, printable(path),
              "It is binary, which a quilt patch cannot say; export this stack as mails or as a bundle."};
        }));
    TS_TRY(const std::string diff, tree_patch(repository, patch.before, patch.after));
    const auto found = headers.find(patch.name);
    const QuiltHeader header = found == headers.end() ? QuiltHeader{} : found->second;
    // DEP-3: a continuation line begins with a blank, an empty one is " .".
    std::string text = "Description: " + first_line(patch.message) + "\n";
    const std::string body = header.description.empty() ? body_of(patch.message) : header.description;
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t end = std::min(body.find('\n', at), body.size());
      text += end == at ? " .\n" : " " + body.substr(at, end - at) + "\n";
      at = end + 1;
    }
    text += "Author: " + patch.author.name + " <" + patch.author.email +
            ">\nForwarded: " + (header.forwarded.empty() ? "no" : header.forwarded) + "\n---\n";
    out.emplace(patch.name + ".patch", text + diff);
    order += patch.name + ".patch\n";
  }
  out.emplace("series", order);
  return out;
}

}  // namespace tessera::stack
