// The stack as a series of patches, one a topic, in line order: as mails for `git am`, or as a quilt series
// with DEP-3 headers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"

namespace tessera::stack {

// One step of the integration: the tree before, the tree after, and whose change it is.
struct SeriesPatch {
  std::string name;  // of the topic: the last part of its `Tessera-Topic` trailer, else made from the subject
  Signature author{};
  std::string message;  // of the topic's own commit
  Oid commit{};
  Oid before{};  // trees
  Oid after{};
};

// Along the integration's first parents, from the target to the tip. Steps that change nothing are left out.
Result<std::vector<SeriesPatch>> read_series(const Repository& repository, const Oid& target,
                                             const Oid& integration);

// The differences of two trees in git's format, deletions first, so that a folder can take a file's place.
Result<std::string> tree_patch(const Repository& repository, const Oid& before, const Oid& after);

// File name to content: "0001-name.patch" and so on.
Result<std::map<std::string, std::string>> mail_series(const Repository& repository,
                                                       const std::vector<SeriesPatch>& series);

struct QuiltHeader {
  std::string description{};
  std::string forwarded{};  // a link, "no", or "not-needed"
};
// "series" and "<name>.patch". A binary change cannot be said in a quilt patch: refused, with its path.
Result<std::map<std::string, std::string>> quilt_series(const Repository& repository,
                                                        const std::vector<SeriesPatch>& series,
                                                        const std::map<std::string, QuiltHeader>& headers);

}  // namespace tessera::stack
