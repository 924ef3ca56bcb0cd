#include "plan/gpu_card.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace tessera {
namespace {

// Visible memory is what users of these cards report; drivers and ECC move it by a few tenths.
struct KnownCard {
  std::string_view name;
  double visible_gib;
  std::int32_t multiprocessors;
  std::int32_t capability;

  GpuCard card() const { return {std::string(name), visible_gib, multiprocessors, capability}; }
};
constexpr KnownCard kCards[] = {
    {"B200", 178.3, 148, 100},       {"H200", 139.8, 132, 90},     {"H100 80GB", 79.1, 132, 90},
    {"A100 80GB", 79.2, 108, 80},    {"A100 40GB", 39.4, 108, 80}, {"RTX PRO 6000", 95.6, 188, 120},
    {"RTX 6000 Ada", 47.4, 142, 89}, {"L40S", 44.4, 142, 89},      {"RTX A6000", 47.4, 84, 86},
    {"RTX 5090", 31.4, 170, 120},    {"RTX 4090", 23.6, 128, 89},  {"RTX 3090", 23.6, 82, 86},
};

std::string folded(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_')
      result.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return result;
}

// The one card whose name is `name`, or begins with it ("h100", "a100" with two forms is not one).
std::optional<GpuCard> find_card(std::string_view name) {
  const std::string wanted = folded(name);
  std::optional<GpuCard> found;
  for (const KnownCard& known : kCards) {
    const std::string spelled = folded(known.name);
    if (spelled == wanted) return known.card();
    if (!wanted.empty() && spelled.starts_with(wanted)) {
      if (found) return std::nullopt;
      found = known.card();
    }
  }
  return found;
}

std::string card_list() {
  std::string list;
  for (const KnownCard& card : kCards) list += (list.empty() ? "" : ", ") + std::string(card.name);
  return list;
}

Error bad(std::string what) { return {ErrorKind::kInvalidArgument, "--gpu", std::move(what)}; }

}  // namespace

std::vector<GpuCard> known_cards() {
  std::vector<GpuCard> result;
  for (const KnownCard& card : kCards) result.push_back(card.card());
  return result;
}

Result<GpuSet> parse_gpus(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const std::string shown = "'" + std::string(text) + "'";
  if (parts.size() > 3 || parts.front().empty())
    return bad("is " + shown + "; it must be NAME:COUNT[:GiB], e.g. H200:8 or rtx-pro-6000:8:95.6.");
  GpuSet set;
  if (parts.size() > 1) {
    const auto [end, failed] = std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), set.count);
    if (failed != std::errc() || end != parts[1].data() + parts[1].size() || set.count < 1 ||
        set.count > 1024)
      return bad("is " + shown + ", whose count '" + std::string(parts[1]) +
                 "' is no number from 1 to 1,024.");
  }
  double gib = 0;
  if (parts.size() > 2) {
    const auto [end, failed] = std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), gib);
    if (failed != std::errc() || end != parts[2].data() + parts[2].size() || !(gib > 0.1 && gib < 4096))
      return bad("is " + shown + ", whose memory '" + std::string(parts[2]) +
                 "' is no number of GiB from 0.1 to 4,096.");
  }
  if (const std::optional<GpuCard> card = find_card(parts.front())) {
    set.card = *card;
    if (gib > 0) set.card.visible_gib = gib;
    return set;
  }
  if (gib == 0) {
    return bad("names '" + std::string(parts.front()) + "', which is none of: " + card_list() +
               ". Say how much memory CUDA sees there: " + std::string(parts.front()) + ":" +
               std::to_string(set.count) + ":GiB.");
  }
  // Only the scratch of split attention depends on the multiprocessors, and little.
  set.card = {std::string(parts.front()), gib, 132, 80};
  set.is_known = false;
  return set;
}

}  // namespace tessera
