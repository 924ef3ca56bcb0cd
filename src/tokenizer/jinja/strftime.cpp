#include "tokenizer/jinja/strftime.h"

#include <array>

#include "tokenizer/jinja/value.h"

namespace tessera::jinja {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};

}  // namespace

std::string format_time(std::string_view format, std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(floor<microseconds>(time - day));
  const auto month = kMonths[static_cast<unsigned>(date.month()) - 1];
  const auto weekday_name = kDays[weekday(day).c_encoding()];
  const long hour = clock.hours().count();
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out += format[at];
      continue;
    }
    const bool plain = at + 1 < format.size() && format[at + 1] == '-';
    at += plain ? 2 : 1;
    if (at >= format.size()) fail("The time format ends in the middle of a field.");
    const auto number = [&](long value, std::size_t width, char fill = '0') {
      const std::string digits = std::to_string(value);
      if (!plain && digits.size() < width) out.append(width - digits.size(), fill);
      out += digits;
    };
    switch (format[at]) {
      case 'a':
        out += weekday_name.substr(0, 3);
        break;
      case 'A':
        out += weekday_name;
        break;
      case 'b':
        out += month.substr(0, 3);
        break;
      case 'B':
        out += month;
        break;
      case 'd':
        number(static_cast<unsigned>(date.day()), 2);
        break;
      case 'e':
        number(static_cast<unsigned>(date.day()), 2, ' ');
        break;
      case 'f':
        number(clock.subseconds().count(), 6);
        break;
      case 'H':
        number(hour, 2);
        break;
      case 'I':
        number(hour % 12 == 0 ? 12 : hour % 12, 2);
        break;
      case 'j':
        number((day - sys_days(date.year() / January / 1)).count() + 1, 3);
        break;
      case 'm':
        number(static_cast<unsigned>(date.month()), 2);
        break;
      case 'M':
        number(clock.minutes().count(), 2);
        break;
      case 'p':
        out += hour < 12 ? "AM" : "PM";
        break;
      case 'S':
        number(clock.seconds().count(), 2);
        break;
      case 'y':
        number(static_cast<int>(date.year()) % 100, 2);
        break;
      case 'Y':
        number(static_cast<int>(date.year()), 4);
        break;
      case 'Z':
        out += "UTC";
        break;
      case 'z':
        out += "+0000";
        break;
      case 'F':
        out += format_time("%Y-%m-%d", time);
        break;
      case 'T':
      case 'X':
        out += format_time("%H:%M:%S", time);
        break;
      case 'D':
      case 'x':
        out += format_time("%m/%d/%y", time);
        break;
      case 'R':
        out += format_time("%H:%M", time);
        break;
      case 'c':
        out += format_time("%a %b %e %H:%M:%S %Y", time);
        break;
      case '%':
        out += '%';
        break;
      default:
        fail(std::string("The time format %") + format[at] + " is not supported.", ErrorKind::kUnsupported);
    }
  }
  return out;
}

}  // namespace tessera::jinja
