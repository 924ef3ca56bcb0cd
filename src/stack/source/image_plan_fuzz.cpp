// Any JSON as the documents of an image: no crash, no endless chain of parents or indexes.
// Input: documents separated by a 0xFF byte, the first byte of each choosing its name.
#include <cstdint>
#include <map>

#include "stack/object/digest.h"
#include "stack/source/image_plan.h"

namespace {

using namespace tessera;
using namespace tessera::stack;

class Documents final : public Container {
 public:
  bool has(const std::string& name) const override { return texts.contains(name); }
  Result<std::string> read(const std::string& name) const override {
    const auto found = texts.find(name);
    if (found == texts.end()) return Error{ErrorKind::kNotFound, name, "Absent."};
    return found->second;
  }
  Result<std::string> resolve(const std::string& name) const override {
    if (!has(name)) return Error{ErrorKind::kNotFound, name, "Absent."};
    return name;
  }
  std::uint64_t size_of(const std::string&) const override { return 0; }
  bool is_random_access() const override { return false; }
  Result<void> visit(const std::set<std::string>&, const Visit&) const override { return {}; }
  std::vector<std::string> names_ending(std::string_view) const override { return {}; }
  std::map<std::string, std::string> texts;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  static constexpr const char* kNames[] = {"index.json",  "manifest.json", "repositories", "a/json", "b/json",
                                           "a/layer.tar", "b/layer.tar",   "oci-layout",   "c.json"};
  Documents documents;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\xff', at), bytes.size());
    if (end > at) {
      const std::string text(bytes.substr(at + 1, end - at - 1));
      documents.texts[kNames[static_cast<std::uint8_t>(bytes[at]) % std::size(kNames)]] = text;
      documents.texts["blobs/sha256/" + sha256_digest(text).substr(7)] = text;
    }
    at = end + 1;
  }
  (void)plan_image(documents, "fuzz", "", {});
  return 0;
}
