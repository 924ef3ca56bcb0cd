// What may be logged of an exception that reached a border. Messages of JSON parsers quote their input, which
// is the client's text and stays out of logs.
#pragma once

#include <string>

namespace tessera::http {

// Only inside a catch block: describes the exception that was caught.
std::string describe_failure();

}  // namespace tessera::http
