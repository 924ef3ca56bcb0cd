// The tags of an XML text, one after the other: as much XML as NCCL's own files use.
//
// Understood: elements, attributes in double or single quotes, comments, <?…?>. Text between tags is skipped,
// which these files do not use. Not understood: entities (returned as they stand), DOCTYPE and CDATA
// (refused).
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera {

struct XmlTag {
  enum class Kind {
    kOpen,   // <a>
    kClose,  // </a>
    kEmpty,  // <a/>
  };
  Kind kind;
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string_view>> attributes;  // in the order of the text

  std::optional<std::string_view> attribute(std::string_view key) const;
};

// Borrows the text; the tags' views point into it.
class XmlTags {
 public:
  explicit XmlTags(std::string_view text) : rest_(text) {}

  // nullopt at the end of the text. Errors name no place: the caller has line().
  Result<std::optional<XmlTag>> next();
  int line() const { return line_; }  // of the last tag's end, from 1

 private:
  void advance(std::size_t bytes);
  bool skip_past(std::string_view end);
  void skip_space();
  std::string_view take_name();

  std::string_view rest_;
  int line_ = 1;
};

}  // namespace tessera
