// One request and what became of it, as a file that can be sent to somebody else and asked again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera {

struct RecordedRequest {
  std::string at;           // arrival, UTC: "2026-11-30T18:09:15.123Z"
  std::string version;      // of the program that answered
  std::string model;        // its first served name
  std::string fingerprint;  // of its build and configuration; empty until a model was loaded
  std::string id;           // of the request, as in X-Request-Id and in the log
  std::string user_agent = {};

  std::string method = "POST";
  std::string path;       // without the root path
  std::string body = {};  // as it came, but for secrets; any bytes

  int status = 0;               // of the answer; 0: there was none
  std::string ended = {};       // "complete", "client left", "cut"
  std::string answer = {};      // its body, of a stream all events
  bool answer_is_whole = true;  // false: longer than what is recorded
  double first_byte_ms = 0;     // after arrival
  double total_ms = 0;
};

// JSON, indented. Bytes that are not UTF-8 are kept as base64.
std::string to_json(const RecordedRequest& record);
// Refuses what is no record of a version that is known, with the field at fault.
Result<RecordedRequest> parse_record(std::string_view json, const std::string& where);

// A file, or all *.json of a folder in the order of their names, which is the order of arrival.
Result<std::vector<RecordedRequest>> load_records(const std::string& path);

}  // namespace tessera
