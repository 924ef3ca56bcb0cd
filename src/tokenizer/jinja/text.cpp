#include "tokenizer/jinja/text.h"

#include <algorithm>

namespace tessera::jinja {

Text::Text(std::string bytes, bool foreign) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), foreign});
}

bool Text::any_foreign() const { return std::ranges::any_of(runs_, &Run::foreign); }

void Text::extend(std::size_t end, bool foreign) {
  if (!runs_.empty() && runs_.back().foreign == foreign) {
    runs_.back().end = end;
  } else if (end > (runs_.empty() ? 0 : runs_.back().end)) {
    runs_.push_back({end, foreign});
  }
}

void Text::append(std::string_view bytes, bool foreign) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  extend(bytes_.size(), foreign);
}

void Text::append(const Text& text) { append(text, 0, text.size()); }

void Text::append(const Text& text, std::size_t begin, std::size_t end) {
  auto run = std::ranges::upper_bound(text.runs_, begin, {}, &Run::end);
  while (begin < end) {
    const std::size_t stop = std::min(end, run->end);
    append(text.view().substr(begin, stop - begin), run->foreign);
    begin = stop;
    ++run;
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text part;
  part.append(*this, begin, end);
  return part;
}

void Text::cut_to(std::size_t size) {
  if (size >= bytes_.size()) return;
  bytes_.resize(size);
  while (!runs_.empty() && (runs_.size() > 1 ? runs_[runs_.size() - 2].end : 0) >= size) runs_.pop_back();
  if (!runs_.empty()) runs_.back().end = size;
}

}  // namespace tessera::jinja
