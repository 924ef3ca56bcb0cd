// What an answer says, without what differs from one time to the next: ids, times, how a stream was cut up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Of a completion, whole or streamed: one text a choice, with its thought, its content and its calls. Of an
// error: its message. Of anything else: all of it.
std::vector<std::string> texts_of_answer(std::string_view body);

// Whether a completion gives the same text each time: it is greedy, or has a seed.
bool is_repeatable(std::string_view request_body);

}  // namespace tessera
