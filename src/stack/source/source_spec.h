// Where a tree comes from, as written on a command line and in a plan.
//
//   git:REPO@REV[:path]        dir:PATH        tar:FILE[:path]
//   docker-save:FILE[@tag][:/path]             oci:DIR-or-TAR[@ref, digest or platform][:/path]
//
// A backslash takes the next character literally, for names with '@' or ':'. After an '@' an image's path
// begins at the first ":/", since tags contain colons themselves.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::stack {

enum class SourceKind { kGit, kFolder, kTar, kDockerSave, kOci };

struct SourceSpec {
  SourceKind kind = SourceKind::kFolder;
  std::string location{};  // repository, folder or file
  std::string ref{};   // git revision, image tag, ref name, digest or platform; empty: there is only one, or
                       // git's HEAD
  std::string path{};  // inside; "" for all
  std::string note{};  // set when the kind was guessed: one full sentence
  friend bool operator==(const SourceSpec&, const SourceSpec&) = default;
};

std::string_view name_of(SourceKind kind);
// With a prefix: pure. A bare path is looked at on disk to guess its kind, and the guess is noted.
Result<SourceSpec> parse_source(std::string_view text);
// The form that parse_source takes back.
std::string to_string(const SourceSpec& spec);

}  // namespace tessera::stack
