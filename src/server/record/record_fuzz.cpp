// Records come from other people's machines, and their texts from anybody: whatever the bytes are, reading
// ends in a record or in a refusal, and taking secrets out leaves JSON that is JSON.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "server/record/answer_text.h"
#include "server/record/arrivals.h"
#include "server/record/recorded_request.h"
#include "server/record/replay.h"
#include "server/record/secrets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string text(reinterpret_cast<const char*>(data), size);
  texts_of_answer(text);
  is_repeatable(text);
  const std::string clean = remove_secrets(text, {});
  if (!nlohmann::json::parse(text, nullptr, false).is_discarded()) {
    TS_CHECK(!nlohmann::json::parse(clean, nullptr, false).is_discarded(), clean);
  }
  if (const auto record = parse_record(text, "input")) {
    const auto again = parse_record(to_json(*record), "again");
    TS_CHECK(again.ok());
    TS_CHECK(again->body == record->body);
    judge(*record, ReplayAnswer{.status = record->status, .body = record->body}, 1);
    (void)arrivals_of({&*record, 1});
  }
  return 0;
}
