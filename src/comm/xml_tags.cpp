#include "comm/xml_tags.h"

#include <algorithm>

namespace tessera {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':';
}

Error corrupt(std::string what) { return {ErrorKind::kCorrupt, "", std::move(what)}; }

}  // namespace

std::optional<std::string_view> XmlTag::attribute(std::string_view key) const {
  for (const auto& [name_of_it, value] : attributes) {
    if (name_of_it == key) return value;
  }
  return std::nullopt;
}

void XmlTags::advance(std::size_t bytes) {
  line_ +=
      static_cast<int>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(bytes), '\n'));
  rest_.remove_prefix(bytes);
}

bool XmlTags::skip_past(std::string_view end) {
  const std::size_t at = rest_.find(end);
  if (at == std::string_view::npos) return false;
  advance(at + end.size());
  return true;
}

void XmlTags::skip_space() {
  advance(static_cast<std::size_t>(std::ranges::find_if_not(rest_, is_space) - rest_.begin()));
}

std::string_view XmlTags::take_name() {
  const auto length = static_cast<std::size_t>(std::ranges::find_if_not(rest_, is_name) - rest_.begin());
  const std::string_view name = rest_.substr(0, length);
  advance(length);
  return name;
}

Result<std::optional<XmlTag>> XmlTags::next() {
  while (true) {
    const std::size_t at = rest_.find('<');
    if (at == std::string_view::npos) return std::optional<XmlTag>();
    advance(at);
    if (rest_.starts_with("<!--")) {
      advance(4);
      if (!skip_past("-->")) return corrupt("a comment is not closed");
    } else if (rest_.starts_with("<?")) {
      if (!skip_past("?>")) return corrupt("a processing instruction <? is not closed");
    } else {
      break;
    }
  }
  advance(1);
  XmlTag tag{.kind = XmlTag::Kind::kOpen, .name = {}, .attributes = {}};
  if (rest_.starts_with('/')) {
    advance(1);
    tag.kind = XmlTag::Kind::kClose;
  }
  tag.name = take_name();
  if (tag.name.empty()) return corrupt("< is not followed by an element's name");
  while (true) {
    skip_space();
    if (rest_.starts_with('>')) {
      advance(1);
      return std::optional(std::move(tag));
    }
    if (rest_.starts_with("/>") && tag.kind == XmlTag::Kind::kOpen) {
      advance(2);
      tag.kind = XmlTag::Kind::kEmpty;
      return std::optional(std::move(tag));
    }
    const std::string_view key = take_name();
    if (key.empty() || tag.kind == XmlTag::Kind::kClose)
      return corrupt("the tag <" + std::string(tag.name) + "> is not closed by >");
    skip_space();
    if (!rest_.starts_with('=')) return corrupt("attribute " + std::string(key) + " has no =");
    advance(1);
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    const std::size_t end = quote == '"' || quote == '\'' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos)
      return corrupt("the value of attribute " + std::string(key) + " is not quoted");
    if (tag.attribute(key)) return corrupt("attribute " + std::string(key) + " is given twice");
    tag.attributes.emplace_back(key, rest_.substr(1, end - 1));
    advance(end + 1);
  }
}

}  // namespace tessera
