#include "stack/plan/plan_file.h"

#include <fstream>
#include <sstream>

#include "stack/object/next_command.h"
#include "stack/plan/plan_reader.h"

namespace tessera::stack {

std::string PlanFile::folder() const {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string PlanFile::beside(std::string_view relative) const {
  return (std::filesystem::path(folder()) / std::filesystem::path(relative)).lexically_normal().string();
}

Result<std::string> load_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorKind::kNotFound, path, "The file cannot be opened."};
  std::ostringstream out;
  out << file.rdbuf();
  if (file.bad()) return Error{ErrorKind::kIo, path, "Reading failed."};
  return std::move(out).str();
}

Result<void> save_text(const std::string& path, std::string_view text) {
  const std::string beside = path + ".new";
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) return Error{ErrorKind::kIo, beside, "Writing failed; the old file stays."};
  }
  std::error_code failed;
  std::filesystem::rename(beside, path, failed);
  if (failed)
    return Error{ErrorKind::kIo, path, "The new file could not take its place: " + failed.message() + "."};
  return {};
}

Result<void> save_below(const std::filesystem::path& path, std::string_view text) {
  std::error_code failed;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  return save_text(path.string(), text);
}

Result<PlanFile> load_plan(const std::string& path) {
  auto text = load_text(path);
  if (!text) {
    return Error{ErrorKind::kNotFound, path,
                 with_next("There is no such plan; init writes one, --plan names another",
                           "tessera-stack init --repo REPO --base COMMIT --tree SOURCE")};
  }
  TS_TRY(Plan plan, read_plan(*text, std::filesystem::path(path).filename().string()));
  return PlanFile{path, *std::move(text), std::move(plan)};
}

}  // namespace tessera::stack
