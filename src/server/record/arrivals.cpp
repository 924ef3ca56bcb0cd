#include "server/record/arrivals.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>

namespace tessera {
namespace {

// "2026-11-30T18:09:15.123Z" in milliseconds since 1970.
std::optional<std::int64_t> milliseconds(std::string_view at) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  if (at.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (kForm[i] == '0' ? at[i] < '0' || at[i] > '9' : at[i] != kForm[i]) return std::nullopt;
  }
  const auto number = [&](std::size_t first, std::size_t count) {
    int value = 0;
    std::from_chars(at.data() + first, at.data() + first + count, value);
    return value;
  };
  using namespace std::chrono;
  const year_month_day day(year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                           std::chrono::day(static_cast<unsigned>(number(8, 2))));
  if (!day.ok() || number(11, 2) > 23 || number(14, 2) > 59 || number(17, 2) > 60) return std::nullopt;
  const auto time = sys_days(day).time_since_epoch() + hours(number(11, 2)) + minutes(number(14, 2)) +
                    seconds(number(17, 2)) + std::chrono::milliseconds(number(20, 3));
  return duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace

Result<std::vector<double>> arrivals_of(std::span<const RecordedRequest> records) {
  std::vector<std::int64_t> times;
  for (const RecordedRequest& record : records) {
    const auto time = milliseconds(record.at);
    if (!time)
      return Error{ErrorKind::kCorrupt, "request " + record.id,
                   "Its time is '" + record.at + "'; expected the form 2026-11-30T18:09:15.123Z."};
    times.push_back(*time);
  }
  std::vector<double> out;
  for (const std::int64_t time : times)
    out.push_back(static_cast<double>(time - std::ranges::min(times)) * 1e-3);
  return out;
}

}  // namespace tessera
