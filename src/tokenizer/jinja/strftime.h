// strftime in English and UTC, whatever the process's locale and time zone.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tessera::jinja {

// %a %A %b %B %d %e %f %H %I %j %m %M %p %S %y %Y %Z %z %F %T %D %R %c %x %X %% and "%-d" without leading
// zero. Throws Failure for others.
std::string format_time(std::string_view format, std::chrono::system_clock::time_point time);

}  // namespace tessera::jinja
