#include "server/record/recorded_request.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "server/record/base64.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

void put_bytes(Json& object, const std::string& name, const std::string& bytes) {
  if (is_utf8(bytes)) {
    object[name] = bytes;
  } else {
    object[name + "_base64"] = to_base64(bytes);
  }
}

// Fields of one object; the first one that is missing or of another type is remembered.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  std::string text(const char* name) {
    const auto found = object_.find(name);
    if (found != object_.end() && found->is_string()) return found->get<std::string>();
    return refuse(name, "a string");
  }
  std::string bytes(const std::string& name) {
    const std::string coded_name = name + "_base64";
    const auto coded = object_.find(coded_name);
    if (coded == object_.end()) return text(name.c_str());
    auto bytes = coded->is_string() ? from_base64(coded->get_ref<const std::string&>()) : std::nullopt;
    return bytes ? *std::move(bytes) : refuse(coded_name.c_str(), "base64");
  }
  double number(const char* name) {
    const auto found = object_.find(name);
    if (found != object_.end() && found->is_number()) return found->get<double>();
    refuse(name, "a number");
    return 0;
  }
  bool boolean(const char* name) {
    const auto found = object_.find(name);
    if (found != object_.end() && found->is_boolean()) return found->get<bool>();
    refuse(name, "true or false");
    return false;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::string refuse(const char* name, const char* wanted) {
    if (!error_) {
      error_ = Error{ErrorKind::kCorrupt, where_, std::string("'") + name + "' must be " + wanted + "."};
    }
    return {};
  }

  const Json& object_;
  std::string where_;
  std::optional<Error> error_;
};

}  // namespace

std::string to_json(const RecordedRequest& record) {
  Json server = {{"version", record.version}, {"model", record.model}, {"fingerprint", record.fingerprint}};
  Json request = {{"id", record.id}, {"method", record.method}, {"path", record.path}};
  put_bytes(request, "user_agent", record.user_agent);
  put_bytes(request, "body", record.body);
  Json answer = {{"status", record.status},
                 {"ended", record.ended},
                 {"first_byte_ms", record.first_byte_ms},
                 {"total_ms", record.total_ms},
                 {"is_whole", record.answer_is_whole}};
  put_bytes(answer, "body", record.answer);
  const Json all = {{"tessera_record", kVersion},
                    {"at", record.at},
                    {"server", std::move(server)},
                    {"request", std::move(request)},
                    {"answer", std::move(answer)}};
  constexpr int kIndent = 2;
  // Whatever a client sent as an id or a path, the file is JSON.
  return all.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<RecordedRequest> parse_record(std::string_view json, const std::string& where) {
  const auto all = Json::parse(json, nullptr, false);
  const auto version = all.is_object() ? all.find("tessera_record") : all.end();
  if (!all.is_object() || version == all.end()) {
    return Error{ErrorKind::kCorrupt, where, "This is no record of a request: 'tessera_record' is missing."};
  }
  if (*version != kVersion) {
    return Error{ErrorKind::kUnsupported, where,
                 "The record has version " + version->dump() + "; this program reads version 1."};
  }
  for (const char* part : {"server", "request", "answer"}) {
    if (!all.contains(part) || !all[part].is_object())
      return Error{ErrorKind::kCorrupt, where, std::string("'") + part + "' must be an object."};
  }
  Reader top(all, where);
  Reader server(all["server"], where + ": server");
  Reader request(all["request"], where + ": request");
  Reader answer(all["answer"], where + ": answer");
  RecordedRequest out;
  out.at = top.text("at");
  out.version = server.text("version");
  out.model = server.text("model");
  out.fingerprint = server.text("fingerprint");
  out.id = request.text("id");
  out.method = request.text("method");
  out.path = request.text("path");
  out.user_agent = request.bytes("user_agent");
  out.body = request.bytes("body");
  const double status = answer.number("status");
  out.status = status >= 0 && status <= 999 ? static_cast<int>(status) : 0;
  out.ended = answer.text("ended");
  out.answer = answer.bytes("body");
  out.answer_is_whole = answer.boolean("is_whole");
  out.first_byte_ms = answer.number("first_byte_ms");
  out.total_ms = answer.number("total_ms");
  for (const Reader* reader : {&top, &server, &request, &answer}) {
    if (reader->error()) return *reader->error();
  }
  // It is sent to a server as it is: nothing of it may become a second header or a second request.
  const auto is_plain = [](char c) { return c > ' ' && c < 127; };
  if (out.method != "POST" || !out.path.starts_with('/') || !std::ranges::all_of(out.path, is_plain)) {
    return Error{ErrorKind::kCorrupt, where + ": request", "It must be a POST to a path without blanks."};
  }
  return out;
}

Result<std::vector<RecordedRequest>> load_records(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  std::vector<std::string> files;
  if (fs::is_directory(path, failed)) {
    for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
      if (at->path().extension() == ".json") files.push_back(at->path().string());
    }
    if (failed) return Error{ErrorKind::kIo, path, "The folder cannot be read: " + failed.message() + "."};
    if (files.empty()) return Error{ErrorKind::kNotFound, path, "The folder holds no *.json file."};
    std::ranges::sort(files);
  } else {
    files.push_back(path);
  }
  std::vector<RecordedRequest> out;
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    if (!file) return Error{ErrorKind::kNotFound, name, "The file cannot be opened."};
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    TS_TRY(RecordedRequest record, parse_record(text, name));
    out.push_back(std::move(record));
  }
  return out;
}

}  // namespace tessera
