#include "stack/plan/claim.h"

#include <algorithm>
#include <charconv>

#include "stack/atom/glob.h"

namespace tessera::stack {
namespace {

Error bad(std::string_view text, std::string why) {
  return Error{ErrorKind::kInvalidArgument, "'" + std::string(text) + "'", std::move(why)};
}

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// "3:1a2b3c4d:5e6f7a8b:9c0d1e2f": how many were equal; section, line above, line below.
Result<std::optional<PinEvidence>> parse_evidence(std::string_view text, std::string_view written) {
  PinEvidence evidence;
  const auto [end, status] =
      std::from_chars(written.data(), written.data() + written.size(), evidence.equals);
  std::string_view rest = written.substr(static_cast<std::size_t>(end - written.data()));
  bool fits = status == std::errc() && evidence.equals > 1 && evidence.equals < 100'000;
  for (std::string* part : {&evidence.section, &evidence.above, &evidence.below}) {
    fits = fits && rest.size() >= 9 && rest[0] == ':' && is_hex(rest.substr(1, 8));
    if (!fits) break;
    *part = rest.substr(1, 8);
    rest.remove_prefix(9);
  }
  if (!fits || !rest.empty())
    return bad(text, "What follows '~' is written by plan pin; remove it, or pin again.");
  return std::optional(std::move(evidence));
}

Result<Claim> parse_id(std::string_view text) {
  Claim claim{.kind = ClaimKind::kAtom};
  std::string_view id = text.substr(2);
  const std::size_t open = id.find('[');
  if (open != std::string_view::npos) {
    if (!id.ends_with(']')) return bad(text, "The '[' of a piece needs a ']' at the end.");
    claim.kind = ClaimKind::kPiece;
    claim.pick = id.substr(open + 1, id.size() - open - 2);
    id = id.substr(0, open);
  }
  if (const std::size_t tilde = id.find('~'); tilde != std::string_view::npos) {
    TS_TRY(claim.evidence, parse_evidence(text, id.substr(tilde + 1)));
    id = id.substr(0, tilde);
  }
  if (id.size() < 4 || id.size() > 16 || !is_hex(id)) {
    return bad(text, "An atom is named by 4 to 16 lower-case hex digits after 'h:'.");
  }
  claim.id = id;
  return claim;
}

Result<Claim> parse_text(std::string_view text) {
  const std::string_view rest = text.substr(5);
  const std::size_t colon = rest.find(":/");
  if (colon == std::string_view::npos || !rest.ends_with('/') || rest.size() < colon + 4) {
    return bad(text, "A text claim reads text:PATHS:/expression/, for example text:src/**:/debug/.");
  }
  TS_TRY(check_glob(rest.substr(0, colon)));
  TS_TRY(Pattern pattern, Pattern::compile(rest.substr(colon + 2, rest.size() - colon - 3)));
  Claim claim{.kind = ClaimKind::kText, .path = std::string(rest.substr(0, colon))};
  claim.pattern = std::move(pattern);
  return claim;
}

Result<Claim> parse_anchor(std::string_view text, std::size_t hash) {
  Claim claim{.path = std::string(text.substr(0, hash))};
  std::string_view anchor = text.substr(hash + 1);
  for (const std::string_view kind : {"fn:", "class:", "section:"}) {
    if (!anchor.starts_with(kind)) continue;
    claim.kind = ClaimKind::kSection;
    claim.section = anchor.substr(kind.size());
    if (kind != "section:") claim.section_kind = kind.substr(0, kind.size() - 1);
    if (claim.section.empty())
      return bad(text, "The name of the section is missing after '" + std::string(kind) + "'.");
    return claim;
  }
  const auto number = [](std::string_view digits, std::int32_t& value) {
    if (digits.starts_with('L')) digits.remove_prefix(1);
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return status == std::errc() && end == digits.data() + digits.size() && value > 0;
  };
  if (anchor.starts_with('L')) {
    const std::size_t dash = anchor.find('-');
    claim.kind = ClaimKind::kLines;
    const bool fits =
        number(anchor.substr(0, dash), claim.first_line) &&
        number(dash == std::string_view::npos ? anchor : anchor.substr(dash + 1), claim.last_line);
    if (fits && claim.first_line <= claim.last_line) return claim;
    return bad(text, "Lines read #L10 or #L10-L20, counted from 1 in the tree.");
  }
  return bad(text,
             "After '#' a claim has fn:NAME, class:NAME, section:NAME or L10-L20; a path that contains '#' "
             "is written "
             "{ path = \"…\" }.");
}

}  // namespace

std::string_view name_of(ClaimKind kind) {
  switch (kind) {
    case ClaimKind::kGlob:
      return "glob";
    case ClaimKind::kPath:
      return "path";
    case ClaimKind::kSection:
      return "section";
    case ClaimKind::kText:
      return "text";
    case ClaimKind::kLines:
      return "lines";
    case ClaimKind::kAtom:
      return "atom";
    case ClaimKind::kPiece:
      return "piece";
  }
  return "unknown";
}

Result<Claim> parse_claim(std::string_view text) {
  const auto parse = [&]() -> Result<Claim> {
    if (text.starts_with("h:")) return parse_id(text);
    if (text.starts_with("glob:")) {
      if (text.size() == 5) return bad(text, "A pattern is missing after 'glob:'.");
      TS_TRY(check_glob(text.substr(5)));
      return Claim{.kind = ClaimKind::kGlob, .path = std::string(text.substr(5))};
    }
    if (text.starts_with("text:")) return parse_text(text);
    const std::size_t hash = text.find('#');
    if (hash != std::string_view::npos) return parse_anchor(text, hash);
    if (text.empty() || text.starts_with('/') || text.ends_with('/')) {
      return bad(text, "This is no path of a file; a whole folder is claimed by glob:folder/**.");
    }
    if (text.find(':') != std::string_view::npos) {
      return bad(text,
                 "No kind of claim begins like this; a path that contains ':' is written { path = \"…\" }.");
    }
    return Claim{.kind = ClaimKind::kPath, .path = std::string(text)};
  };
  TS_TRY(Claim claim, parse());
  claim.written = text;
  return claim;
}

}  // namespace tessera::stack
