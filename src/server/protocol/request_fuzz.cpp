// Bodies come from anybody: whatever the bytes are, they become a request or a refusal that is itself JSON.
#include <cstddef>
#include <cstdint>

#include "server/protocol/chat_history.h"
#include "server/protocol/chat_request.h"
#include "server/protocol/completion_request.h"
#include "server/protocol/json_body.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const auto check = [](const ApiError& error) {
    TS_CHECK(error.status >= 400 && error.status < 500, error.status);
    TS_CHECK(!nlohmann::json::parse(error.to_json(), nullptr, false).is_discarded());
  };
  auto body = parse_json_body({reinterpret_cast<const char*>(data), size}, {.depth = 20, .values = 10'000});
  if (!body) {
    check(body.error());
    return 0;
  }
  const GenerationLimits limits{.vocab = 1000, .default_sampling = {}};
  if (auto chat = read_chat_request(*body, limits)) {
    for (const bool flag : {false, true}) {
      prepare_history((*chat).prompt.messages, {.canonical_tool_ids = flag, .arguments_as_objects = flag});
    }
  } else {
    check(chat.error());
  }
  if (const auto completion = read_completion_request(*body, limits); !completion) check(completion.error());
  return 0;
}
