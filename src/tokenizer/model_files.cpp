#include "tokenizer/model_files.h"

#include <fstream>

namespace tessera {

Result<std::string> read_model_file(const std::filesystem::path& path) {
  constexpr std::uintmax_t kMaxBytes = 256U * 1024 * 1024;
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(path, failed);
  if (failed) return Error{ErrorKind::kIo, path.string(), "Cannot be read: " + failed.message() + "."};
  if (bytes > kMaxBytes) {
    return Error{
        ErrorKind::kTooLarge, path.string(),
        "Has " + std::to_string(bytes) + " bytes; at most " + std::to_string(kMaxBytes) + " are read."};
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(bytes))) {
    return Error{ErrorKind::kIo, path.string(), "Cannot be read."};
  }
  return text;
}

}  // namespace tessera
