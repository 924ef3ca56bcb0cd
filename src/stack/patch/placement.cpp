#include "stack/patch/placement.h"

#include <algorithm>

#include "stack/git/line_diff.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/patch/binary_patch.h"

namespace tessera::stack {
namespace {

constexpr std::size_t kCandidatesShown = 8;
constexpr std::uint64_t kBinaryLimit = 1ULL << 30;

// A hunk with some of its outer context taken away. Lines are borrowed from the hunk.
struct Trimmed {
  std::vector<std::string_view> old_lines{};
  std::vector<std::string_view> new_lines{};
  int before = 0;  // context lines dropped in front
  int after = 0;   // and behind
  int lead = 0;    // context lines left in front
  int trail = 0;   // and behind
  bool has_removed = false;
};

Trimmed trim(const Hunk& hunk, int before, int after) {
  Trimmed out{.before = before, .after = after};
  const std::size_t end = hunk.lines.size() - static_cast<std::size_t>(after);
  bool changed = false;
  for (std::size_t i = static_cast<std::size_t>(before); i < end; ++i) {
    const HunkLine& line = hunk.lines[i];
    if (line.sign != '+') out.old_lines.push_back(line.text);
    if (line.sign != '-') out.new_lines.push_back(line.text);
    if (line.sign == ' ') {
      ++(changed ? out.trail : out.lead);
    } else {
      changed = true;
      out.trail = 0;
      out.has_removed = out.has_removed || line.sign == '-';
    }
  }
  return out;
}

struct Context {
  int lead = 0;
  int trail = 0;
};
Context context_of(const Hunk& hunk) {
  const auto is_change = [](const HunkLine& line) { return line.sign != ' '; };
  const auto first = std::find_if(hunk.lines.begin(), hunk.lines.end(), is_change);
  const auto last = std::find_if(hunk.lines.rbegin(), hunk.lines.rend(), is_change);
  return {static_cast<int>(first - hunk.lines.begin()), static_cast<int>(last - hunk.lines.rbegin())};
}

// Index of the hunk's first old line, counted from 0; with count 0, of the line before which it inserts.
std::int64_t stated_begin(const Hunk& hunk) {
  return hunk.old_count == 0 ? hunk.old_start : hunk.old_start - 1;
}

bool stands_at(const std::vector<std::string_view>& text, std::int64_t at,
               const std::vector<std::string_view>& lines) {
  if (at < 0 || at + static_cast<std::int64_t>(lines.size()) > static_cast<std::int64_t>(text.size()))
    return false;
  return std::equal(lines.begin(), lines.end(), text.begin() + at);
}

struct Placed {
  HunkPlacement where;
  Trimmed hunk;
  std::int64_t begin = 0;  // index of its first old line in the text
};

class Ladder {
 public:
  Ladder(std::string_view text, const std::optional<std::string>& preimage) : text_(split_lines(text)) {
    if (!preimage) return;
    preimage_ = split_lines(*preimage);
    drift_ = diff_lines(*preimage, text);
    knows_preimage_ = true;
  }

  Placed place(const Hunk& hunk) const {
    if (knows_preimage_) {
      if (auto placed = mapped(hunk)) return *std::move(placed);
    }
    const std::int64_t stated = stated_begin(hunk);
    const Context context = context_of(hunk);
    Trimmed whole = trim(hunk, 0, 0);
    const bool has_evidence = whole.has_removed || !whole.old_lines.empty();
    // An insertion without context says nothing but a line number, which is no evidence, except in an empty
    // file.
    if (!has_evidence && !text_.empty())
      return failed(Rung::kAmbiguous, {}, static_cast<std::int64_t>(text_.size()) + 1);
    if (stands_at(text_, stated, whole.old_lines))
      return placed(Rung::kExact, std::move(whole), stated, stated);
    // From the longer side first; at least one line of context stays unless removed lines are there to be
    // found.
    const auto reduced_by = [&](int dropped) -> std::optional<Trimmed> {
      const Context left = after_dropping(context, dropped);
      Trimmed reduced = trim(hunk, context.lead - left.lead, context.trail - left.trail);
      if (reduced.old_lines.empty() || (!reduced.has_removed && left.lead + left.trail == 0))
        return std::nullopt;
      return reduced;
    };
    // Where more lines stand, fewer do too: each step keeps the places of the one before. So the first step
    // that has a place, or is too short to count, is found by halving.
    const int steps = context.lead + context.trail + 1;
    int first = 0;
    for (int end = steps; first < end;) {
      const int middle = first + (end - first) / 2;
      const std::optional<Trimmed> reduced = reduced_by(middle);
      if (!reduced || !find_all(reduced->old_lines).empty()) {
        end = middle;
      } else {
        first = middle + 1;
      }
    }
    std::optional<Trimmed> reduced = first < steps ? reduced_by(first) : std::nullopt;
    if (!reduced) return failed(Rung::kNowhere, {}, 0);
    const std::vector<std::int64_t> places = find_all(reduced->old_lines);
    if (places.size() > 1) return failed(Rung::kAmbiguous, places, static_cast<std::int64_t>(places.size()));
    const Rung rung = first == 0 ? Rung::kUnique : Rung::kReduced;
    const std::int64_t expected = stated + reduced->before;
    return placed(rung, *std::move(reduced), places[0], expected);
  }

  const std::vector<std::string_view>& text() const { return text_; }

 private:
  static Context after_dropping(Context context, int dropped) {
    for (; dropped > 0; --dropped) --(context.lead >= context.trail ? context.lead : context.trail);
    return context;
  }

  static Placed placed(Rung rung, Trimmed hunk, std::int64_t begin, std::int64_t stated) {
    Placed out{.where = {.rung = rung,
                         .line = begin + 1,
                         .offset = begin - stated,
                         .context_dropped = hunk.before + hunk.after},
               .hunk = std::move(hunk),
               .begin = begin};
    if (rung != Rung::kReduced) out.where.context_dropped = 0;
    return out;
  }

  static Placed failed(Rung rung, const std::vector<std::int64_t>& places, std::int64_t count) {
    Placed out{.where = {.rung = rung, .candidate_count = count}, .hunk = {}};
    for (std::size_t i = 0; i < std::min(places.size(), kCandidatesShown); ++i)
      out.where.candidates.push_back(places[i] + 1);
    return out;
  }

  // All places of some lines, in one pass after Knuth, Morris and Pratt: blank lines and closing braces
  // repeat.
  std::vector<std::int64_t> find_all(const std::vector<std::string_view>& lines) const {
    std::vector<std::size_t> border(lines.size(), 0);  // [i] length of the longest start that ends at line i
    for (std::size_t i = 1, length = 0; i < lines.size(); ++i) {
      while (length > 0 && lines[i] != lines[length]) length = border[length - 1];
      if (lines[i] == lines[length]) ++length;
      border[i] = length;
    }
    std::vector<std::int64_t> out;
    for (std::size_t i = 0, matched = 0; i < text_.size(); ++i) {
      while (matched > 0 && (matched == lines.size() || text_[i] != lines[matched]))
        matched = border[matched - 1];
      if (text_[i] == lines[matched]) ++matched;
      if (matched == lines.size()) out.push_back(static_cast<std::int64_t>(i + 1 - lines.size()));
    }
    return out;
  }

  // Follows the hunk's changed lines and one neighbour on each side from the preimage to the text.
  std::optional<Placed> mapped(const Hunk& hunk) const {
    const std::int64_t stated = stated_begin(hunk);
    if (!stands_at(preimage_, stated, trim(hunk, 0, 0).old_lines))
      return std::nullopt;  // the index line lied
    const Context context = context_of(hunk);
    Trimmed core = trim(hunk, std::max(0, context.lead - 1), std::max(0, context.trail - 1));
    const std::int64_t begin = stated + core.before;
    const std::int64_t end = begin + static_cast<std::int64_t>(core.old_lines.size());
    std::int64_t shift = 0;
    for (const LineChange& change : drift_) {
      const std::int64_t from = change.old_begin, to = from + change.old_count;
      if (to <= begin && !(from == to && to == begin && core.lead == 0)) {
        shift += change.new_count - change.old_count;
      } else if (from < end || (from == end && core.trail == 0)) {
        return std::nullopt;  // upstream touched these lines too
      }
    }
    Placed out = placed(Rung::kMapped, std::move(core), begin + shift, begin);
    if (!stands_at(text_, out.begin, out.hunk.old_lines)) return std::nullopt;
    return out;
  }

  std::vector<std::string_view> text_;
  std::vector<std::string_view> preimage_;
  std::vector<LineChange> drift_;  // preimage to text
  bool knows_preimage_ = false;
};

}  // namespace

std::string_view name_of(Rung rung) {
  switch (rung) {
    case Rung::kMapped:
      return "mapped";
    case Rung::kExact:
      return "exact";
    case Rung::kUnique:
      return "unique";
    case Rung::kReduced:
      return "reduced";
    case Rung::kAmbiguous:
      return "ambiguous";
    case Rung::kNowhere:
      return "nowhere";
  }
  return "unknown";
}

Rung FilePlacement::weakest() const {
  Rung out = Rung::kMapped;
  for (const HunkPlacement& hunk : hunks) out = std::max(out, hunk.rung);
  return out;
}

FilePlacement place_hunks(const FilePatch& patch, std::string_view text,
                          const std::optional<std::string>& preimage) {
  const Ladder ladder(text, preimage);
  FilePlacement out;
  std::vector<Placed> placed;
  bool all = true;
  for (const Hunk& hunk : patch.hunks) {
    placed.push_back(ladder.place(hunk));
    out.hunks.push_back(placed.back().where);
    all = all && placed.back().where.is_placed();
  }
  if (!all) return out;
  std::string result;
  std::int64_t at = 0;
  const auto copy_until = [&](std::int64_t end) {
    for (; at < end; ++at) result += ladder.text()[static_cast<std::size_t>(at)];
  };
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const Placed& hunk = placed[i];
    if (hunk.begin < at) {  // two hunks want the same lines, or crossed over
      out.hunks[i].rung = Rung::kNowhere;
      return out;
    }
    copy_until(hunk.begin);
    for (const std::string_view line : hunk.hunk.new_lines) result += line;
    at = hunk.begin + static_cast<std::int64_t>(hunk.hunk.old_lines.size());
  }
  copy_until(static_cast<std::int64_t>(ladder.text().size()));
  out.result = std::move(result);
  return out;
}

Result<std::string> apply_exactly(const FilePatch& patch, std::string_view before) {
  const std::string where = printable(patch.path());
  if (patch.is_binary) {
    if (!patch.forward)
      return Error{ErrorKind::kUnsupported, where, "The patch says that it differs, but not how."};
    if (!patch.forward->is_delta) return patch.forward->bytes;
    return apply_delta(before, patch.forward->bytes, kBinaryLimit);
  }
  const std::vector<std::string_view> lines = split_lines(before);
  std::string out;
  std::int64_t at = 0;
  for (const Hunk& hunk : patch.hunks) {
    const std::int64_t begin = stated_begin(hunk);
    const Trimmed whole = trim(hunk, 0, 0);
    if (begin < at || !stands_at(lines, begin, whole.old_lines)) {
      return Error{ErrorKind::kMismatch, where,
                   "The hunk of patch line " + std::to_string(hunk.patch_line) + " does not fit at line " +
                       std::to_string(begin + 1) + "."};
    }
    for (; at < begin; ++at) out += lines[static_cast<std::size_t>(at)];
    for (const std::string_view line : whole.new_lines) out += line;
    at += static_cast<std::int64_t>(whole.old_lines.size());
  }
  for (; at < static_cast<std::int64_t>(lines.size()); ++at) out += lines[static_cast<std::size_t>(at)];
  return out;
}

}  // namespace tessera::stack
