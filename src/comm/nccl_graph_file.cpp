#include "comm/nccl_graph_file.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "comm/xml_tags.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxBytes = 4 << 20;  // real files have 2 to 20 KB; a wrong path may be a checkpoint
constexpr std::size_t kMaxDepth = 16;       // real files have 4

// As NCCL reads them: decimal, or hexadecimal behind 0x.
std::optional<int> parse_int(std::string_view text) {
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string list(const std::set<int>& devices) {
  std::string text;
  for (const int device : devices) text += (text.empty() ? "" : ", ") + std::to_string(device);
  return "{" + text + "}";
}

// Walks the tags once; what is open, outermost first, says what a tag means.
class Reader {
 public:
  Reader(std::string_view xml, const std::string& path) : tags_(xml), path_(path) {}

  Result<NcclGraphFile> read() {
    while (true) {
      auto next = tags_.next();
      if (!next) return error(std::move(next).error().what);
      if (!next->has_value()) break;
      const XmlTag& tag = **next;
      if (tag.kind != XmlTag::Kind::kClose) {
        TS_TRY(open(tag));
      }
      if (tag.kind != XmlTag::Kind::kOpen) {
        TS_TRY(close(tag.name));
      }
    }
    if (!open_.empty()) return error("the file ends inside <" + open_.back() + ">; it is truncated");
    if (file_.graphs == 0) return error("no <graph> inside <graphs>; this is not an NCCL graph file");
    if (file_.channels == 0) return error("no graph has a channel, so the file describes no ranks");
    file_.path = path_;
    file_.ranks = static_cast<int>(devices_.size());
    return file_;
  }

 private:
  Error error(std::string what) const {
    return {ErrorKind::kCorrupt, path_ + ":" + std::to_string(tags_.line()), std::move(what)};
  }

  bool inside(std::initializer_list<std::string_view> path) const { return std::ranges::equal(open_, path); }

  Result<void> open(const XmlTag& tag) {
    if (open_.size() == kMaxDepth)
      return error("elements are nested deeper than " + std::to_string(kMaxDepth));
    if (open_.empty() && tag.name != "graphs")
      return error("the root element is <" + std::string(tag.name) +
                   ">, an NCCL graph file begins with <graphs>");
    if (tag.name == "graph" && inside({"graphs"})) {
      const auto declared = tag.attribute("nchannels");
      declared_ = declared ? parse_int(*declared) : std::nullopt;
      if (!declared_)
        return error("a <graph> needs nchannels, a count, found \"" + std::string(declared.value_or("")) +
                     '"');
      in_graph_ = 0;
    } else if (tag.name == "channel" && inside({"graphs", "graph"})) {
      channel_.clear();
    } else if (tag.name == "gpu" && inside({"graphs", "graph", "channel"})) {
      const auto text = tag.attribute("dev");
      const auto device = text ? parse_int(*text) : std::nullopt;
      if (!device)
        return error("a <gpu> needs dev, a GPU's index, found \"" + std::string(text.value_or("")) + '"');
      if (!channel_.insert(*device).second)
        return error("a channel names GPU " + std::to_string(*device) + " twice");
    }
    open_.emplace_back(tag.name);
    return {};
  }

  Result<void> close(std::string_view name) {
    if (open_.empty() || open_.back() != name)
      return error("</" + std::string(name) + "> closes " +
                   (open_.empty() ? "nothing" : "<" + open_.back() + ">"));
    open_.pop_back();
    if (name == "graph" && inside({"graphs"})) {
      ++file_.graphs;
      if (in_graph_ != *declared_)
        return error("a graph declares " + std::to_string(*declared_) + " channels and has " +
                     std::to_string(in_graph_));
    } else if (name == "channel" && inside({"graphs", "graph"})) {
      if (channel_.empty()) return error("a channel names no GPU");
      if (file_.channels == 0) devices_ = channel_;
      if (channel_ != devices_)
        return error("a channel names GPUs " + list(channel_) + ", the first one " + list(devices_));
      ++file_.channels;
      ++in_graph_;
    }
    return {};
  }

  XmlTags tags_;
  const std::string& path_;
  std::vector<std::string> open_;
  NcclGraphFile file_;
  std::set<int> devices_;  // of the file's first channel
  std::set<int> channel_;  // of the channel being read
  std::optional<int> declared_;
  int in_graph_ = 0;
};

std::string ranks(int count) { return std::to_string(count) + (count == 1 ? " rank" : " ranks"); }

}  // namespace

Result<NcclGraphFile> parse_nccl_graph_file(std::string_view xml, const std::string& path) {
  return Reader(xml, path).read();
}

Result<NcclGraphFile> read_nccl_graph_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return Error{
        ErrorKind::kNotFound, path,
        "NCCL_GRAPH_FILE names a file that cannot be opened; correct the path or unset the variable."};
  }
  std::string xml(kMaxBytes + 1, '\0');
  in.read(xml.data(), static_cast<std::streamsize>(xml.size()));
  if (in.bad())
    return Error{ErrorKind::kIo, path, "NCCL_GRAPH_FILE names something that cannot be read as a file."};
  xml.resize(static_cast<std::size_t>(in.gcount()));
  if (xml.size() > kMaxBytes) {
    return Error{ErrorKind::kTooLarge, path,
                 "NCCL_GRAPH_FILE names a file of more than " + std::to_string(kMaxBytes) +
                     " bytes; is it the right one?"};
  }
  return parse_nccl_graph_file(xml, path);
}

NcclGraphDecision decide_nccl_graph(const std::optional<NcclGraphFile>& file, const std::string& group,
                                    int group_size) {
  const std::string who = "nccl group " + group + " of " + ranks(group_size) + ": ";
  if (!file) return {NcclGraphUse::kKeep, who + "NCCL_GRAPH_FILE is not set, NCCL searches its channels"};
  if (file->applies_to(group_size)) {
    return {NcclGraphUse::kKeep, who + "NCCL_GRAPH_FILE applies (" + file->path + ", " +
                                     std::to_string(file->channels) + " channels over " + ranks(file->ranks) +
                                     ")"};
  }
  return {NcclGraphUse::kRemove, who + "created without NCCL_GRAPH_FILE, which describes " +
                                     ranks(file->ranks) + " (" + file->path + ")"};
}

Result<NcclGraphDecision> decide_nccl_graph(const char* environment_value, const std::string& group,
                                            int group_size) {
  if (environment_value == nullptr)
    return decide_nccl_graph(std::optional<NcclGraphFile>(), group, group_size);
  if (*environment_value == '\0') {  // NCCL would try to open a file without a name
    return NcclGraphDecision{NcclGraphUse::kRemove, "nccl group " + group + " of " + ranks(group_size) +
                                                        ": created without NCCL_GRAPH_FILE, which is empty"};
  }
  TS_TRY(NcclGraphFile file, read_nccl_graph_file(environment_value));
  return decide_nccl_graph(std::optional(std::move(file)), group, group_size);
}

}  // namespace tessera
