#include "server/record/record_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace tessera {

namespace fs = std::filesystem;

bool is_record_name(std::string_view name) {
  constexpr std::string_view kForm = "00000000T000000000Z-000000";
  constexpr std::string_view kEnding = ".json";
  if (!name.ends_with(kEnding)) return false;
  name.remove_suffix(kEnding.size());
  if (name.size() < kForm.size()) return false;  // the last number may have grown
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_digit = name[i] >= '0' && name[i] <= '9';
    if (i >= kForm.size() || kForm[i] == '0' ? !is_digit : name[i] != kForm[i]) return false;
  }
  return true;
}

Result<RecordFolder> RecordFolder::open(std::string path, std::int64_t most_bytes) {
  std::error_code failed;
  if (fs::create_directories(path, failed)) fs::permissions(path, fs::perms::owner_all, failed);
  if (!failed && access(path.c_str(), W_OK | X_OK) != 0)
    failed = std::error_code(errno, std::system_category());
  if (!failed && !fs::is_directory(path, failed)) failed = std::make_error_code(std::errc::not_a_directory);
  RecordFolder folder(path, most_bytes);
  if (!failed) {
    for (auto entry = fs::directory_iterator(path, failed); !failed && entry != fs::directory_iterator();
         entry.increment(failed)) {
      const std::string name = entry->path().filename().string();
      std::error_code gone;
      const auto size = entry->is_regular_file(gone) ? entry->file_size(gone) : 0;
      if (gone || !is_record_name(name)) continue;
      folder.files_[name] = static_cast<std::int64_t>(size);
      folder.bytes_ += static_cast<std::int64_t>(size);
    }
  }
  if (failed) {
    return Error{ErrorKind::kIo, "--record-requests",
                 "The folder '" + path + "' cannot be written to: " + failed.message() + "."};
  }
  return folder;
}

std::string RecordFolder::next_file(std::string_view at) {
  std::string stamp(at);
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':' || c == '.'; });
  std::string file;
  do {
    std::string number = std::to_string(++named_);
    number.insert(0, number.size() < 6 ? 6 - number.size() : 0, '0');
    file = path_ + "/" + stamp + "-" + number + ".json";
  } while (fs::exists(file));
  return file;
}

std::int64_t RecordFolder::added(const std::string& file, std::int64_t bytes) {
  const std::string name = fs::path(file).filename().string();
  files_[name] = bytes;
  bytes_ += bytes;
  std::int64_t deleted = 0;
  for (auto oldest = files_.begin(); bytes_ > most_bytes_ && oldest != files_.end();) {
    if (oldest->first == name) {
      ++oldest;
      continue;
    }
    std::error_code ignored;  // somebody else has taken it away: just as well
    fs::remove(fs::path(path_) / oldest->first, ignored);
    bytes_ -= oldest->second;
    oldest = files_.erase(oldest);
    ++deleted;
  }
  return deleted;
}

}  // namespace tessera
