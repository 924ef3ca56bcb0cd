// What a message ends with: the command that goes on from here, ready to be pasted. Words in capitals are the
// user's to fill in.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace tessera::stack {

// One word for a shell; as it is when it needs no quotes.
std::string shell_quoted(std::string_view word);

// "A sentence." becomes "A sentence; next: command".
std::string with_next(std::string_view sentence, std::string_view command);
Error with_next(Error error, std::string_view command);

// The halves of such a message again.
struct SentenceAndNext {
  std::string sentence;  // with its full stop
  std::string next;      // empty: the message names no command
};
SentenceAndNext split_next(std::string_view message);

}  // namespace tessera::stack
