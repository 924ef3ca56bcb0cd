// A string that remembers, byte for byte, who wrote it: the template's author ("scaffold") or the outside
// ("foreign": messages, tools, keyword arguments). Concatenation, slicing and filters carry this along, so
// that in the finished prompt it is still known which text may hold control tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::jinja {

class Text {
 public:
  struct Run {
    std::size_t end;  // byte after the run; the first run begins at 0, the next where the last ended
    bool foreign;
    friend bool operator==(const Run&, const Run&) = default;
  };

  Text() = default;
  Text(std::string bytes, bool foreign);

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<Run>& runs() const { return runs_; }  // neighbours differ; empty for an empty text
  // Some byte came from outside. What cannot be traced byte for byte (a changed case, a padded number) takes
  // this.
  bool any_foreign() const;

  void append(std::string_view bytes, bool foreign);
  void append(const Text& text);
  void append(const Text& text, std::size_t begin, std::size_t end);  // bytes [begin, end) of `text`
  Text slice(std::size_t begin, std::size_t end) const;
  void cut_to(std::size_t size);

 private:
  void extend(std::size_t end, bool foreign);

  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace tessera::jinja
