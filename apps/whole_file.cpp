#include "whole_file.h"

#include <fstream>
#include <sstream>

namespace tessera {

Result<std::string> read_whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorKind::kNotFound, path, "The file cannot be read."};
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<void> write_whole_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return {};
  return Error{ErrorKind::kIo, path, "The file cannot be written."};
}

}  // namespace tessera
