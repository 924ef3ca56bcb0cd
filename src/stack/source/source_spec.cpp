#include "stack/source/source_spec.h"

#include <sys/stat.h>

#include <array>
#include <utility>

#include "stack/object/printable.h"
#include "stack/source/container.h"

namespace tessera::stack {
namespace {

constexpr std::array<std::pair<std::string_view, SourceKind>, 5> kKinds = {
    {{"git", SourceKind::kGit},
     {"dir", SourceKind::kFolder},
     {"tar", SourceKind::kTar},
     {"docker-save", SourceKind::kDockerSave},
     {"oci", SourceKind::kOci}}};

// Takes characters up to the first unescaped one of `stops`, which stays in front of `rest`.
std::string take_until(std::string_view& rest, std::string_view stops) {
  std::string out;
  while (!rest.empty()) {
    if (rest[0] == '\\' && rest.size() > 1) {
      rest.remove_prefix(1);
    } else if (stops.find(rest[0]) != std::string_view::npos) {
      break;
    }
    out += rest[0];
    rest.remove_prefix(1);
  }
  return out;
}

std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

Result<SourceSpec> guess(std::string_view text) {
  const std::string path(text);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return Error{ErrorKind::kNotFound, printable(text),
                 "There is no such file or folder. A source is written git:REPO@REV, dir:PATH, tar:FILE, "
                 "docker-save:FILE:/path "
                 "or oci:PATH:/path."};
  }
  SourceSpec spec{.location = path};
  const char* why = "it is a folder";
  if (S_ISDIR(status.st_mode)) {
    if (exists(path + "/oci-layout")) {
      spec.kind = SourceKind::kOci;
      why = "it holds an oci-layout file";
    } else if (exists(path + "/HEAD") && exists(path + "/objects") && exists(path + "/refs")) {
      spec.kind = SourceKind::kGit;
      spec.ref = "HEAD";
      why = "it is a bare repository; its HEAD is meant";
    } else if (exists(path + "/.git")) {
      why = "the files of a checkout are meant, not its commit; write git: for that";
    }
  } else {
    const ReadOptions options;
    TS_TRY(const auto container, open_container(path, options));
    spec.kind = SourceKind::kTar;
    why = "it is an archive that holds no image";
    if (container->has("manifest.json") || container->has("repositories")) {
      spec.kind = SourceKind::kDockerSave;
      why = "it holds docker's manifest.json or repositories";
    } else if (container->has("oci-layout") || container->has("index.json")) {
      spec.kind = SourceKind::kOci;
      why = "it holds an OCI index.json";
    }
  }
  spec.note = printable(text) + " was taken as " + to_string(spec) + ", because " + why + ".";
  return spec;
}

}  // namespace

std::string_view name_of(SourceKind kind) {
  for (const auto& [name, value] : kKinds) {
    if (value == kind) return name;
  }
  return "unknown";
}

Result<SourceSpec> parse_source(std::string_view text) {
  const std::string_view prefix = text.substr(0, text.find(':'));
  const auto* found = kKinds.begin();
  while (found != kKinds.end() && found->first != prefix) ++found;
  if (found == kKinds.end() || prefix.size() == text.size()) return guess(text);

  SourceSpec spec{.kind = found->second};
  std::string_view rest = text.substr(prefix.size() + 1);
  switch (spec.kind) {
    case SourceKind::kFolder:
      spec.location = take_until(rest, "");
      break;
    case SourceKind::kTar:
      spec.location = take_until(rest, ":");
      break;
    default:
      spec.location = take_until(rest, "@:");
      break;
  }
  if (spec.location.empty()) {
    return Error{ErrorKind::kInvalidArgument, printable(text),
                 "The source names no file or folder after its prefix."};
  }
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    if (spec.kind == SourceKind::kGit) {
      spec.ref = take_until(rest, ":");
    } else {
      spec.ref = take_until(rest, ":");
      while (rest.size() > 1 && rest[1] != '/') {  // a colon of the tag, not the one before the path
        spec.ref += ':';
        rest.remove_prefix(1);
        spec.ref += take_until(rest, ":");
      }
    }
    if (spec.ref.empty()) {
      return Error{ErrorKind::kInvalidArgument, printable(text), "Nothing follows the '@'."};
    }
  }
  if (rest.starts_with(':')) {
    rest.remove_prefix(1);
    spec.path = take_until(rest, "");
  }
  if (spec.kind == SourceKind::kGit && spec.ref.empty()) {
    return Error{ErrorKind::kInvalidArgument, printable(text),
                 "A git source needs a revision, as in git:" + printable(spec.location) + "@main."};
  }
  return spec;
}

std::string to_string(const SourceSpec& spec) {
  std::string out = std::string(name_of(spec.kind)) + ':';
  switch (spec.kind) {
    case SourceKind::kFolder:
      return out + escaped(spec.location, "");
    case SourceKind::kTar:
      out += escaped(spec.location, ":");
      break;
    default:
      out += escaped(spec.location, "@:");
      break;
  }
  if (!spec.ref.empty()) {
    // In an image's ref only a colon before a slash could be misread, and no tag has one.
    out += '@' + escaped(spec.ref, spec.kind == SourceKind::kGit ? ":" : "");
  }
  if (!spec.path.empty()) {
    const bool absolute_needed = spec.kind == SourceKind::kDockerSave || spec.kind == SourceKind::kOci;
    out += absolute_needed && !spec.path.starts_with('/') ? ":/" : ":";
    out += escaped(spec.path, "");
  }
  return out;
}

}  // namespace tessera::stack
