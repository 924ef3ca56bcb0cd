// /tokenize and /detokenize, as vLLM has them.
#pragma once

#include <string>

#include "server/prepare.h"

namespace tessera {

// {"prompt": …} or {"messages": …}: the tokens, their number, and the window they must fit in.
ApiResult<std::string> tokenize(const PrepareContext& context, const Json& body);
ApiResult<std::string> detokenize(const PrepareContext& context, const Json& body);

}  // namespace tessera
