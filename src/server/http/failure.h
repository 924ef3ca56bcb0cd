// What may be logged of an exception that reached a border. Messages that quote may quote a client's text,
// which stays out of logs.
#pragma once

#include <string>

namespace tessera::http {

// Only inside a catch block: describes the exception that was caught.
std::string describe_failure();

}  // namespace tessera::http
