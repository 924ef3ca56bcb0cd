#include "stack/move/version_hint.h"

#include <algorithm>

namespace tessera::stack {
namespace {

constexpr std::size_t kFiles = 20;    // a whole image's site-packages holds hundreds; ours is among the first
constexpr std::size_t kIdDigits = 7;  // the shortest id that git itself writes
constexpr std::uint64_t kBytes = 1 << 20;  // of a file that may hold a version

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// The value after the first of `keys` that begins a line: up to the line's end, without quotes and blanks.
std::string value_of(std::string_view text, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const std::size_t at = text.starts_with(key) ? 0 : text.find("\n" + std::string(key));
    if (at == std::string_view::npos) continue;
    std::string_view line = text.substr(at + key.size() + (at == 0 && text.starts_with(key) ? 0 : 1));
    line = line.substr(0, line.find('\n'));
    line = line.substr(line.rfind('=') == line.npos ? 0 : line.rfind('=') + 1);  // "a = b = '1.2'"
    std::string value;
    for (const char c : line) {
      if (c != '"' && c != '\'' && c != ' ' && c != ':' && c != '\r') value += c;
    }
    if (!value.empty() && value != "None") return value;
  }
  return {};
}

std::string said_by(std::string_view path, std::string_view text) {
  const std::string_view name = file_name(path);
  if (name == "_version.py") {
    return value_of(text, {"__commit_id__", "commit_id", "__version__", "version ", "version="});
  }
  if (name == "direct_url.json") {
    const std::size_t at = text.find("\"commit_id\"");
    const std::size_t begin = at == std::string_view::npos ? at : text.find('"', at + 11);
    if (begin == std::string_view::npos) return {};
    return std::string(text.substr(begin + 1, text.find('"', begin + 1) - begin - 1));
  }
  return value_of(text, {"Version:"});
}

bool may_tell(std::string_view path) {
  const std::string_view name = file_name(path);
  return name == "_version.py" || name == "PKG-INFO" || name == "direct_url.json" ||
         (name == "METADATA" && path.find(".dist-info/") != std::string_view::npos);
}

}  // namespace

std::vector<std::string> names_of_version(std::string_view version) {
  std::vector<std::string> names;
  const auto all_hex = [](std::string_view text) { return std::ranges::all_of(text, is_hex); };
  if (version.starts_with('g') && version.size() > kIdDigits && all_hex(version.substr(1)))
    version.remove_prefix(1);  // setuptools_scm writes ids so
  if (version.size() >= kIdDigits && version.size() <= 40 && all_hex(version) &&
      !std::ranges::all_of(version, is_digit))
    return {std::string(version)};
  // "+g9aaf83ef5" or ".g9aaf83ef5": the commit itself, which is better than any tag.
  for (std::size_t at = version.find('g'); at != std::string_view::npos; at = version.find('g', at + 1)) {
    if (at == 0 || (version[at - 1] != '+' && version[at - 1] != '.')) continue;
    std::size_t end = at + 1;
    while (end < version.size() && is_hex(version[end])) ++end;
    if (end - at - 1 >= kIdDigits) names.emplace_back(version.substr(at + 1, end - at - 1));
  }
  std::size_t end = version.starts_with('v') ? 1 : 0;
  const std::size_t begin = end;
  while (end < version.size() &&
         (is_digit(version[end]) || version[end] == '.' || version.substr(end, 2) == "rc" ||
          (version[end] == 'c' && end > 0 && version[end - 1] == 'r')))
    ++end;
  std::string number(version.substr(begin, end - begin));
  while (number.ends_with('.')) number.pop_back();
  if (number.find('.') != std::string::npos) {
    names.push_back("v" + number);
    names.push_back(number);
  }
  return names;
}

std::vector<VersionHint> find_version_hints(const Tree& tree, const BlobStore& blobs) {
  std::vector<VersionHint> hints;
  const auto add = [&](std::string where, std::string said) {
    std::vector<std::string> names = names_of_version(said);
    if (!names.empty()) hints.push_back({std::move(where), std::move(said), std::move(names)});
  };
  for (const char* label : {"org.opencontainers.image.revision", "org.opencontainers.image.version",
                            "org.label-schema.vcs-ref"}) {
    if (const auto found = tree.labels.find(label); found != tree.labels.end())
      add("label " + std::string(label), found->second);
  }
  std::size_t read = 0;
  for (const TreeEntry& entry : tree.entries) {
    if (read == kFiles) break;
    if (!may_tell(entry.path) || entry.unreadable || entry.size > kBytes || entry.mode == FileMode::kGitlink)
      continue;
    const auto text = blobs.read(entry.oid);
    if (!text) continue;
    ++read;
    add(entry.path, said_by(entry.path, *text));
  }
  return hints;
}

}  // namespace tessera::stack
