// A folder of records that stays below a size: the oldest go first. Nothing but records is touched.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera {

class RecordFolder {
 public:
  // Makes the folder, for the owner alone, or says why it cannot; what earlier servers left counts.
  static Result<RecordFolder> open(std::string path, std::int64_t most_bytes);

  // For a request that came at `at` (RecordedRequest::at): sorts by arrival, and no two are equal.
  std::string next_file(std::string_view at);
  // A file that next_file() named is there now. Deletes the oldest others until the folder fits; how many.
  std::int64_t added(const std::string& file, std::int64_t bytes);

  std::int64_t bytes() const { return bytes_; }

 private:
  RecordFolder(std::string path, std::int64_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {}

  std::string path_;
  std::int64_t most_bytes_;
  std::int64_t named_ = 0;
  std::int64_t bytes_ = 0;
  std::map<std::string, std::int64_t> files_;  // by name, and so by arrival
};

// "20261130T180915123Z-000001.json"
bool is_record_name(std::string_view name);

}  // namespace tessera
